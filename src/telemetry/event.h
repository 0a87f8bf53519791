// Events of the agent's own doing, made from what happened.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "nixl_types.h"
#include "telemetry_event.h"

namespace nixl {

/// What a finished transfer leaves, in the order in which readers see it.
using TransferEvents = std::array<nixlTelemetryEvent, 4>;

inline TransferEvents
transferEvents(nixl_xfer_op_t op, std::uint64_t bytes, std::chrono::microseconds postDuration,
               std::chrono::microseconds xferDuration) {
    using Type = nixl_telemetry_event_type_t;
    const bool write = op == NIXL_WRITE;
    const auto micros = [](std::chrono::microseconds time) {
        return static_cast<std::uint64_t>(time.count() < 0 ? 0 : time.count());
    };
    return {{{Type::AGENT_XFER_POST_TIME, micros(postDuration)},
             {Type::AGENT_XFER_TIME, micros(xferDuration)},
             {write ? Type::AGENT_TX_BYTES : Type::AGENT_RX_BYTES, bytes},
             {write ? Type::AGENT_TX_REQUESTS_NUM : Type::AGENT_RX_REQUESTS_NUM, 1}}};
}

/// The event that counts a failed call; none for NIXL_SUCCESS and NIXL_IN_PROG, "unknown" for foreign codes.
inline std::optional<nixl_telemetry_event_type_t>
errorEvent(nixl_status_t status) {
    using Type = nixl_telemetry_event_type_t;
    if (status >= 0)
        return std::nullopt;
    if (status < NIXL_ERR_NO_TELEMETRY)
        return Type::AGENT_ERR_UNKNOWN;
    const int distance = NIXL_ERR_NOT_POSTED - status;
    return static_cast<Type>(static_cast<int>(Type::AGENT_ERR_NOT_POSTED) + distance);
}

} // namespace nixl
