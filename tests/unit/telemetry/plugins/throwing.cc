// Takes no event.
#include <stdexcept>

#include "telemetry/telemetry_plugin.h"

namespace {

class Throwing : public nixlTelemetryExporter {
public:
    using nixlTelemetryExporter::nixlTelemetryExporter;

    nixl_status_t
    exportEvent(const nixlTelemetryEvent &) override {
        throw std::runtime_error("the collector is away");
    }
};

} // namespace

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *
nixl_telemetry_plugin_init() {
    return nixlTelemetryPluginCreator<Throwing>::create(nixl_telemetry_plugin_api_version::V2, "throwing",
                                                        "1.0");
}

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void
nixl_telemetry_plugin_fini() {}
