#include "engines/local/identity.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace nixl::local {

namespace {

std::string
firstLine(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::uint64_t
inodeOf(const char *path) {
    struct stat status{};
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

/// The error of process_vm_readv in a copy within this process, where only a filter can forbid it; 0: it
/// works.
int
probeOwnProcess() {
    char from = 1;
    char to = 0;
    iovec local{&to, 1};
    iovec remote{&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
}

/// What the process may be that the kernel does not let us touch, as far as it can be told.
std::string
suspect(pid_t pid) {
    struct stat status{};
    const std::string file = concat("/proc/", pid, "/status"); // root's if the process is not dumpable
    if (stat(file.c_str(), &status) == 0 && status.st_uid != geteuid())
        return "it is not dumpable (PR_SET_DUMPABLE), or holds privileges that this process lacks";
    const std::string scope = firstLine("/proc/sys/kernel/yama/ptrace_scope");
    if (!scope.empty() && scope != "0")
        return concat("kernel.yama.ptrace_scope is ", scope,
                      "; set it to 0, or let the peer call prctl(PR_SET_PTRACER)");
    return "it holds privileges that this process lacks, or a security module forbids it";
}

/// Whether a process that the hints name, in our pid namespace, is no more. A pid that came to another
/// process counts as alive.
bool
hasEnded(const HostHints &own, const HostHints &peer) {
    return peer.pid != 0 && peer.pid <= INT_MAX && own.pidNamespace != 0 &&
           own.pidNamespace == peer.pidNamespace && kill(static_cast<pid_t>(peer.pid), 0) != 0 &&
           errno == ESRCH;
}

} // namespace

HostHints
ownHints() {
    HostHints hints;
    const std::string bootId = firstLine("/proc/sys/kernel/random/boot_id");
    std::copy_n(bootId.begin(), std::min(bootId.size(), hints.bootId.size()), hints.bootId.begin());
    hints.pidNamespace = inodeOf("/proc/self/ns/pid");
    hints.netNamespace = inodeOf("/proc/self/ns/net");
    hints.pid = static_cast<std::uint32_t>(getpid());
    return hints;
}

Status
checkHints(const HostHints &own, const HostHints &peer) {
    constexpr std::array<char, 36> kUnknown{};
    if (own.bootId != kUnknown && peer.bootId != kUnknown && own.bootId != peer.bootId)
        return Status::error(NIXL_ERR_BACKEND, "it is on another host (or the host was started anew)");
    return {};
}

Status
explainNoListener(const HostHints &own, const HostHints &peer) {
    if (own.netNamespace != 0 && peer.netNamespace != 0 && own.netNamespace != peer.netNamespace)
        return Status::error(NIXL_ERR_BACKEND, "it is in another network namespace (container), or gone");
    if (hasEnded(own, peer))
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "it is gone: process ", peer.pid, " has ended");
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "it is gone: nobody listens on its socket");
}

Status
explainDenied(pid_t pid, int error) {
    if (error == ESRCH)
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "process ", pid, " has ended");
    if (const int own = probeOwnProcess(); own != 0)
        return Status::error(NIXL_ERR_BACKEND,
                             "process_vm_readv and process_vm_writev are blocked in this process (",
                             strerror(own), "): a seccomp filter, as containers have it?");
    if (error == EPERM)
        return Status::error(NIXL_ERR_BACKEND, "the kernel refuses access to the memory of process ", pid,
                             ": ", suspect(pid));
    return Status::error(NIXL_ERR_BACKEND, "the memory of process ", pid,
                         " cannot be accessed: ", strerror(error));
}

std::string
explainSilence(pid_t pid) {
    const std::string line = firstLine(concat("/proc/", pid, "/stat"));
    const std::size_t name = line.rfind(')'); // the name may contain anything
    if (name != std::string::npos && name + 2 < line.size() &&
        (line[name + 2] == 'T' || line[name + 2] == 't'))
        return concat("process ", pid, " is stopped");
    return concat("process ", pid, " does not answer");
}

} // namespace nixl::local
