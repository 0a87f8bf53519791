/**
 * @file telemetry_plugin.h
 * How an exporter becomes a loadable file libtelemetry_exporter_NAME.so. Such a file exports
 *
 *   extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *nixl_telemetry_plugin_init();
 *   extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void nixl_telemetry_plugin_fini();
 *
 * init returns a description that stays valid until fini, or nullptr to refuse. fini is called when the last
 * exporter of the file is gone; init may be called again later. The file stays loaded.
 */
#ifndef NIXL_TELEMETRY_PLUGIN_H
#define NIXL_TELEMETRY_PLUGIN_H

#include <memory>
#include <string>
#include <string_view>

#include "telemetry/telemetry_exporter.h"

#define NIXL_TELEMETRY_PLUGIN_EXPORT __attribute__((visibility("default")))

/** Version of this interface; the loader accepts V2 alone. */
enum class nixl_telemetry_plugin_api_version : unsigned int {
    V1 = 1,
    V2 = 2,
};

inline constexpr nixl_telemetry_plugin_api_version NIXL_TELEMETRY_PLUGIN_API_VERSION =
    nixl_telemetry_plugin_api_version::V2;

/** Makes an exporter. Throws what prevented it; nullptr counts as a failure without a reason. */
using exporter_creator_fn_t =
    std::unique_ptr<nixlTelemetryExporter> (*)(const nixlTelemetryExporterInitParams &init_params);

/** Description of a loadable exporter. */
class nixlTelemetryPlugin {
public:
    nixl_telemetry_plugin_api_version api_version;
    exporter_creator_fn_t create_exporter;

    nixlTelemetryPlugin(nixl_telemetry_plugin_api_version version, std::string_view name,
                        std::string_view plugin_version, exporter_creator_fn_t create)
        : api_version(version), create_exporter(create), name_(name), version_(plugin_version) {}

    std::string_view
    getName() const noexcept {
        return name_;
    }

    std::string_view
    getVersion() const noexcept {
        return version_;
    }

private:
    std::string name_;
    std::string version_;
};

/** Describes exporter class T, which is constructed from nixlTelemetryExporterInitParams. */
template<typename T> class nixlTelemetryPluginCreator {
public:
    static nixlTelemetryPlugin *
    create(nixl_telemetry_plugin_api_version api_version, std::string_view name, std::string_view version) {
        static nixlTelemetryPlugin plugin(api_version, name, version, &createExporter);
        return &plugin;
    }

private:
    static std::unique_ptr<nixlTelemetryExporter>
    createExporter(const nixlTelemetryExporterInitParams &init_params) {
        return std::make_unique<T>(init_params);
    }
};

extern "C" {
NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *nixl_telemetry_plugin_init();
NIXL_TELEMETRY_PLUGIN_EXPORT void nixl_telemetry_plugin_fini();
}

/** Layout of the classes in these headers. Other implementations of the interface have other layouts, and
 * their files lack the symbol below: such a file is refused instead of called. */
#define NIXL_OPEN_TELEMETRY_ABI 1

#ifndef NIXL_TELEMETRY_PLUGIN_HOST // the library that loads exporters must not look like one
extern "C" {
/** Planted in every file that is compiled with these headers. */
extern const int nixl_open_telemetry_abi __attribute__((weak, visibility("default")));
const int nixl_open_telemetry_abi __attribute__((used)) = NIXL_OPEN_TELEMETRY_ABI;
}
#endif

#endif
