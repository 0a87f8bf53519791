// The bytes of a telemetry buffer file, shared by its writer and its readers; docs/telemetry.md describes
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "telemetry_event.h"
#include "util/mapped_region.h"
#include "util/scoped_fd.h"

namespace nixl {

/// Start of the file; `capacity` events follow it. Positions are slot numbers below the capacity: the ring is
/// empty when they are equal, and full when the writer would have to make them equal, so one slot stays free.
struct BufferHeader {
    std::atomic<std::uint64_t> writePosition; ///< next slot to be written; moved by the writer alone
    std::atomic<std::uint64_t> readPosition;  ///< next slot to be read; moved by readers alone
    std::int32_t version;
    std::int32_t expectedVersion; ///< the same number again
    std::uint64_t capacity;       ///< a power of two
    std::uint64_t mask;           ///< capacity - 1
};

static_assert(sizeof(BufferHeader) == 40 && offsetof(BufferHeader, version) == 16);
static_assert(offsetof(BufferHeader, capacity) == 24 && offsetof(BufferHeader, mask) == 32);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint64_t kMaxBufferEvents = std::uint64_t{1} << 26;

constexpr std::size_t
bufferFileSize(std::uint64_t capacity) {
    return sizeof(BufferHeader) + static_cast<std::size_t>(capacity) * sizeof(nixlTelemetryEvent);
}

/// True if capacity and mask fit each other. Takes plain copies, since the file itself may change at any
/// moment.
constexpr bool
bufferShapeValid(std::uint64_t capacity, std::uint64_t mask) {
    return capacity >= 1 && capacity <= kMaxBufferEvents && (capacity & (capacity - 1)) == 0 &&
           mask == capacity - 1;
}

/// A buffer file mapped for reading and writing.
class BufferMapping {
public:
    /// Maps the first `size` bytes. On failure the result is not valid() and errno says why.
    static BufferMapping map(ScopedFd fd, std::size_t size);

    bool
    valid() const {
        return region_.data() != nullptr;
    }

    int
    fd() const {
        return fd_.get();
    }

    std::size_t
    size() const {
        return region_.size();
    }

    BufferHeader &
    header() const {
        return *reinterpret_cast<BufferHeader *>(region_.data());
    }

    /// REQUIRES: index < the capacity that `size` was computed from.
    std::byte *
    slot(std::uint64_t index) const {
        return region_.data() + bufferFileSize(index);
    }

private:
    ScopedFd fd_;
    MappedRegion region_;
};

} // namespace nixl
