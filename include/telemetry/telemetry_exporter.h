/**
 * @file telemetry_exporter.h
 * What a telemetry exporter implements. One exporter serves one agent; docs/telemetry.md says which events
 * come.
 */
#ifndef NIXL_TELEMETRY_EXPORTER_H
#define NIXL_TELEMETRY_EXPORTER_H

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "nixl_types.h"
#include "telemetry_event.h"

/** What an exporter is created with. */
struct nixlTelemetryExporterInitParams {
    std::string agentName; ///< any bytes; not fit to be a path as it is
    std::size_t maxEventsBuffered = DEFAULT_TELEMETRY_BUFFER_SIZE; ///< NIXL_TELEMETRY_BUFFER_SIZE
};

/**
 * Thrown while an exporter is created, it means that an address or port is taken. The agent then warns and
 * runs without exporting, while any other exception ends the construction of the agent.
 */
class NIXL_EXPORT nixlTelemetryBindFailed : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/**
 * Carries events out of the process.
 *
 * Threads: all calls after the construction come from one thread at a time: the agent's telemetry thread, and
 * at the end the one that destroys the agent. No call is made under a lock of the library, and none on the
 * path of a transfer, so an exporter may block, but the events that do not fit into the staging queue
 * meanwhile are lost.
 *
 * Lifetime: the last batch is delivered before the destructor runs.
 */
class NIXL_EXPORT nixlTelemetryExporter {
public:
    explicit nixlTelemetryExporter(const nixlTelemetryExporterInitParams &init_params)
        : maxEventsBuffered_(init_params.maxEventsBuffered) {}

    virtual ~nixlTelemetryExporter() = default;

    nixlTelemetryExporter(const nixlTelemetryExporter &) = delete;
    nixlTelemetryExporter &operator=(const nixlTelemetryExporter &) = delete;

    /** Takes one event, in the order in which the events were recorded. Anything but NIXL_SUCCESS, and an
     *  exception, means that the event is lost; it is counted as dropped. */
    virtual nixl_status_t exportEvent(const nixlTelemetryEvent &event) = 0;

    /** Runs `body`, which exports events, as one batch: onBatchBegin, body, onBatchEnd, the last also if the
     *  body throws. Returns what the body returns. */
    template<typename Body>
    decltype(auto)
    withBatch(Body &&body) {
        const BatchScope scope(*this);
        return std::forward<Body>(body)();
    }

    std::size_t
    getMaxEventsBuffered() const noexcept {
        return maxEventsBuffered_;
    }

private:
    /** Around each group of events that is delivered together. */
    virtual void
    onBatchBegin() noexcept {}

    virtual void
    onBatchEnd() noexcept {}

    struct BatchScope {
        explicit BatchScope(nixlTelemetryExporter &owner) : exporter(owner) {
            exporter.onBatchBegin();
        }

        ~BatchScope() {
            exporter.onBatchEnd();
        }

        BatchScope(const BatchScope &) = delete;
        BatchScope &operator=(const BatchScope &) = delete;

        nixlTelemetryExporter &exporter;
    };

    const std::size_t maxEventsBuffered_;
};

#endif
