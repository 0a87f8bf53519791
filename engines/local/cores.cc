#include "engines/local/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string_view>
#include <thread>

namespace nixl::local {

namespace {

/// The beginning of a file, which is longer than anything that the kernel puts there; empty if there is none.
std::string
readBeginning(const std::string &path) {
    std::string text(64 << 10, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

/// Takes a word from the front of `text`.
std::string_view
takeWord(std::string_view &text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    return word;
}

/// Microseconds, if a positive number of them is meant; "max" and -1 are no limit.
std::optional<std::uint64_t>
microseconds(std::string_view word) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value == 0)
        return std::nullopt;
    return value;
}

/// Rounded down: who uses more than the quota is stopped for the rest of the period.
std::optional<unsigned>
wholeCores(std::string_view quota, std::string_view period) {
    const auto granted = microseconds(quota);
    const auto every = microseconds(period);
    if (!granted || !every)
        return std::nullopt;
    constexpr std::uint64_t kMost = std::numeric_limits<unsigned>::max();
    return static_cast<unsigned>(std::clamp<std::uint64_t>(*granted / *every, 1, kMost));
}

std::optional<unsigned>
coresOfGroup(const std::string &folder) {
    const std::string limit = readBeginning(folder + "/cpu.max");
    std::string_view rest = limit;
    const std::string_view quota = takeWord(rest);
    if (const auto cores = wholeCores(quota, takeWord(rest)))
        return cores;
    const std::string oldQuota = readBeginning(folder + "/cpu.cfs_quota_us");
    const std::string oldPeriod = readBeginning(folder + "/cpu.cfs_period_us");
    std::string_view quotaText = oldQuota;
    std::string_view periodText = oldPeriod;
    return wholeCores(takeWord(quotaText), takeWord(periodText));
}

/// Of a group and all that it lies in: each limits it. In a container the path may be that of the host, which
/// is not to be seen there; then the root is the container's own group.
void
lowerToGroups(const std::string &mount, std::string path, std::optional<unsigned> &least) {
    for (;;) {
        if (const auto cores = coresOfGroup(mount + path))
            least = std::min(least.value_or(*cores), *cores);
        if (path.empty())
            return;
        const std::size_t slash = path.rfind('/');
        path.resize(slash == path.npos ? 0 : slash);
    }
}

bool
listed(std::string_view controllers, std::string_view wanted) {
    while (!controllers.empty()) {
        const std::string_view one = controllers.substr(0, controllers.find(','));
        if (one == wanted)
            return true;
        controllers.remove_prefix(std::min(one.size() + 1, controllers.size()));
    }
    return false;
}

} // namespace

std::optional<unsigned>
coresByQuota(const std::string &groups, const std::string &tree) {
    const std::string text = readBeginning(groups);
    std::optional<unsigned> least;
    for (std::string_view rest = text; !rest.empty();) { // number:controllers:path
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const std::size_t first = line.find(':');
        const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos)
            continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        std::string path(line.substr(second + 1));
        if (path.find("..") != path.npos ||
            path.find('\0') != path.npos) // it lies outside of what is seen here
            path.clear();
        if (controllers.empty())
            lowerToGroups(tree, path, least);
        else if (listed(controllers, "cpu"))
            lowerToGroups(tree + "/cpu", path, least);
    }
    return least;
}

unsigned
usableCores() {
    unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        cores = std::max(1U, static_cast<unsigned>(CPU_COUNT(&allowed)));
    static const std::optional<unsigned> granted = coresByQuota("/proc/self/cgroup", "/sys/fs/cgroup");
    return std::min(cores, granted.value_or(cores));
}

} // namespace nixl::local
