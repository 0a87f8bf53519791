#include "telemetry/exporter.h"

#include <utility>

#include "telemetry/exporter_plugin.h"
#include "telemetry/exporters/buffer_exporter.h"
#include "util/log.h"

namespace nixl {

namespace {

const char kBuffer[] = "BUFFER";
const char kNop[] = "NOP";

Result<SelectedExporter>
selectBuffer(const nixlTelemetryExporterInitParams &params, const std::string &directory) {
    if (directory.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, TELEMETRY_EXPORTER_VAR, " is BUFFER, so ",
                             TELEMETRY_DIR_VAR, " must name a directory, and it is not set");
    Result<std::unique_ptr<BufferExporter>> exporter = BufferExporter::create(params, directory);
    if (!exporter.ok())
        return exporter.status();
    NIXL_LOG(kInfo, "telemetry of agent '", params.agentName, "' goes to '", exporter.value()->path(), "'");
    return SelectedExporter{kBuffer, std::move(exporter).value()};
}

} // namespace

Result<SelectedExporter>
selectExporter(const std::string &agentName, const Options &options,
               const std::vector<std::string> &directories) {
    const nixlTelemetryExporterInitParams params{agentName,
                                                 static_cast<std::size_t>(options.telemetryBufferSize)};
    std::string name = options.telemetryExporter;
    if (name.empty())
        name = options.telemetryDir.empty() ? kNop : kBuffer;
    if (name == kNop)
        return SelectedExporter{kNop, nullptr};
    if (name == kBuffer)
        return selectBuffer(params, options.telemetryDir);
    try {
        Result<std::shared_ptr<nixlTelemetryExporter>> exporter =
            makePluginExporter(name, params, directories);
        if (!exporter.ok())
            return exporter.status();
        return SelectedExporter{std::move(name), std::move(exporter).value()};
    } catch (const nixlTelemetryBindFailed &failure) {
        NIXL_LOG(kWarn, "telemetry exporter '", name, "' cannot serve, so the telemetry of agent '",
                 agentName, "' is not exported: ", failure.what());
        return SelectedExporter{kNop, nullptr};
    }
}

} // namespace nixl
