// Registered memory: an agent's own, and that of its peers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engines/ucx/connection.h"
#include "engines/ucx/packed_bytes.h"
#include "engines/ucx/region_keys.h"
#include "util/fork_guard.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// Memory that UCX has mapped.
class OwnRegion : public LocalRegion {
public:
    /// Registers descriptors in their order until one fails; `out` gets a region for each before it.
    /// NIXL_ERR_BACKEND: not mapped, or memory of another kind than `memory` says.
    static Status create(Context &context, RegionKeys &keys, std::span<const nixlBlobDesc> descs,
                         nixl_mem_t memory, std::vector<std::unique_ptr<LocalRegion>> &out);

    ~OwnRegion() override;

    /// Messages of peers reach the memory no more. False: UCX still reads it for an answer on its way.
    /// Harmless when repeated.
    bool close();

    /// Ends the mapping: hardware reaches the memory no more. Harmless when repeated.
    Status unmap();

    /// REQUIRES: mapped.
    ucp_mem_h
    handle() const {
        return handle_;
    }

    /// The packed remote key.
    const std::string &
    packedKey() const {
        return packedKey_;
    }

    /// The key for messages; 0: they do not reach such memory.
    std::uint64_t
    messageKey() const {
        return messageKey_;
    }

private:
    static Result<std::unique_ptr<LocalRegion>> create(Context &context, RegionKeys &keys,
                                                       const nixlBlobDesc &desc, nixl_mem_t memory);

    OwnRegion(Context &context, RegionKeys &keys, ucp_mem_h handle, std::string packedKey)
        : context_(context), keys_(keys), handle_(handle), packedKey_(std::move(packedKey)) {}

    Context &context_;
    RegionKeys &keys_;
    ucp_mem_h handle_; ///< null: unmapped
    const std::string packedKey_;
    std::shared_ptr<OpenMemory> open_;
    std::uint64_t messageKey_ = 0;
};

/// A packed remote key, and what the connections of one peer have unpacked of it: when a connection first
/// needs it, once for each opening.
class RemoteKey {
public:
    /// `packed`: a checked and padded packed remote key.
    RemoteKey(const std::vector<std::unique_ptr<ProgressWorker>> &workers, std::string packed);

    ~RemoteKey();

    RemoteKey(const RemoteKey &) = delete;
    RemoteKey &operator=(const RemoteKey &) = delete;

    /// The key for a connection. REQUIRES: the lock of its worker; opening number `opening` stands.
    Result<ucp_rkey_h> on(const Connection &connection, std::uint64_t opening);

    const std::string &
    packed() const {
        return packed_;
    }

private:
    struct Key {
        std::uint64_t opening;
        ucp_rkey_h handle;
    };

    const ForkGuard guard_;
    const std::vector<std::unique_ptr<ProgressWorker>> &workers_;
    const std::string packed_;
    // By index of the worker, each under that worker's lock; the last is the newest. Those of the openings
    // before stay for a while: operations that are being cancelled may still refer to them.
    std::vector<std::vector<Key>> keys_;
};

/// Makes keys of one peer. Where a key does not tell registrations apart, as over TCP, all regions have the
/// same, and unpack it once. Thread-safe.
class RemoteKeys {
public:
    explicit RemoteKeys(const std::vector<std::unique_ptr<ProgressWorker>> &workers) : workers_(workers) {}

    /// The key of these bytes, which `check` must accept unless they are those of the key before.
    template<typename Check>
    Result<std::shared_ptr<RemoteKey>>
    get(std::string_view packed, Check check) {
        const LockGuard lock(mutex_);
        auto last = last_.lock();
        if (last && packed == std::string_view(last->packed()).substr(0, lastBytes_))
            return last;
        NIXL_RETURN_IF_ERROR(check(packed));
        last = std::make_shared<RemoteKey>(workers_, padded(packed));
        last_ = last;
        lastBytes_ = packed.size();
        return last;
    }

private:
    const std::vector<std::unique_ptr<ProgressWorker>> &workers_;
    Mutex mutex_;
    std::weak_ptr<RemoteKey> last_ NIXL_GUARDED_BY(mutex_);
    std::size_t lastBytes_ NIXL_GUARDED_BY(mutex_) = 0; ///< of last_ without its padding
};

/// A region as the target of transfers: of a peer, or of this agent.
class PeerRegion : public RemoteRegion {
public:
    /// `messageKey`: 0 if the peer takes no messages for it.
    PeerRegion(std::shared_ptr<RemoteKey> key, std::uint64_t messageKey)
        : key_(std::move(key)), messageKey_(messageKey) {}

    std::uint64_t
    messageKey() const {
        return messageKey_;
    }

    /// The key for a connection; see RemoteKey::on().
    Result<ucp_rkey_h>
    key(const Connection &connection, std::uint64_t opening) {
        return key_->on(connection, opening);
    }

private:
    const std::shared_ptr<RemoteKey> key_;
    const std::uint64_t messageKey_;
};

} // namespace nixl::ucx
