// Memory that other processes of this host can map: memfds sealed against shrinking.
//
// The memory of a file that can shrink kills whoever touches what is gone, so nothing else is ever given to a
// peer. Which memory is of this kind is not searched for: /proc/self/maps costs milliseconds in a large
// process, a registration must cost microseconds, and the descriptor may long be closed. It is known because
// it was made here, or because the program said so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl {

/// One mapping of a sealed memfd, known to the process from its construction to its end. Constant;
/// thread-safe. In a forked child the mapping and the knowledge of it are inherited: parent and child share
/// the bytes, and each unmaps its own mapping.
class SealedMemory {
public:
    /// Makes memory of at least one byte, zeros at first, sealed to its size and mapped for reading and
    /// writing. Pages exist once they are touched, transparently huge ones where the system gives them.
    /// `hugePages`: reserves explicit huge pages; where there are none, the memory has ordinary ones and
    /// note() says why. NIXL_ERR_INVALID_PARAM: 0 bytes; NIXL_ERR_BACKEND: the system refuses, and the
    /// message names the size and the cause.
    static Result<std::shared_ptr<const SealedMemory>> create(std::size_t bytes, bool hugePages);

    /// Makes known that [address, address + bytes) is mapped from `fd`, which is checked: a memfd that cannot
    /// shrink, mapped there in one piece, shared, for reading and writing. The descriptor is duplicated; the
    /// mapping stays the caller's and must outlive the result. NIXL_ERR_INVALID_PARAM says what does not
    /// hold.
    static Result<std::shared_ptr<const SealedMemory>> adopt(int fd, std::uint64_t address,
                                                             std::size_t bytes);

    /// The memory that holds all of a range; nullptr: it is not of this kind.
    static std::shared_ptr<const SealedMemory> covering(std::uint64_t address, std::uint64_t bytes);

    ~SealedMemory();
    SealedMemory(const SealedMemory &) = delete;
    SealedMemory &operator=(const SealedMemory &) = delete;

    /// Not 0; no other memory of the process ever had it.
    std::uint64_t
    id() const {
        return id_;
    }

    int
    fd() const {
        return fd_.get();
    }

    std::uint64_t
    address() const {
        return address_;
    }

    /// As asked for.
    std::size_t
    bytes() const {
        return bytes_;
    }

    /// What peers can reach: of memory that was made here, whole pages.
    std::size_t
    mappedBytes() const {
        return mappedBytes_;
    }

    /// Where the mapping begins in the file.
    std::uint64_t
    offset() const {
        return offset_;
    }

    std::size_t
    pageBytes() const {
        return pageBytes_;
    }

    /// Why there are no huge pages although they were asked for; else empty.
    const std::string &
    note() const {
        return note_;
    }

private:
    SealedMemory() = default;
    Status enter(const std::shared_ptr<SealedMemory> &self);

    std::uint64_t id_ = 0;
    ScopedFd fd_;
    std::uint64_t address_ = 0;
    std::size_t bytes_ = 0;
    std::size_t mappedBytes_ = 0;
    std::uint64_t offset_ = 0;
    std::size_t pageBytes_ = 0;
    std::string note_;
    bool ownsMapping_ = false;
    bool entered_ = false;
};

} // namespace nixl
