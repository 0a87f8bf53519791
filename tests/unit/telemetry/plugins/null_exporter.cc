// Gives no exporter and no reason.
#include "telemetry/telemetry_plugin.h"

namespace {

std::unique_ptr<nixlTelemetryExporter>
make(const nixlTelemetryExporterInitParams &) {
    return nullptr;
}

} // namespace

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *
nixl_telemetry_plugin_init() {
    static nixlTelemetryPlugin plugin(nixl_telemetry_plugin_api_version::V2, "null_exporter", "1.0", &make);
    return &plugin;
}

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void
nixl_telemetry_plugin_fini() {}
