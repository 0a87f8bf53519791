#include "engines/ucx/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "util/log.h"

namespace nixl::ucx {

namespace {

constexpr std::string_view kPrefix = "UCX_";
constexpr std::uint64_t kMostWorkers = 1024;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 31;
constexpr std::uint64_t kMostChannels = 1 << 16;
constexpr std::size_t kLongestConfig = 1 << 16;
constexpr std::size_t kLongestName = 128;  // of a setting of UCX
constexpr std::size_t kLongestShown = 200; // of a value that is wrong

constexpr std::string_view kKnown[] = {
    "device_list",        "ucx_devices",
    "num_workers",        "num_threads",
    "split_batch_size",   "ucx_error_handling_mode",
    "engine_config",      "ucx_num_device_channels",
    "ucx_ep_close_force",
};

Status
refused(std::string_view key, std::string_view value, std::string_view accepted) {
    return Status::error(NIXL_ERR_INVALID_PARAM, key, " is '", value.substr(0, kLongestShown),
                         "'; accepted is ", accepted);
}

/// The value of a parameter; nothing if it is not given or empty.
std::optional<std::string_view>
given(const nixl_b_params_t &params, const char *key) {
    const auto found = params.find(key);
    if (found == params.end() || found->second.empty())
        return std::nullopt;
    return found->second;
}

Status
readNumber(const nixl_b_params_t &params, const char *key, std::uint64_t most, std::uint64_t &out) {
    const std::optional<std::string_view> text = given(params, key);
    if (!text)
        return {};
    const std::optional<std::uint64_t> value = parseNumber(*text);
    if (!value || *value > most)
        return refused(key, *text, concat("a number from 0 to ", most));
    out = *value;
    return {};
}

Status
readErrorHandling(const nixl_b_params_t &params, ErrorHandling &out) {
    constexpr const char *kKey = "ucx_error_handling_mode";
    const std::optional<std::string_view> text = given(params, kKey);
    if (!text || *text == "peer")
        out = ErrorHandling::kPeer;
    else if (*text == "none")
        out = ErrorHandling::kNone;
    else
        return refused(kKey, *text, "none or peer");
    return {};
}

Status
readCloseForce(const nixl_b_params_t &params, bool &out) {
    constexpr const char *kKey = "ucx_ep_close_force";
    const std::optional<std::string_view> text = given(params, kKey);
    if (!text)
        return {};
    const std::optional<bool> value = parseYesNo(*text);
    if (!value)
        return refused(kKey, *text, "true or false");
    out = *value;
    return {};
}

// ---- Settings of UCX ----

/// Overrides in the making: a later one of a name takes the place of the earlier one.
class Overrides {
public:
    void
    set(Override change) {
        const auto same = std::find_if(list_.begin(), list_.end(),
                                       [&](const Override &other) { return other.name == change.name; });
        if (same == list_.end())
            list_.push_back(std::move(change));
        else
            *same = std::move(change);
    }

    std::vector<Override> &&
    take() && {
        return std::move(list_);
    }

private:
    std::vector<Override> list_;
};

/// What NIXL asks of UCX, so that both ends of a connection choose alike, and what this library relies on. A
/// variable of the environment wins over the first.
void
addDefaults(std::uint64_t deviceChannels, const Environment &environment, Overrides &overrides) {
    const std::pair<std::string_view, std::string> defaults[] = {
        {"RNDV_THRESH", "inf"},
        {"MAX_RMA_RAILS", "2"},
        {"IB_PCI_RELAXED_ORDERING", "try"},
        {"RC_FENCE", "none"},
        {"RC_GDA_NUM_CHANNELS", std::to_string(deviceChannels)},
        {"MAX_HCA_PER_GPU", "auto"},
        {"RNDV_PIPELINE_ERROR_HANDLING", "y"},
        {"IB_AH_CACHE_TTL", "0"},
        // The largest frames over TCP for which every peer has room: 8 KiB, UCX's default, make it slow.
        {"TCP_TX_SEG_SIZE", "64k"},
        {"TCP_RX_SEG_SIZE", "64k"},
        // While UCX 1.22 waits for a connection within a call, a reset has it try again and give up the
        // endpoint, which it then frees while it is used.
        {"TCP_CONN_NB", "y"},
        // The end of a peer over shared memory is seen when UCX looks, by default every 20 s.
        {"KEEPALIVE_INTERVAL", "1s"},
        // Device memory that was allocated before UCX started counts as host memory if UCX trusts its cache.
        {"MEMTYPE_CACHE", "n"},
    };
    for (const auto &[name, value] : defaults)
        if (environment.count(concat(kPrefix, name)) == 0)
            overrides.set({std::string(name), value, "a default of NIXL", false});
    // Addresses of peers are checked before UCX reads them, as packed without it.
    overrides.set({"UNIFIED_MODE", "n", "this library", false});
}

Status
addDevices(const nixl_b_params_t &params, const HostDevices &host, Overrides &overrides) {
    std::vector<std::string> chosen;
    std::string origin;
    for (const char *key : {"device_list", "ucx_devices"}) {
        const std::optional<std::string_view> list = given(params, key);
        if (!list)
            continue;
        Result<std::vector<std::string>> devices = resolveDevices(*list, host);
        if (!devices.ok())
            return devices.status().withContext(key);
        if (devices.value().empty())
            continue;
        if (!chosen.empty() && chosen != devices.value())
            return Status::error(NIXL_ERR_INVALID_PARAM,
                                 "device_list and ucx_devices name different devices; "
                                 "they are two names of one parameter");
        chosen = std::move(devices).value();
        origin = key;
    }
    if (chosen.empty())
        return {};
    std::string value;
    for (const std::string &device : chosen)
        value += (value.empty() ? "" : ",") + device;
    overrides.set({"NET_DEVICES", std::move(value), std::move(origin), true});
    return {};
}

std::string_view
trim(std::string_view text) {
    constexpr std::string_view kBlank = " \t\n";
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool
isSettingName(std::string_view name) {
    return !name.empty() && name.size() <= kLongestName &&
           std::all_of(name.begin(), name.end(),
                       [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// "NAME=VALUE,NAME=VALUE". Values may hold commas: a piece without '=' belongs to the value before it.
Status
addEngineConfig(const nixl_b_params_t &params, Overrides &overrides) {
    constexpr const char *kKey = "engine_config";
    constexpr std::string_view kAccepted = "NAME=VALUE,NAME=VALUE with names of settings of UCX";
    const std::optional<std::string_view> text = given(params, kKey);
    if (!text)
        return {};
    if (text->size() > kLongestConfig || text->find('\0') != std::string_view::npos)
        return refused(kKey, *text, kAccepted);
    std::vector<Override> changes;
    for (std::size_t at = 0; at <= text->size();) {
        const std::size_t end = std::min(text->find(',', at), text->size());
        const std::string_view piece = trim(text->substr(at, end - at));
        at = end + 1;
        const std::size_t equals = piece.find('=');
        if (equals == std::string_view::npos) {
            if (changes.empty() && !piece.empty())
                return refused(kKey, *text, kAccepted);
            if (!piece.empty())
                changes.back().value += concat(',', piece);
            continue;
        }
        std::string_view name = trim(piece.substr(0, equals));
        if (name.substr(0, kPrefix.size()) == kPrefix)
            name.remove_prefix(kPrefix.size());
        if (!isSettingName(name))
            return refused(kKey, *text, kAccepted);
        changes.push_back({std::string(name), std::string(trim(piece.substr(equals + 1))), kKey, true});
    }
    for (Override &change : changes)
        overrides.set(std::move(change));
    return {};
}

TransportList
effectiveTransports(const std::vector<Override> &overrides, const Environment &environment) {
    for (const Override &change : overrides)
        if (change.name == "TLS")
            return {change.value, concat("TLS in ", change.origin)};
    const auto variable = environment.find("UCX_TLS");
    if (variable != environment.end())
        return {variable->second, "UCX_TLS in the environment"};
    return {};
}

void
noteUnknown(const nixl_b_params_t &params) {
    for (const auto &[key, value] : params)
        if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown))
            NIXL_LOG(kDebug, "UCX has no parameter '", key.substr(0, kLongestShown), "'; it has no effect");
}

} // namespace

Surroundings
currentSurroundings() {
    return {environmentOf(kPrefix), readHostDevices()};
}

Result<Settings>
parseSettings(const nixl_b_params_t &params, const Surroundings &surroundings) {
    Settings out;
    std::uint64_t workers = out.workers;
    std::uint64_t threads = out.threads;
    std::uint64_t split = out.splitBatchSize;
    std::uint64_t deviceChannels = 4;
    NIXL_RETURN_IF_ERROR(readNumber(params, "num_workers", kMostWorkers, workers));
    NIXL_RETURN_IF_ERROR(readNumber(params, "num_threads", kMostWorkers, threads));
    NIXL_RETURN_IF_ERROR(readNumber(params, "split_batch_size", kMostBlocks, split));
    NIXL_RETURN_IF_ERROR(readNumber(params, "ucx_num_device_channels", kMostChannels, deviceChannels));
    NIXL_RETURN_IF_ERROR(readErrorHandling(params, out.errorHandling));
    NIXL_RETURN_IF_ERROR(readCloseForce(params, out.closeForce));
    // Each thread has a worker of its own; one more serves the callers.
    out.threads = static_cast<unsigned>(threads);
    out.workers = static_cast<unsigned>(std::max(workers, threads + 1));
    out.splitBatchSize = std::max<std::size_t>(split, 1);

    Overrides overrides;
    addDefaults(deviceChannels, surroundings.environment, overrides);
    NIXL_RETURN_IF_ERROR(addDevices(params, surroundings.devices, overrides));
    NIXL_RETURN_IF_ERROR(addEngineConfig(params, overrides));
    out.overrides = std::move(overrides).take();
    out.transports = effectiveTransports(out.overrides, surroundings.environment);
    noteUnknown(params);
    return out;
}

} // namespace nixl::ucx
