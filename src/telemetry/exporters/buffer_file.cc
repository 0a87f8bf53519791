#include "telemetry/exporters/buffer_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "util/random.h"

namespace nixl {

namespace {

constexpr int kMaxSameName = 64; ///< live agents of one name in one directory
constexpr int kMaxRaces = 64;    ///< lost races for one name before it counts as an error
constexpr int kMaxVersion = 255; ///< of buffers that may be replaced

std::string
errorText(int error) {
    return std::generic_category().message(error);
}

bool
isHexDigit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// A file under a name nobody guesses; removed unless it was published.
class TemporaryFile {
public:
    TemporaryFile(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}

    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;

    ~TemporaryFile() {
        if (!name_.empty())
            ::unlinkat(directory_, name_.c_str(), 0);
    }

    /// Gives it its final name if that is free. 0 or an errno, EEXIST if the name is taken.
    int
    publish(const std::string &name) {
        if (::renameat2(directory_, name_.c_str(), directory_, name.c_str(), RENAME_NOREPLACE) == 0) {
            name_.clear();
            return 0;
        }
        if (errno != EINVAL && errno != ENOSYS)
            return errno;
        // A file system without that flag; the temporary name is removed by the destructor.
        return ::linkat(directory_, name_.c_str(), directory_, name.c_str(), 0) == 0 ? 0 : errno;
    }

    /// Gives it its final name, replacing what has it. 0 or an errno.
    int
    publishOver(const std::string &name) {
        if (::renameat(directory_, name_.c_str(), directory_, name.c_str()) != 0)
            return errno;
        name_.clear();
        return 0;
    }

private:
    int directory_;
    std::string name_;
};

/// What has the name already.
struct Existing {
    enum class Kind { kGone, kLive, kStale } kind;
    ScopedFd lock; ///< keeps others from replacing a stale one too
};

bool
looksLikeBuffer(int fd, off_t size) {
    // An empty file is what a writer of another make leaves if it dies early.
    if (size == 0)
        return true;
    unsigned char bytes[sizeof(BufferHeader)];
    if (::pread(fd, bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
        return false;
    std::int32_t version;
    std::int32_t expectedVersion;
    std::uint64_t capacity;
    std::uint64_t mask;
    std::memcpy(&version, bytes + offsetof(BufferHeader, version), sizeof version);
    std::memcpy(&expectedVersion, bytes + offsetof(BufferHeader, expectedVersion), sizeof expectedVersion);
    std::memcpy(&capacity, bytes + offsetof(BufferHeader, capacity), sizeof capacity);
    std::memcpy(&mask, bytes + offsetof(BufferHeader, mask), sizeof mask);
    // Of any version: an upgrade must not leave agents unable to start.
    return version >= 1 && version <= kMaxVersion && version == expectedVersion &&
           bufferShapeValid(capacity, mask);
}

Result<Existing>
inspectExisting(int directory, const std::string &name, const std::string &path) {
    ScopedFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd.valid()) {
        const int error = errno;
        if (error == ENOENT)
            return Existing{Existing::Kind::kGone, {}};
        return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path, "': ",
                             error == ELOOP ? "is a symbolic link, which is not followed" : errorText(error));
    }
    struct stat info;
    if (::fstat(fd.get(), &info) != 0)
        return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path, "': ", errorText(errno));
    if (!S_ISREG(info.st_mode))
        return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path,
                             "': exists and is no regular file");
    if (info.st_uid != ::geteuid())
        return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path, "': belongs to user ",
                             info.st_uid);
    if (!looksLikeBuffer(fd.get(), info.st_size))
        return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path,
                             "': exists and is no telemetry buffer, so it is left alone");
    // A file system without locks cannot tell; there a buffer always counts as left behind.
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return Existing{Existing::Kind::kLive, {}};
    struct stat now;
    if (::fstatat(directory, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0 || now.st_ino != info.st_ino ||
        now.st_dev != info.st_dev)
        return Existing{Existing::Kind::kGone, {}};
    return Existing{Existing::Kind::kStale, std::move(fd)};
}

/// Publishes under `name`. False: a live agent has it.
Result<bool>
publishAs(TemporaryFile &file, int directory, const std::string &name, const std::string &path) {
    for (int race = 0; race < kMaxRaces; ++race) {
        int error = file.publish(name);
        if (error == EEXIST) {
            Result<Existing> existing = inspectExisting(directory, name, path);
            if (!existing.ok())
                return existing.status();
            if (existing.value().kind == Existing::Kind::kLive)
                return false;
            if (existing.value().kind == Existing::Kind::kGone)
                continue;
            error = file.publishOver(name);
        }
        if (error != 0)
            return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path, "': ", errorText(error));
        return true;
    }
    return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", path, "': others keep replacing it");
}

void
initialize(const BufferMapping &mapping, std::uint64_t capacity) {
    auto *header = new (&mapping.header()) BufferHeader;
    header->writePosition.store(0, std::memory_order_relaxed);
    header->readPosition.store(0, std::memory_order_relaxed);
    header->version = TELEMETRY_VERSION;
    header->expectedVersion = TELEMETRY_VERSION;
    header->capacity = capacity;
    header->mask = capacity - 1;
}

} // namespace

Result<std::string>
bufferFileName(std::string_view agentName) {
    if (agentName.empty())
        return Status(NIXL_ERR_INVALID_PARAM, "a telemetry buffer needs an agent with a name");
    const bool dots = agentName == "." || agentName == "..";
    std::string name;
    for (std::size_t i = 0; i < agentName.size(); ++i) {
        const char c = agentName[i];
        const bool escapeLike = c == '%' && i + 2 < agentName.size() && isHexDigit(agentName[i + 1]) &&
                                isHexDigit(agentName[i + 2]);
        if (c == '/' || c == '\0' || dots || escapeLike) {
            char escaped[4];
            std::snprintf(escaped, sizeof escaped, "%%%02X", static_cast<unsigned char>(c));
            name += escaped;
        } else {
            name += c;
        }
        if (name.size() > NAME_MAX)
            return Status::error(NIXL_ERR_INVALID_PARAM, "the agent's name of ", agentName.size(),
                                 " bytes is too long for the name of a telemetry buffer (", NAME_MAX, ")");
    }
    return name;
}

Result<BufferFile>
createBufferFile(const std::string &directory, const std::string &name, std::uint64_t capacity) {
    const ScopedFd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid())
        return Status::error(NIXL_ERR_BACKEND, "telemetry directory '", directory, "': ", errorText(errno));

    const std::string hidden = concat(".nixl-telemetry-", Hex{randomKey()});
    ScopedFd fd(
        ::openat(folder.get(), hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!fd.valid())
        return Status::error(NIXL_ERR_BACKEND, "cannot create a file in telemetry directory '", directory,
                             "': ", errorText(errno));
    TemporaryFile file(folder.get(), hidden);
    const std::size_t size = bufferFileSize(capacity);
    if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(size)); error != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot allocate ", size, " bytes in telemetry directory '",
                             directory, "': ", errorText(error));
    // Held as long as the mapping lives: this is what tells a live agent's buffer from one left behind.
    (void)::flock(fd.get(), LOCK_EX | LOCK_NB);
    BufferMapping mapping = BufferMapping::map(std::move(fd), size);
    if (!mapping.valid())
        return Status::error(NIXL_ERR_BACKEND, "cannot map a file of telemetry directory '", directory,
                             "': ", errorText(errno));
    initialize(mapping, capacity);

    for (int number = 1; number <= kMaxSameName; ++number) {
        const std::string candidate = number == 1 ? name : concat(name, ".", number);
        std::string path = concat(directory, "/", candidate);
        Result<bool> published = publishAs(file, folder.get(), candidate, path);
        if (!published.ok())
            return published.status();
        if (published.value())
            return BufferFile{std::move(mapping), std::move(path)};
    }
    return Status::error(NIXL_ERR_BACKEND, "telemetry buffer '", directory, "/", name, "': ", kMaxSameName,
                         " live agents have this name");
}

} // namespace nixl
