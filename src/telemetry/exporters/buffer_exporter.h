// Exporter BUFFER: a ring in a shared-memory file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "telemetry/exporters/buffer_file.h"
#include "telemetry/telemetry_exporter.h"
#include "util/status.h"

namespace nixl {

/// Its file stays when the exporter ends, so that a reader gets the last events.
class BufferExporter final : public nixlTelemetryExporter {
public:
    /// Makes the file in `directory`. The capacity is maxEventsBuffered rounded up to a power of two, at
    /// least 2. NIXL_ERR_INVALID_PARAM: the name or the size cannot be used; NIXL_ERR_BACKEND: the file
    /// cannot be made.
    static Result<std::unique_ptr<BufferExporter>> create(const nixlTelemetryExporterInitParams &params,
                                                          const std::string &directory);

    /// NIXL_ERR_NOT_ALLOWED: the ring is full.
    nixl_status_t exportEvent(const nixlTelemetryEvent &event) override;

    const std::string &
    path() const {
        return file_.path;
    }

private:
    BufferExporter(const nixlTelemetryExporterInitParams &params, BufferFile file, std::uint64_t capacity)
        : nixlTelemetryExporter(params), file_(std::move(file)), mask_(capacity - 1) {}

    BufferFile file_;
    // Not read back from the file, which others can write.
    const std::uint64_t mask_;
    std::uint64_t write_ = 0;
};

} // namespace nixl
