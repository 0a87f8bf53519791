/**
 * @file nixl_descriptors.h
 * Descriptors name pieces of memory; lists of them are what agents register and transfer.
 *
 * Threads: objects of these classes are plain values without locks; share them between threads only for
 * reading.
 */
#ifndef NIXL_DESCRIPTORS_H
#define NIXL_DESCRIPTORS_H

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nixl_types.h"

/** A contiguous piece of memory: 24 bytes, in this order, both here and on the wire. */
class NIXL_EXPORT nixlBasicDesc {
public:
    std::uintptr_t addr; ///< address or offset; see nixl_mem_t
    std::size_t len;     ///< bytes
    std::uint64_t devId; ///< device, file or object id; see nixl_mem_t

    /** Leaves the fields uninitialised, as lists of many descriptors want it. */
    nixlBasicDesc() = default;

    nixlBasicDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id)
        : addr(address), len(length), devId(dev_id) {}

    /** Reads the 24 bytes of serialize(); any other length gives a descriptor of zeros. */
    nixlBasicDesc(const nixl_blob_t &blob);

    /** Order by devId, then addr, then len. */
    bool
    operator<(const nixlBasicDesc &other) const {
        if (devId != other.devId)
            return devId < other.devId;
        return addr != other.addr ? addr < other.addr : len < other.len;
    }

    friend bool
    operator==(const nixlBasicDesc &a, const nixlBasicDesc &b) {
        return a.addr == b.addr && a.len == b.len && a.devId == b.devId;
    }

    friend bool
    operator!=(const nixlBasicDesc &a, const nixlBasicDesc &b) {
        return !(a == b);
    }

    /** True if `query` lies inside this descriptor on the same device. A range that wraps is never covered.
     */
    bool
    covers(const nixlBasicDesc &query) const {
        return devId == query.devId && addr <= query.addr && query.addr - addr <= len &&
               query.len <= len - (query.addr - addr);
    }

    /** True if the half-open ranges share a byte on the same device. */
    bool
    overlaps(const nixlBasicDesc &other) const {
        if (devId != other.devId || len == 0 || other.len == 0)
            return false;
        return addr <= other.addr ? other.addr - addr < len : addr - other.addr < other.len;
    }

    nixl_blob_t serialize() const;
    /** Writes the fields and `suffix` to the log at level INFO. */
    void print(const std::string &suffix) const;
};

/** A descriptor with text for the engine: a path, a key, or nothing. */
class NIXL_EXPORT nixlBlobDesc : public nixlBasicDesc {
public:
    nixl_blob_t metaInfo;

    nixlBlobDesc() = default;

    nixlBlobDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id,
                 const nixl_blob_t &meta_info = {})
        : nixlBasicDesc(address, length, dev_id), metaInfo(meta_info) {}

    nixlBlobDesc(const nixlBasicDesc &desc, const nixl_blob_t &meta_info)
        : nixlBasicDesc(desc), metaInfo(meta_info) {}

    /** Reads serialize(): 24 bytes, then metaInfo; less than 24 bytes give zeros. */
    nixlBlobDesc(const nixl_blob_t &blob);

    friend bool
    operator==(const nixlBlobDesc &a, const nixlBlobDesc &b) {
        return static_cast<const nixlBasicDesc &>(a) == b && a.metaInfo == b.metaInfo;
    }

    friend bool
    operator!=(const nixlBlobDesc &a, const nixlBlobDesc &b) {
        return !(a == b);
    }

    nixl_blob_t serialize() const;
    void print(const std::string &suffix) const;
};

/** A descriptor in the memory of a named agent. */
class NIXL_EXPORT nixlRemoteDesc : public nixlBasicDesc {
public:
    std::string remoteAgent;

    nixlRemoteDesc() = default;

    nixlRemoteDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id,
                   const std::string &remote_agent)
        : nixlBasicDesc(address, length, dev_id), remoteAgent(remote_agent) {}

    nixlRemoteDesc(const nixlBasicDesc &desc, const std::string &remote_agent)
        : nixlBasicDesc(desc), remoteAgent(remote_agent) {}

    /** Reads serialize(): 24 bytes, then the agent's name; less than 24 bytes give zeros. */
    explicit nixlRemoteDesc(const nixl_blob_t &blob);

    friend bool
    operator==(const nixlRemoteDesc &a, const nixlRemoteDesc &b) {
        return static_cast<const nixlBasicDesc &>(a) == b && a.remoteAgent == b.remoteAgent;
    }

    friend bool
    operator!=(const nixlRemoteDesc &a, const nixlRemoteDesc &b) {
        return !(a == b);
    }

    nixl_blob_t serialize() const;
    void print(const std::string &suffix) const;
};

/**
 * `count` pieces of `len` bytes, `stride` bytes from the start of one to the start of the next: 40 bytes.
 * Legal for preparing if count >= 1, len >= 1, stride >= len and the last byte's address does not wrap.
 */
class NIXL_EXPORT nixlStrideDesc : public nixlBasicDesc {
public:
    std::size_t stride;
    std::size_t count;

    nixlStrideDesc() = default;

    nixlStrideDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id,
                   const std::size_t &step, const std::size_t &pieces)
        : nixlBasicDesc(address, length, dev_id), stride(step), count(pieces) {}

    friend bool
    operator==(const nixlStrideDesc &a, const nixlStrideDesc &b) {
        return static_cast<const nixlBasicDesc &>(a) == b && a.stride == b.stride && a.count == b.count;
    }

    friend bool
    operator!=(const nixlStrideDesc &a, const nixlStrideDesc &b) {
        return !(a == b);
    }

    void print(const std::string &suffix) const;
};

/** A list of descriptors of one kind of memory. */
template<class T> class NIXL_EXPORT nixlDescList {
public:
    /** `init_size` default descriptors; a negative size throws std::length_error. */
    nixlDescList(const nixl_mem_t &type, const int &init_size = 0)
        : type_(type), descs_(static_cast<std::size_t>(init_size)) {}

    /**
     * Reads what serialize() wrote, at the cursor of `deserializer`. Bytes that are not such a list of this
     * kind give an empty DRAM_SEG list; nothing is thrown and no memory is taken for what is not there.
     */
    nixlDescList(nixlSerDes *deserializer);

    nixlDescList(const nixlDescList &) = default;
    nixlDescList(nixlDescList &&) noexcept = default;
    nixlDescList &operator=(const nixlDescList &) = default;
    nixlDescList &operator=(nixlDescList &&) noexcept = default;
    virtual ~nixlDescList() = default;

    nixl_mem_t
    getType() const {
        return type_;
    }

    int
    descCount() const {
        return static_cast<int>(descs_.size());
    }

    bool
    isEmpty() const {
        return descs_.empty();
    }

    /** REQUIRES: 0 <= index < descCount(). */
    const T &
    operator[](unsigned int index) const {
        return descs_[index];
    }

    T &
    operator[](unsigned int index) {
        return descs_[index];
    }

    typename std::vector<T>::const_iterator
    begin() const {
        return descs_.begin();
    }

    typename std::vector<T>::const_iterator
    end() const {
        return descs_.end();
    }

    typename std::vector<T>::iterator
    begin() {
        return descs_.begin();
    }

    typename std::vector<T>::iterator
    end() {
        return descs_.end();
    }

    virtual void
    resize(const std::size_t &count) {
        descs_.resize(count);
    }

    void
    reserve(const std::size_t &count) {
        descs_.reserve(count);
    }

    void
    clear() {
        descs_.clear();
    }

    virtual void
    addDesc(const T &desc) {
        descs_.push_back(desc);
    }

    template<typename... Args>
    T &
    emplace(Args &&...args) {
        return descs_.emplace_back(std::forward<Args>(args)...);
    }

    /** Removes the descriptor at `index`; throws std::out_of_range if there is none. Linear. */
    void
    remDesc(const int &index) {
        if (index < 0 || index >= descCount())
            throwOutOfRange(index);
        descs_.erase(descs_.begin() + index);
    }

    /** The same list without what goes beyond address, length and device. */
    nixlDescList<nixlBasicDesc>
    trim() const {
        nixlDescList<nixlBasicDesc> trimmed(type_);
        trimmed.reserve(descs_.size());
        for (const T &desc : descs_)
            trimmed.addDesc(desc);
        return trimmed;
    }

    /** Position of the first descriptor of this address, length and device; NIXL_ERR_NOT_FOUND if none.
     * Linear. */
    virtual int
    getIndex(const nixlBasicDesc &query) const {
        const auto found = std::find_if(descs_.begin(), descs_.end(), [&](const T &desc) {
            return static_cast<const nixlBasicDesc &>(desc) == query;
        });
        return found == descs_.end() ? static_cast<int>(NIXL_ERR_NOT_FOUND)
                                     : static_cast<int>(found - descs_.begin());
    }

    /**
     * Appends the list to `serializer` (docs/wire-format.md). Lists of nixlBasicDesc and nixlBlobDesc can be
     * written; others give NIXL_ERR_INVALID_PARAM.
     */
    nixl_status_t serialize(nixlSerDes *serializer) const;

    /** Prints a headline to stdout and the descriptors to the log at level INFO. */
    void print() const;

    /** A text for people; `compact`: the count and a histogram of lengths. */
    std::string to_string(bool compact = false) const;

    friend bool
    operator==(const nixlDescList &a, const nixlDescList &b) {
        return a.type_ == b.type_ && a.descs_ == b.descs_;
    }

private:
    [[noreturn]] void throwOutOfRange(int index) const;

    nixl_mem_t type_;
    std::vector<T> descs_;
};

using nixl_xfer_dlist_t = nixlDescList<nixlBasicDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;
using nixl_remote_dlist_t = nixlDescList<nixlRemoteDesc>;
using nixl_local_dlist_t = nixlDescList<nixlBasicDesc>;
using nixl_stride_dlist_t = nixlDescList<nixlStrideDesc>;

#endif
