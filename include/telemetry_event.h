/**
 * @file telemetry_event.h
 * Telemetry events as exporters receive them and as the shared-memory buffer stores them. Values and layout
 * are those of NIXL's telemetry version 4; docs/telemetry.md describes the file.
 */
#ifndef NIXL_TELEMETRY_EVENT_H
#define NIXL_TELEMETRY_EVENT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

/** Version of the event values and of the buffer's layout; a reader accepts no other. */
inline constexpr int TELEMETRY_VERSION = 4;

/** Events a buffer holds unless NIXL_TELEMETRY_BUFFER_SIZE says otherwise. */
inline constexpr std::size_t DEFAULT_TELEMETRY_BUFFER_SIZE = 4096;

/** Names of the environment variables that govern telemetry. */
inline constexpr char TELEMETRY_ENABLE_VAR[] = "NIXL_TELEMETRY_ENABLE";
inline constexpr char TELEMETRY_BUFFER_SIZE_VAR[] = "NIXL_TELEMETRY_BUFFER_SIZE";
inline constexpr char TELEMETRY_RUN_INTERVAL_VAR[] = "NIXL_TELEMETRY_RUN_INTERVAL";
inline constexpr char TELEMETRY_EXPORTER_VAR[] = "NIXL_TELEMETRY_EXPORTER";
inline constexpr char TELEMETRY_DIR_VAR[] = "NIXL_TELEMETRY_DIR";
inline constexpr char TELEMETRY_ENABLED_METRICS_VAR[] = "NIXL_TELEMETRY_ENABLED_METRICS";

/** What happened. A WRITE counts as tx, a READ as rx; times are microseconds. Values are stored in files. */
enum class nixl_telemetry_event_type_t : std::uint32_t {
    AGENT_TX_BYTES = 0,            ///< bytes of a finished WRITE
    AGENT_RX_BYTES = 1,            ///< bytes of a finished READ
    AGENT_TX_REQUESTS_NUM = 2,     ///< finished WRITE requests
    AGENT_RX_REQUESTS_NUM = 3,     ///< finished READ requests
    AGENT_MEMORY_REGISTERED = 4,   ///< bytes registered by one call
    AGENT_MEMORY_DEREGISTERED = 5, ///< bytes deregistered by one call
    AGENT_XFER_TIME = 6,           ///< from the start of the post to the known end of the transfer
    AGENT_XFER_POST_TIME = 7,      ///< time spent in the posting call
    AGENT_ERR_NOT_POSTED = 8,      ///< this and the following: calls that ended with that status
    AGENT_ERR_INVALID_PARAM = 9,
    AGENT_ERR_BACKEND = 10,
    AGENT_ERR_NOT_FOUND = 11,
    AGENT_ERR_MISMATCH = 12,
    AGENT_ERR_NOT_ALLOWED = 13,
    AGENT_ERR_REPOST_ACTIVE = 14,
    AGENT_ERR_UNKNOWN = 15,
    AGENT_ERR_NOT_SUPPORTED = 16,
    AGENT_ERR_REMOTE_DISCONNECT = 17,
    AGENT_ERR_CANCELED = 18,
    AGENT_ERR_NO_TELEMETRY = 19,
    AGENT_TELEMETRY_EVENTS_DROPPED = 20, ///< events that did not fit into the staging queue
};

/** How many event types there are; every value below it is one. */
inline constexpr std::size_t nixl_telemetry_event_type_count = 21;

/** One event: 16 bytes, copied as they are into the buffer file, so no byte of it is left unset. */
struct nixlTelemetryEvent {
    nixl_telemetry_event_type_t eventType_ = nixl_telemetry_event_type_t::AGENT_TX_BYTES;
    std::uint32_t reserved_ = 0; ///< always 0: nothing of the process's memory may leak into the file
    std::uint64_t value_ = 0;

    nixlTelemetryEvent() = default;

    nixlTelemetryEvent(nixl_telemetry_event_type_t type, std::uint64_t value)
        : eventType_(type), value_(value) {}
};

static_assert(sizeof(nixlTelemetryEvent) == 16 && alignof(nixlTelemetryEvent) == 8);
static_assert(offsetof(nixlTelemetryEvent, value_) == 8);
static_assert(std::is_trivially_copyable_v<nixlTelemetryEvent>);
static_assert(std::has_unique_object_representations_v<nixlTelemetryEvent>);

namespace nixlEnumStrings {
/** Names of the events, by value; NIXL_TELEMETRY_ENABLED_METRICS selects by them. */
inline constexpr std::array<std::string_view, nixl_telemetry_event_type_count> telemetryEventTypeNames{
    "agent_tx_bytes",          "agent_rx_bytes",          "agent_tx_requests_num",
    "agent_rx_requests_num",   "agent_memory_registered", "agent_memory_deregistered",
    "agent_xfer_time",         "agent_xfer_post_time",    "agent_err_not_posted",
    "agent_err_invalid_param", "agent_err_backend",       "agent_err_not_found",
    "agent_err_mismatch",      "agent_err_not_allowed",   "agent_err_repost_active",
    "agent_err_unknown",       "agent_err_not_supported", "agent_err_remote_disconnect",
    "agent_err_canceled",      "agent_err_no_telemetry",  "agent_telemetry_events_dropped",
};

/** Name of an event type: "agent_tx_bytes". Unknown values: "BAD_EVENT". */
inline std::string
telemetryEventTypeStr(const nixl_telemetry_event_type_t &type) {
    const auto index = static_cast<std::size_t>(type);
    return std::string(index < telemetryEventTypeNames.size() ? telemetryEventTypeNames[index] : "BAD_EVENT");
}
} // namespace nixlEnumStrings

#endif
