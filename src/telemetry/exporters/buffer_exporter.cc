#include "telemetry/exporters/buffer_exporter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "util/log.h"

namespace nixl {

Result<std::unique_ptr<BufferExporter>>
BufferExporter::create(const nixlTelemetryExporterInitParams &params, const std::string &directory) {
    if (params.maxEventsBuffered == 0 || params.maxEventsBuffered > kMaxBufferEvents)
        return Status::error(NIXL_ERR_INVALID_PARAM, "a telemetry buffer of ", params.maxEventsBuffered,
                             " events: from 1 to ", kMaxBufferEvents, " are possible");
    const std::uint64_t capacity = std::max<std::uint64_t>(2, std::bit_ceil(params.maxEventsBuffered));
    Result<std::string> name = bufferFileName(params.agentName);
    if (!name.ok())
        return name.status();
    Result<BufferFile> file = createBufferFile(directory, name.value(), capacity);
    if (!file.ok())
        return file.status();
    if (const std::string wanted = concat(directory, "/", name.value()); file.value().path != wanted)
        NIXL_LOG(kWarn, "telemetry buffer '", wanted,
                 "' is in use by another live agent of this name; this one's is '", file.value().path, "'");
    return std::unique_ptr<BufferExporter>(new BufferExporter(params, std::move(file).value(), capacity));
}

nixl_status_t
BufferExporter::exportEvent(const nixlTelemetryEvent &event) {
    BufferHeader &header = file_.mapping.header();
    const std::uint64_t next = (write_ + 1) & mask_;
    if (next == (header.readPosition.load(std::memory_order_acquire) & mask_))
        return NIXL_ERR_NOT_ALLOWED;
    std::memcpy(file_.mapping.slot(write_), &event, sizeof event);
    write_ = next;
    header.writePosition.store(write_, std::memory_order_release);
    return NIXL_SUCCESS;
}

} // namespace nixl
