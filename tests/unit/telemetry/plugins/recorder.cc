// Writes what happens to it into the file that NIXL_TEST_RECORD names, one line per call.
#include <cstdlib>
#include <fstream>
#include <string>

#include "telemetry/telemetry_plugin.h"

namespace {

void
note(const std::string &line) {
    if (const char *path = std::getenv("NIXL_TEST_RECORD"))
        std::ofstream(path, std::ios::app) << line << '\n';
}

class Recorder : public nixlTelemetryExporter {
public:
    explicit Recorder(const nixlTelemetryExporterInitParams &params) : nixlTelemetryExporter(params) {
        note("create " + params.agentName + " " + std::to_string(getMaxEventsBuffered()));
    }

    ~Recorder() override {
        note("destroy");
    }

    nixl_status_t
    exportEvent(const nixlTelemetryEvent &event) override {
        note(nixlEnumStrings::telemetryEventTypeStr(event.eventType_) + " " + std::to_string(event.value_));
        return NIXL_SUCCESS;
    }

private:
    void
    onBatchBegin() noexcept override {
        note("begin");
    }

    void
    onBatchEnd() noexcept override {
        note("end");
    }
};

} // namespace

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT nixlTelemetryPlugin *
nixl_telemetry_plugin_init() {
    note("init");
    return nixlTelemetryPluginCreator<Recorder>::create(nixl_telemetry_plugin_api_version::V2, "recorder",
                                                        "1.0");
}

extern "C" NIXL_TELEMETRY_PLUGIN_EXPORT void
nixl_telemetry_plugin_fini() {
    note("fini");
}
