#include "engines/ucx/devices.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

namespace nixl::ucx {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNames = 1024;  // in a list that a program gives
constexpr std::size_t kLongestShown = 64; // of a name that is wrong
constexpr std::string_view kAll = "all";

template<typename Use>
void
forEachEntry(const fs::path &folder, Use use) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        use(entry->path());
}

std::optional<unsigned>
parsePort(std::string_view text) {
    unsigned port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return port;
}

std::vector<std::string_view>
splitNames(std::string_view list) {
    constexpr std::string_view kSeparators = ", \t\n";
    std::vector<std::string_view> names;
    std::size_t at = list.find_first_not_of(kSeparators);
    while (at != std::string_view::npos) {
        const std::size_t end = std::min(list.find_first_of(kSeparators, at), list.size());
        names.push_back(list.substr(at, end - at));
        at = list.find_first_not_of(kSeparators, end);
    }
    return names;
}

std::string
listDevices(const HostDevices &host) {
    std::string out;
    const auto add = [&out](const std::string &name) { out += (out.empty() ? "" : ", ") + name; };
    for (const auto &[name, ports] : host.rdma)
        for (const unsigned port : ports)
            add(concat(name, ':', port));
    for (const std::string &name : host.interfaces)
        add(name);
    return out.empty() ? "none" : out;
}

/// A device under UCX's name, empty if this host does not have it.
std::string
resolveDevice(std::string_view name, const HostDevices &host) {
    if (host.interfaces.count(std::string(name)) != 0)
        return std::string(name);
    const std::size_t colon = name.rfind(':');
    const std::optional<unsigned> port =
        colon == std::string_view::npos ? 1 : parsePort(name.substr(colon + 1));
    const auto device = host.rdma.find(std::string(name.substr(0, colon)));
    if (device == host.rdma.end() || !port || device->second.count(*port) == 0)
        return {};
    return concat(device->first, ':', *port);
}

} // namespace

HostDevices
readHostDevices(const std::string &sysfs) {
    HostDevices out;
    forEachEntry(fs::path(sysfs) / "class/net",
                 [&out](const fs::path &path) { out.interfaces.insert(path.filename()); });
    // A file, not an interface.
    out.interfaces.erase("bonding_masters");
    forEachEntry(fs::path(sysfs) / "class/infiniband", [&out](const fs::path &device) {
        std::set<unsigned> &ports = out.rdma[device.filename()];
        forEachEntry(device / "ports", [&ports](const fs::path &path) {
            if (const std::optional<unsigned> port = parsePort(path.filename().string()))
                ports.insert(*port);
        });
    });
    return out;
}

Result<std::vector<std::string>>
resolveDevices(std::string_view list, const HostDevices &host) {
    std::vector<std::string> out;
    const std::vector<std::string_view> names = splitNames(list);
    if (names.size() > kMostNames)
        return Status::error(NIXL_ERR_INVALID_PARAM, "names ", names.size(), " devices; accepted are up to ",
                             kMostNames);
    if (names.size() == 1 && names.front() == kAll)
        return std::vector<std::string>{std::string(kAll)};
    for (const std::string_view name : names) {
        std::string device = resolveDevice(name, host);
        if (device.empty())
            return Status::error(NIXL_ERR_INVALID_PARAM, "names '", name.substr(0, kLongestShown),
                                 "', which this host does not have; it has: ", listDevices(host));
        if (std::find(out.begin(), out.end(), device) == out.end())
            out.push_back(std::move(device));
    }
    return out;
}

} // namespace nixl::ucx
