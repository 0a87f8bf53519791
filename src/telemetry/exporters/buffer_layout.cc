#include "telemetry/exporters/buffer_layout.h"

#include <sys/mman.h>

#include <utility>

namespace nixl {

BufferMapping
BufferMapping::map(ScopedFd fd, std::size_t size) {
    BufferMapping mapping;
    void *address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (address == MAP_FAILED)
        return mapping;
    mapping.fd_ = std::move(fd);
    mapping.region_ = MappedRegion(address, size);
    return mapping;
}

} // namespace nixl
