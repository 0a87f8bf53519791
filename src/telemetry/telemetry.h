// Telemetry of one agent: what happened goes through a bounded queue to an exporter.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nixl_types.h"
#include "telemetry_event.h"
#include "util/fork_guard.h"
#include "util/options.h"
#include "util/status.h"

namespace nixl {

/**
 * Records events and hands them to the exporter once per NIXL_TELEMETRY_RUN_INTERVAL, and at the end.
 *
 * Recording never fails and never waits for the exporter: what does not fit into the queue, or is refused by
 * the exporter, is counted and reported as AGENT_TELEMETRY_EVENTS_DROPPED as soon as something fits again.
 *
 * Threads: record* from any thread at any time; not beside the destructor. One thread per object, which
 * sleeps while there is nothing to export; none for exporter NOP. In a forked child recording does nothing,
 * and the destructor leaves everything to the parent.
 */
class Telemetry {
public:
    /**
     * The telemetry of an agent, or nullptr if it is off. NIXL_TELEMETRY_ENABLE decides, and where it is not
     * set `captureTelemetry`, what the program asked for; a program whose wish is overruled gets a warning.
     * @param pluginDirectories  where to look for loadable exporters, in this order; empty: options.pluginDir
     *
     * An error (unknown or unusable exporter, a directory that cannot be used) names the setting at fault.
     */
    static Result<std::unique_ptr<Telemetry>> create(const std::string &agentName, bool captureTelemetry,
                                                     const Options &options,
                                                     std::vector<std::string> pluginDirectories = {});

    /// Exports what is left, then ends the exporter.
    ~Telemetry();

    Telemetry(const Telemetry &) = delete;
    Telemetry &operator=(const Telemetry &) = delete;

    /// A transfer that ended well: four events, all or none of them, in the order of transferEvents().
    void recordTransfer(nixl_xfer_op_t op, std::uint64_t bytes, std::chrono::microseconds postDuration,
                        std::chrono::microseconds xferDuration) noexcept;

    /// A call that registered, or deregistered, memory.
    void recordRegistered(std::uint64_t bytes) noexcept;
    void recordDeregistered(std::uint64_t bytes) noexcept;

    /// A call or transfer that ended with this status. NIXL_SUCCESS and NIXL_IN_PROG are no errors.
    void recordError(nixl_status_t status) noexcept;

    /// Events of an engine of another maker; those of unknown type are ignored.
    void recordEngineEvents(std::span<const nixlTelemetryEvent> events) noexcept;

    /// "BUFFER", "NOP", or the name of a loadable one.
    const std::string &exporterName() const;

private:
    class Pipeline;

    explicit Telemetry(std::unique_ptr<Pipeline> pipeline);

    const ForkGuard forkGuard_;
    std::unique_ptr<Pipeline> pipeline_;
};

} // namespace nixl
