#include "memory/sealed_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "util/memfd.h"
#include "util/mutex.h"

namespace nixl {

namespace {

/// All memory of this kind, by address. Ranges do not overlap.
struct Known {
    struct Entry {
        std::uint64_t bytes;
        std::weak_ptr<const SealedMemory> memory;
    };

    Mutex mutex;
    std::map<std::uint64_t, Entry> entries NIXL_GUARDED_BY(mutex);
};

/// Never destroyed: memory may end after static objects do.
Known &
known() {
    static Known *const all = new Known;
    return *all;
}

// A fork while another thread holds the lock would leave it locked in the child for good.
void
beforeFork() NIXL_ANNOTATE(no_thread_safety_analysis) {
    known().mutex.lock();
}

void
afterFork() NIXL_ANNOTATE(no_thread_safety_analysis) {
    known().mutex.unlock();
}

const int kRegistered = pthread_atfork(beforeFork, afterFork, afterFork);

std::uint64_t
nextId() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// A mapped memfd before it is known.
struct Piece {
    ScopedFd fd;
    void *address = MAP_FAILED;
    std::size_t bytes = 0;
    std::size_t pageBytes = 0;
};

/// Nullopt: errno says why not.
std::optional<Piece>
makePiece(std::size_t bytes, unsigned flags) {
    Piece piece;
    piece.fd = createMemfd("nixl-alloc", flags);
    struct stat status{};
    if (!piece.fd.valid() || fstat(piece.fd.get(), &status) != 0)
        return std::nullopt;
    piece.pageBytes =
        static_cast<std::size_t>((flags & MFD_HUGETLB) != 0 ? status.st_blksize : sysconf(_SC_PAGESIZE));
    piece.bytes = (bytes + piece.pageBytes - 1) / piece.pageBytes * piece.pageBytes;
    if (piece.bytes < bytes) {
        errno = ENOMEM;
        return std::nullopt;
    }
    if (ftruncate(piece.fd.get(), static_cast<off_t>(piece.bytes)) != 0 ||
        fcntl(piece.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return std::nullopt;
    piece.address = mmap(nullptr, piece.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, piece.fd.get(), 0);
    if (piece.address == MAP_FAILED)
        return std::nullopt;
    return piece;
}

/// Huge pages, all of them there: one that is missing at its first access would kill the process.
std::optional<Piece>
makeHugePiece(std::size_t bytes) {
    auto piece = makePiece(bytes, MFD_HUGETLB);
    if (!piece || madvise(piece->address, piece->bytes, MADV_POPULATE_WRITE) == 0)
        return piece;
    const int error = errno;
    munmap(piece->address, piece->bytes);
    errno = error;
    return std::nullopt;
}

/// A line of /proc/self/maps.
struct MapsLine {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    char access[5] = "";
    std::uint64_t offset = 0;
    unsigned major = 0;
    unsigned minor = 0;
    std::uint64_t inode = 0;
};

/// What is mapped at an address; nullopt: nothing.
std::optional<MapsLine>
findMapping(std::uint64_t address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string text; std::getline(maps, text);) {
        MapsLine line;
        unsigned long start = 0, end = 0, offset = 0, inode = 0;
        if (std::sscanf(text.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &start, &end, line.access, &offset,
                        &line.major, &line.minor, &inode) != 7)
            continue;
        line.start = start;
        line.end = end;
        line.offset = offset;
        line.inode = inode;
        if (address >= line.start && address < line.end)
            return line;
    }
    return std::nullopt;
}

} // namespace

Result<std::shared_ptr<const SealedMemory>>
SealedMemory::create(std::size_t bytes, bool hugePages) {
    if (bytes == 0)
        return Status::error(NIXL_ERR_INVALID_PARAM, "memory of 0 bytes was asked for");
    std::string note;
    std::optional<Piece> piece;
    if (hugePages) {
        piece = makeHugePiece(bytes);
        if (!piece)
            note = concat("no huge pages for ", bytes, " bytes: ", strerror(errno),
                          errno == ENOMEM ? " (/proc/sys/vm/nr_hugepages says how many there are)" : "");
    }
    if (!piece)
        piece = makePiece(bytes, 0);
    if (!piece)
        return Status::error(NIXL_ERR_BACKEND, "memory of ", bytes,
                             " bytes cannot be had: ", strerror(errno));
    madvise(piece->address, piece->bytes, MADV_HUGEPAGE); // a wish; pages of any size do
    std::shared_ptr<SealedMemory> memory(new SealedMemory);
    memory->fd_ = std::move(piece->fd);
    memory->address_ = reinterpret_cast<std::uint64_t>(piece->address);
    memory->bytes_ = bytes;
    memory->mappedBytes_ = piece->bytes;
    memory->pageBytes_ = piece->pageBytes;
    memory->note_ = std::move(note);
    memory->ownsMapping_ = true;
    NIXL_RETURN_IF_ERROR(memory->enter(memory));
    return std::shared_ptr<const SealedMemory>(std::move(memory));
}

Result<std::shared_ptr<const SealedMemory>>
SealedMemory::adopt(int fd, std::uint64_t address, std::size_t bytes) {
    const auto refuse = [&](const auto &...why) {
        return Status::error(NIXL_ERR_INVALID_PARAM, "the ", bytes, " bytes at ", Hex{address},
                             " cannot be shared through descriptor ", fd, ": ", why...);
    };
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return refuse("it is not a memfd");
    if ((seals & F_SEAL_SHRINK) == 0)
        return refuse("the memfd is not sealed against shrinking (F_SEAL_SHRINK)");
    if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
        return refuse("the memfd is sealed against writing");
    struct stat status{};
    struct statfs filesystem{};
    if (bytes == 0 || fstat(fd, &status) != 0 || fstatfs(fd, &filesystem) != 0)
        return refuse(bytes == 0 ? "there are none" : strerror(errno));
    const auto pageBytes = static_cast<std::size_t>(
        filesystem.f_type == HUGETLBFS_MAGIC ? filesystem.f_bsize : sysconf(_SC_PAGESIZE));
    if (address % pageBytes != 0)
        return refuse("they do not begin at a page of ", pageBytes, " bytes");
    const auto line = findMapping(address);
    if (!line || line->inode != status.st_ino || line->major != major(status.st_dev) ||
        line->minor != minor(status.st_dev))
        return refuse("the memory is not mapped from it");
    if (line->end - address < bytes)
        return refuse("the mapping ends at ", Hex{line->end});
    if (std::string_view(line->access).substr(0, 2) != "rw" || line->access[3] != 's')
        return refuse("it is mapped as ", line->access, ", not shared for reading and writing");
    const std::uint64_t offset = line->offset + (address - line->start);
    const std::uint64_t size =
        (static_cast<std::uint64_t>(status.st_size) + pageBytes - 1) / pageBytes * pageBytes;
    if (offset > size || bytes > size - offset)
        return refuse("the memfd has ", status.st_size, " bytes, and the memory goes on behind them");
    std::shared_ptr<SealedMemory> memory(new SealedMemory);
    memory->fd_ = ScopedFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!memory->fd_.valid())
        return refuse(strerror(errno));
    memory->pageBytes_ = pageBytes;
    memory->address_ = address;
    memory->bytes_ = bytes;
    memory->mappedBytes_ = bytes;
    memory->offset_ = offset;
    NIXL_RETURN_IF_ERROR(memory->enter(memory));
    return std::shared_ptr<const SealedMemory>(std::move(memory));
}

Status
SealedMemory::enter(const std::shared_ptr<SealedMemory> &self) {
    (void)kRegistered;
    id_ = nextId();
    Known &all = known();
    const LockGuard lock(all.mutex);
    const auto next = all.entries.lower_bound(address_);
    const bool reachesNext = next != all.entries.end() && next->first - address_ < mappedBytes_;
    const bool reached =
        next != all.entries.begin() && address_ - std::prev(next)->first < std::prev(next)->second.bytes;
    if (reachesNext || reached)
        return Status::error(NIXL_ERR_INVALID_PARAM, "memory at ",
                             Hex{(reachesNext ? next : std::prev(next))->first}, " is shared already");
    all.entries[address_] = {mappedBytes_, self};
    entered_ = true;
    return {};
}

std::shared_ptr<const SealedMemory>
SealedMemory::covering(std::uint64_t address, std::uint64_t bytes) {
    Known &all = known();
    const LockGuard lock(all.mutex);
    const auto after = all.entries.upper_bound(address);
    if (after == all.entries.begin())
        return nullptr;
    const auto &[start, entry] = *std::prev(after);
    const std::uint64_t from = address - start;
    if (from > entry.bytes || bytes > entry.bytes - from)
        return nullptr;
    return entry.memory.lock(); // the only reference that is taken here goes out: its end takes the lock
}

SealedMemory::~SealedMemory() {
    if (entered_) {
        Known &all = known();
        const LockGuard lock(all.mutex);
        all.entries.erase(address_);
    }
    if (ownsMapping_)
        munmap(reinterpret_cast<void *>(address_), mappedBytes_); // after nobody can find it any more
}

} // namespace nixl
