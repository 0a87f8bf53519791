#include "util/setting_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "util/options.h"

namespace nixl {

namespace {

constexpr std::string_view kPythonNames[] = {"NIXL_DEBUG_LOGGING"};

// A name that ends with '_' stands for all names that begin like it.
constexpr std::string_view kElsewhereNames[] = {
    "NIXL_CI_NON_GPU",
    "NIXL_DISABLE_CUDA_ADDR_WA",
    "NIXL_ETCD_NAMESPACE",
    "NIXL_HF3FS_",
    "NIXL_INCLUDE_DIR",
    "NIXL_LIBFABRIC_",
    "NIXL_LIBRARY_DIR",
    "NIXL_LIB_DIR",
    "NIXL_MOONCAKE_",
    "NIXL_NO_STUBS_FALLBACK",
    "NIXL_OBJ_",
    "NIXL_PREFIX",
    "NIXL_TCPSTORE_OP_TIMEOUT_MS",
    "NIXL_TCPSTORE_TIMEOUT_MS",
    "NIXL_TELEMETRY_DOCA_",
    "NIXL_TELEMETRY_HISTOGRAM_BUCKETS_US",
    "NIXL_TELEMETRY_MP_STALE_TTL",
    "NIXL_TELEMETRY_MULTIPROC_DIR",
    "NIXL_TELEMETRY_PROMETHEUS_LOCAL",
    "NIXL_TELEMETRY_PROMETHEUS_PORT",
    "NIXL_TELEMETRY_RANK_ENV",
    "NIXL_TEST_DEVICE_LANE",
    "NIXL_TRACE_BACKENDS",
    "NIXL_UCX_",
    "NIXL_USE_MD_MANAGER",
};

constexpr std::size_t kLongestName = 64;

bool
matches(std::string_view name, std::string_view known) {
    return known.back() == '_' ? name.substr(0, known.size()) == known : name == known;
}

/// Letters to insert, remove or replace to turn one text into the other.
std::size_t
distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (std::toupper(static_cast<unsigned char>(a[i])) != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

} // namespace

SettingName
classifySetting(std::string_view name) {
    const auto isOf = [name](const auto &names) {
        return std::any_of(std::begin(names), std::end(names),
                           [name](std::string_view known) { return matches(name, known); });
    };
    if (isOf(kPythonNames))
        return SettingName::kPython;
    return isOf(kElsewhereNames) ? SettingName::kElsewhere : SettingName::kUnknown;
}

std::string_view
similarOption(std::string_view name) {
    if (name.size() > kLongestName)
        return {};
    // More than a third of the letters wrong is another word; NIXL_ itself says nothing.
    const std::size_t letters = name.size() - std::min<std::size_t>(name.size(), 5);
    std::size_t best = std::max<std::size_t>(2, letters / 3) + 1;
    std::string_view nearest;
    for (const OptionRow &row : optionTable()) {
        const std::size_t far = distance(name, row.name);
        if (far < best) {
            best = far;
            nearest = row.name;
        }
    }
    return nearest;
}

} // namespace nixl
