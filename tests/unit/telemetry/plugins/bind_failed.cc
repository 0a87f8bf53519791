// Cannot bind its port.
#include "telemetry/telemetry_plugin.h"

namespace {

std::unique_ptr<nixlTelemetryExporter>
make(const nixlTelemetryExporterInitParams &) {
    throw nixlTelemetryBindFailed("port 9090 is taken");
}

} // namespace

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *
nixl_telemetry_plugin_init() {
    static nixlTelemetryPlugin plugin(nixl_telemetry_plugin_api_version::V2, "bind_failed", "1.0", &make);
    return &plugin;
}

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void
nixl_telemetry_plugin_fini() {}
