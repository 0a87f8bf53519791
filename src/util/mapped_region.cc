#include "util/mapped_region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "util/memfd.h"

namespace nixl {

namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

MappedRegion::~MappedRegion() {
    if (address_ != nullptr)
        munmap(address_, size_);
}

Result<SharedMemory>
createSharedMemory(const char *name, std::size_t size) {
    SharedMemory memory;
    memory.fd = createMemfd(name);
    if (!memory.fd.valid() || ftruncate(memory.fd.get(), static_cast<off_t>(size)) != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot make shared memory of ", size,
                             " bytes: ", strerror(errno));
    void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd.get(), 0);
    if (address == MAP_FAILED)
        return Status::error(NIXL_ERR_BACKEND, "cannot map ", size, " bytes: ", strerror(errno));
    memory.mapping = MappedRegion(address, size);
    // After the mapping, which keeps the right to write that nobody gets any more.
    if (fcntl(memory.fd.get(), F_ADD_SEALS, kFixedSize | F_SEAL_FUTURE_WRITE) != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot seal shared memory: ", strerror(errno));
    return memory;
}

Result<MappedRegion>
mapForeignMemory(int fd, std::size_t size) {
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return Status::error(NIXL_ERR_MISMATCH, "a descriptor from a peer is not a memfd");
    if ((seals & kFixedSize) != kFixedSize)
        return Status::error(NIXL_ERR_MISMATCH, "a memfd from a peer is not sealed to its size");
    struct stat status{};
    struct statfs filesystem{};
    if (fstat(fd, &status) != 0 || fstatfs(fd, &filesystem) != 0)
        return Status::error(NIXL_ERR_MISMATCH, "a memfd from a peer cannot be examined: ", strerror(errno));
    // Memory of huge pages can be missing at the first access, which would kill us.
    if (filesystem.f_type != TMPFS_MAGIC)
        return Status::error(NIXL_ERR_MISMATCH, "a memfd from a peer is not ordinary memory");
    if (static_cast<std::size_t>(status.st_size) != size)
        return Status::error(NIXL_ERR_MISMATCH, "a memfd from a peer has ", status.st_size, " bytes, not ",
                             size);
    void *address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return Status::error(NIXL_ERR_BACKEND, "cannot map ", size, " bytes of a peer: ", strerror(errno));
    return MappedRegion(address, size);
}

Result<MappedRegion>
mapForeignPiece(int fd, std::uint64_t offset, std::uint64_t size) {
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return Status::error(NIXL_ERR_MISMATCH, "its descriptor is not of a memfd");
    if ((seals & F_SEAL_SHRINK) == 0)
        return Status::error(NIXL_ERR_MISMATCH, "its memfd is not sealed against shrinking (F_SEAL_SHRINK)");
    struct stat status{};
    struct statfs filesystem{};
    if (fstat(fd, &status) != 0 || fstatfs(fd, &filesystem) != 0)
        return Status::error(NIXL_ERR_MISMATCH, "its memfd cannot be examined: ", strerror(errno));
    const bool huge = filesystem.f_type == HUGETLBFS_MAGIC;
    if (!huge && filesystem.f_type != TMPFS_MAGIC)
        return Status::error(NIXL_ERR_MISMATCH, "its descriptor is not of a memfd");
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (size == 0 || offset > bytes || size > bytes - offset)
        return Status::error(NIXL_ERR_MISMATCH, "its memfd has ", bytes, " bytes and cannot hold ", size,
                             " at offset ", offset);
    void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (address == MAP_FAILED)
        return Status::error(NIXL_ERR_BACKEND, "its ", size, " bytes cannot be mapped: ", strerror(errno));
    MappedRegion mapping(address, size);
    if (huge && madvise(address, size, MADV_POPULATE_WRITE) != 0)
        return Status::error(NIXL_ERR_BACKEND, "its huge pages are not all there: ", strerror(errno));
    return mapping;
}

} // namespace nixl
