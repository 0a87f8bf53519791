// Where events wait for the exporter: bounded, so that a slow exporter costs events and not memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "telemetry_event.h"
#include "util/mutex.h"

namespace nixl {

/// Any number of threads push, one drains. Never blocks for longer than a copy of the events.
class StagingQueue {
public:
    explicit StagingQueue(std::size_t capacity) : capacity_(capacity) {}

    /// What was taken out.
    struct Drained {
        std::vector<nixlTelemetryEvent> events; ///< oldest first
        std::uint64_t dropped = 0;              ///< events that did not fit since the last drain
    };

    /// Appends all events or, if they do not fit together (or memory is short), none; then they count as
    /// dropped. Returns true if the consumer should be woken: before this call there was nothing to drain.
    bool push(std::span<const nixlTelemetryEvent> events) noexcept NIXL_EXCLUDES(mutex_);

    /// Takes everything out. `spare` becomes the new storage, so that two vectors serve for good.
    Drained drain(std::vector<nixlTelemetryEvent> spare) noexcept NIXL_EXCLUDES(mutex_);

private:
    const std::size_t capacity_;
    Mutex mutex_;
    std::vector<nixlTelemetryEvent> events_ NIXL_GUARDED_BY(mutex_);
    std::uint64_t dropped_ NIXL_GUARDED_BY(mutex_) = 0;
};

} // namespace nixl
