// Memory that processes share: sealed memfds and their mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl {

/// A mapping with one owner.
class MappedRegion {
public:
    MappedRegion() = default;

    MappedRegion(void *address, std::size_t size) : address_(address), size_(size) {}

    MappedRegion(MappedRegion &&other) noexcept
        : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

    MappedRegion &
    operator=(MappedRegion &&other) noexcept {
        std::swap(address_, other.address_);
        std::swap(size_, other.size_);
        return *this;
    }

    ~MappedRegion();

    std::byte *
    data() const {
        return static_cast<std::byte *>(address_);
    }

    std::size_t
    size() const {
        return size_;
    }

private:
    void *address_ = nullptr;
    std::size_t size_ = 0;
};

/// A memfd with the mapping of whoever made it.
struct SharedMemory {
    ScopedFd fd;
    MappedRegion mapping; ///< readable and writable, zeros at first
};

/// Makes memory of a fixed size that only this process can write: it is sealed against resizing, against
/// other writable mappings and writes, and against changes of the seals. Pages exist once they are touched.
Result<SharedMemory> createSharedMemory(const char *name, std::size_t size);

/// Maps a foreign memfd for reading, after checking that it can neither shrink (an access beyond the end
/// would kill us) nor grow, is ordinary memory and has exactly `size` bytes. NIXL_ERR_MISMATCH: it is
/// something else.
Result<MappedRegion> mapForeignMemory(int fd, std::size_t size);

/// Maps a piece of a foreign memfd for reading and writing, after checking that it cannot shrink and reaches
/// as far as the piece does. Huge pages are taken if all of them are there, since one that is missing at the
/// first access would kill us. NIXL_ERR_MISMATCH: it is something else; NIXL_ERR_BACKEND: it cannot be
/// mapped.
Result<MappedRegion> mapForeignPiece(int fd, std::uint64_t offset, std::uint64_t size);

} // namespace nixl
