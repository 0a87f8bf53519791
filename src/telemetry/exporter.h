// Which exporter an agent gets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telemetry/telemetry_exporter.h"
#include "util/options.h"
#include "util/status.h"

namespace nixl {

/// An exporter and what it is called.
struct SelectedExporter {
    std::string name;                                ///< "BUFFER", "NOP", or that of a loadable file
    std::shared_ptr<nixlTelemetryExporter> exporter; ///< nullptr for NOP: nobody wants the events
};

/// NIXL_TELEMETRY_EXPORTER decides: BUFFER and NOP are built in, other names are files of the directories.
/// Without it, BUFFER if NIXL_TELEMETRY_DIR is set, else NOP. An exporter that cannot bind its address is
/// replaced by NOP, with a warning. An error names the setting that cannot be followed.
Result<SelectedExporter> selectExporter(const std::string &agentName, const Options &options,
                                        const std::vector<std::string> &directories);

} // namespace nixl
