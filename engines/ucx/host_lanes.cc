// Which ways inside the host a list of transports leaves open.
#include <fnmatch.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/ucx/settings.h"
#include "util/concat.h"

namespace nixl::ucx {

namespace {

/// A transport of UCX, and the group names that stand for it in a list.
struct Transport {
    const char *name;
    std::vector<std::string_view> groups;
};

const Transport kSelf{"self", {}};
const Transport kPosix{"posix", {"mm", "sm", "shm"}};
const Transport kSysv{"sysv", {"mm", "sm", "shm"}};
const Transport kXpmem{"xpmem", {"mm", "sm", "shm"}};
const Transport kCma{"cma", {"sm", "shm"}};
const Transport kKnem{"knem", {"sm", "shm"}};
const Transport kCudaIpc{"cuda_ipc", {"cuda"}};

struct ParsedList {
    bool negated = false;
    std::vector<std::string> names;
};

ParsedList
parseList(std::string_view text) {
    ParsedList out;
    const std::size_t first = text.find_first_not_of(" \t");
    if (first != std::string_view::npos && text[first] == '^') {
        out.negated = true;
        text.remove_prefix(first + 1);
    }
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        std::string name(text.substr(0, comma));
        std::erase_if(name, [](char c) { return c == ' ' || c == '\t'; });
        if (!name.empty())
            out.names.push_back(std::move(name));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return out;
}

/// Whether a name of a list means a transport. A backslash in front switches the group names off.
bool
means(std::string_view name, const Transport &transport) {
    if (name.front() == '\\')
        return name.substr(1) == transport.name;
    return name == "all" ||
           std::find(transport.groups.begin(), transport.groups.end(), name) != transport.groups.end() ||
           ::fnmatch(std::string(name).c_str(), transport.name, 0) == 0;
}

bool
allows(const ParsedList &list, const Transport &transport) {
    const bool named = std::any_of(list.names.begin(), list.names.end(),
                                   [&](const std::string &name) { return means(name, transport); });
    return named != list.negated;
}

bool
allowsAny(const ParsedList &list, std::span<const Transport *const> transports) {
    return std::any_of(transports.begin(), transports.end(),
                       [&](const Transport *transport) { return allows(list, *transport); });
}

bool
allowsHostMemory(const ParsedList &list) {
    // Of what a list leaves over, xpmem and knem do not count: they need drivers that hosts rarely have, and
    // who rules out the others means all.
    static const Transport *const named[] = {&kPosix, &kSysv, &kXpmem, &kCma, &kKnem};
    static const Transport *const left[] = {&kPosix, &kSysv, &kCma};
    return list.negated ? allowsAny(list, left) : allowsAny(list, named);
}

} // namespace

std::optional<std::string>
hostLaneLimit(HostLane lane, const TransportList &transports) {
    const ParsedList list = parseList(transports.text);
    const auto ruledOut = [&](std::string_view what) {
        return concat(transports.origin, " is '", transports.text, "', which leaves no ", what);
    };
    switch (lane) {
    case HostLane::kSameProcess:
        if (!allows(list, kSelf) && !allowsHostMemory(list))
            return ruledOut("self and no shared memory");
        break;
    case HostLane::kHostMemory:
        if (!allowsHostMemory(list))
            return ruledOut("shared memory");
        break;
    case HostLane::kDeviceMemory:
        if (!allows(list, kCudaIpc))
            return ruledOut("cuda_ipc");
        break;
    }
    return std::nullopt;
}

} // namespace nixl::ucx
