// Speaks the first version of the exporter interface.
#include "telemetry/telemetry_plugin.h"

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *
nixl_telemetry_plugin_init() {
    static nixlTelemetryPlugin plugin(nixl_telemetry_plugin_api_version::V1, "old_version", "0.1", nullptr);
    return &plugin;
}

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void
nixl_telemetry_plugin_fini() {}
