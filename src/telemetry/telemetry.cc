#include "telemetry/telemetry.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "telemetry/event.h"
#include "telemetry/exporter.h"
#include "telemetry/metric_filter.h"
#include "telemetry/staging_queue.h"
#include "util/log.h"
#include "util/mutex.h"
#include "util/worker.h"

namespace nixl {

/// Queue, exporter and the thread between them.
class Telemetry::Pipeline {
public:
    Pipeline(const std::string &agentName, SelectedExporter selected, MetricFilter filter,
             const Options &options)
        : agentName_(agentName), selected_(std::move(selected)), filter_(filter),
          interval_(std::max(options.telemetryRunInterval, std::chrono::milliseconds(1))),
          queue_(std::max<std::size_t>(options.telemetryBufferSize, TransferEvents().size())) {
        if (selected_.exporter)
            thread_.start("nixl-telemetry", [this] { run(); });
    }

    Pipeline(const Pipeline &) = delete;
    Pipeline &operator=(const Pipeline &) = delete;

    ~Pipeline() {
        {
            const LockGuard guard(mutex_);
            stopping_ = true;
        }
        wake_.notifyOne();
        thread_.join();
    }

    const std::string &
    exporterName() const {
        return selected_.name;
    }

    /// At most four events, as one unit.
    void
    record(std::span<const nixlTelemetryEvent> events) noexcept {
        if (!selected_.exporter)
            return;
        std::array<nixlTelemetryEvent, TransferEvents().size()> wanted;
        std::size_t count = 0;
        for (const nixlTelemetryEvent &event : events) {
            if (filter_.enabled(event.eventType_))
                wanted[count++] = nixlTelemetryEvent(event.eventType_, event.value_);
        }
        if (queue_.push(std::span(wanted).first(count)))
            announceWork();
    }

private:
    void
    announceWork() noexcept NIXL_EXCLUDES(mutex_) {
        {
            const LockGuard guard(mutex_);
            work_ = true;
        }
        wake_.notifyOne();
    }

    void
    run() {
        while (true) {
            bool last;
            {
                const LockGuard guard(mutex_);
                wake_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return work_ || stopping_; });
                wake_.waitFor(mutex_, interval_, [this]() NIXL_REQUIRES(mutex_) { return stopping_; });
                // Cleared before the flush: an event that comes during it announces work anew.
                work_ = false;
                last = stopping_;
            }
            flush();
            if (last)
                return;
            if (lost_ > 0)
                announceWork();
        }
    }

    void
    flush() noexcept {
        StagingQueue::Drained drained = queue_.drain(std::move(spare_));
        lost_ += drained.dropped;
        if (drained.events.empty() && lost_ == 0)
            return;
        selected_.exporter->withBatch([&] {
            for (const nixlTelemetryEvent &event : drained.events)
                lost_ += deliver(event) ? 0 : 1;
            reportLost();
        });
        spare_ = std::move(drained.events);
    }

    void
    reportLost() noexcept {
        constexpr auto kDropped = nixl_telemetry_event_type_t::AGENT_TELEMETRY_EVENTS_DROPPED;
        if (lost_ == 0)
            return;
        if (!std::exchange(lossLogged_, true))
            NIXL_LOG(kInfo, "telemetry of agent '", agentName_,
                     "' comes faster than it is taken; events are dropped and counted");
        if (!filter_.enabled(kDropped) || deliver(nixlTelemetryEvent(kDropped, lost_)))
            lost_ = 0;
    }

    bool
    deliver(const nixlTelemetryEvent &event) noexcept {
        try {
            return selected_.exporter->exportEvent(event) == NIXL_SUCCESS;
        } catch (const std::exception &failure) {
            logFailure(failure.what());
        } catch (...) {
            logFailure("an exception that is no std::exception");
        }
        return false;
    }

    void
    logFailure(const char *reason) noexcept {
        if (!std::exchange(failureLogged_, true))
            NIXL_LOG(kWarn, "telemetry exporter '", selected_.name, "' of agent '", agentName_,
                     "' loses events: ", reason);
    }

    const std::string agentName_;
    const SelectedExporter selected_;
    const MetricFilter filter_;
    const std::chrono::milliseconds interval_;
    StagingQueue queue_;

    Mutex mutex_;
    ConditionVariable wake_;
    bool work_ NIXL_GUARDED_BY(mutex_) = false;     ///< there may be something to export
    bool stopping_ NIXL_GUARDED_BY(mutex_) = false; ///< one flush more, then the end

    // Only the thread touches these.
    std::vector<nixlTelemetryEvent> spare_;
    std::uint64_t lost_ = 0;
    bool lossLogged_ = false;
    bool failureLogged_ = false;

    Worker thread_;
};

namespace {

/// True if telemetry is on.
bool
decideEnabled(const std::string &agentName, bool captureTelemetry, const Options &options) {
    const bool enabled = options.telemetryEnable.value_or(captureTelemetry);
    if (captureTelemetry && !enabled)
        NIXL_LOG(kWarn, TELEMETRY_ENABLE_VAR, " turns telemetry off although agent '", agentName,
                 "' asked for it");
    return enabled;
}

} // namespace

Result<std::unique_ptr<Telemetry>>
Telemetry::create(const std::string &agentName, bool captureTelemetry, const Options &options,
                  std::vector<std::string> pluginDirectories) {
    if (!decideEnabled(agentName, captureTelemetry, options))
        return std::unique_ptr<Telemetry>();
    if (pluginDirectories.empty() && !options.pluginDir.empty())
        pluginDirectories.push_back(options.pluginDir);
    std::vector<std::string> unmatched;
    const MetricFilter filter = MetricFilter::parse(options.telemetryEnabledMetrics, unmatched);
    for (const std::string &pattern : unmatched)
        NIXL_LOG(kWarn, TELEMETRY_ENABLED_METRICS_VAR, ": '", pattern, "' fits no event and is ignored");
    Result<SelectedExporter> selected = selectExporter(agentName, options, pluginDirectories);
    if (!selected.ok())
        return selected.status();
    try {
        return std::unique_ptr<Telemetry>(new Telemetry(
            std::make_unique<Pipeline>(agentName, std::move(selected).value(), filter, options)));
    } catch (const std::exception &failure) {
        return Status::error(NIXL_ERR_BACKEND, "telemetry of agent '", agentName, "': ", failure.what());
    }
}

Telemetry::Telemetry(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

Telemetry::~Telemetry() {
    // In a forked child there is no thread to join, and the exporter, its file and its locks are the
    // parent's: even destroying the condition variable would wait for the parent's sleeping thread.
    if (forkGuard_.inherited())
        (void)pipeline_.release();
}

void
Telemetry::recordTransfer(nixl_xfer_op_t op, std::uint64_t bytes, std::chrono::microseconds postDuration,
                          std::chrono::microseconds xferDuration) noexcept {
    if (!forkGuard_.inherited())
        pipeline_->record(transferEvents(op, bytes, postDuration, xferDuration));
}

void
Telemetry::recordRegistered(std::uint64_t bytes) noexcept {
    const nixlTelemetryEvent event(nixl_telemetry_event_type_t::AGENT_MEMORY_REGISTERED, bytes);
    if (!forkGuard_.inherited())
        pipeline_->record({&event, 1});
}

void
Telemetry::recordDeregistered(std::uint64_t bytes) noexcept {
    const nixlTelemetryEvent event(nixl_telemetry_event_type_t::AGENT_MEMORY_DEREGISTERED, bytes);
    if (!forkGuard_.inherited())
        pipeline_->record({&event, 1});
}

void
Telemetry::recordError(nixl_status_t status) noexcept {
    const auto type = errorEvent(status);
    if (!type || forkGuard_.inherited())
        return;
    const nixlTelemetryEvent event(*type, 1);
    pipeline_->record({&event, 1});
}

void
Telemetry::recordEngineEvents(std::span<const nixlTelemetryEvent> events) noexcept {
    if (forkGuard_.inherited())
        return;
    for (const nixlTelemetryEvent &event : events)
        pipeline_->record({&event, 1});
}

const std::string &
Telemetry::exporterName() const {
    return pipeline_->exporterName();
}

} // namespace nixl
