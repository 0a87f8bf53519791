// Exporters that lie as files libtelemetry_exporter_NAME.so in the plugin directories.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telemetry/telemetry_exporter.h"
#include "util/status.h"

namespace nixl {

/// Makes an exporter from the first file of that name that can be used. The file's nixl_telemetry_plugin_init
/// runs before its first exporter is made, nixl_telemetry_plugin_fini after its last one is gone; calls into
/// a file do not overlap with these two. Any thread.
///
/// NIXL_ERR_NOT_FOUND: no such file; the message lists what exists and where was looked.
/// NIXL_ERR_NOT_SUPPORTED: a file that cannot be used; the message says why. NIXL_ERR_BACKEND: the exporter
/// refused to start. Throws nixlTelemetryBindFailed, and nothing else, if the exporter does.
Result<std::shared_ptr<nixlTelemetryExporter>>
makePluginExporter(const std::string &name, const nixlTelemetryExporterInitParams &params,
                   const std::vector<std::string> &directories);

} // namespace nixl
