#include "telemetry/exporters/buffer_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace nixl {

Result<BufferReader>
BufferReader::open(const std::string &path) {
    ScopedFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd.valid())
        return Status::error(NIXL_ERR_NOT_FOUND, "telemetry buffer '", path,
                             "': ", std::generic_category().message(errno));
    struct stat info;
    if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
        return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path, "': is no regular file");
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size < sizeof(BufferHeader) || size > bufferFileSize(kMaxBufferEvents))
        return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path, "': ", size,
                             " bytes are no telemetry buffer");
    BufferMapping mapping = BufferMapping::map(std::move(fd), size);
    if (!mapping.valid())
        return Status::error(NIXL_ERR_NOT_FOUND, "telemetry buffer '", path,
                             "': ", std::generic_category().message(errno));
    const BufferHeader &header = mapping.header();
    const std::int32_t version = header.version;
    const std::int32_t expectedVersion = header.expectedVersion;
    const std::uint64_t capacity = header.capacity;
    const std::uint64_t mask = header.mask;
    if (version != TELEMETRY_VERSION || expectedVersion != TELEMETRY_VERSION)
        return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path, "': version ", version, "/",
                             expectedVersion, ", only ", TELEMETRY_VERSION, " is understood");
    if (!bufferShapeValid(capacity, mask) || size != bufferFileSize(capacity))
        return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path, "': capacity ", capacity,
                             ", mask ", mask, " and file size ", size, " do not fit each other");
    return BufferReader(std::move(mapping), path, capacity);
}

Result<std::size_t>
BufferReader::pop(std::span<nixlTelemetryEvent> events) {
    // Touching a page that was cut off the file would kill the process.
    struct stat info;
    if (::fstat(mapping_.fd(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) < mapping_.size())
        return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path_, "': the file was cut");
    BufferHeader &header = mapping_.header();
    const std::uint64_t mask = capacity_ - 1;
    while (true) {
        std::uint64_t read = header.readPosition.load(std::memory_order_acquire);
        const std::uint64_t write = header.writePosition.load(std::memory_order_acquire);
        if (read > mask || write > mask)
            return Status::error(NIXL_ERR_MISMATCH, "telemetry buffer '", path_, "': positions ", write,
                                 " and ", read, " are no slots of a ring of ", capacity_);
        const std::size_t count = std::min<std::uint64_t>((write - read) & mask, events.size());
        if (count == 0)
            return std::size_t{0};
        for (std::size_t i = 0; i < count; ++i)
            std::memcpy(&events[i], mapping_.slot((read + i) & mask), sizeof(nixlTelemetryEvent));
        // Another reader may have taken them meanwhile.
        if (header.readPosition.compare_exchange_strong(read, (read + count) & mask,
                                                        std::memory_order_acq_rel))
            return count;
    }
}

} // namespace nixl
