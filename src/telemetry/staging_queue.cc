#include "telemetry/staging_queue.h"

#include <new>
#include <utility>

namespace nixl {

bool
StagingQueue::push(std::span<const nixlTelemetryEvent> events) noexcept {
    if (events.empty())
        return false;
    const LockGuard guard(mutex_);
    const bool idle = events_.empty() && dropped_ == 0;
    if (events.size() > capacity_ - events_.size()) {
        dropped_ += events.size();
        return idle;
    }
    try {
        events_.insert(events_.end(), events.begin(), events.end());
    } catch (const std::bad_alloc &) {
        dropped_ += events.size();
    }
    return idle;
}

StagingQueue::Drained
StagingQueue::drain(std::vector<nixlTelemetryEvent> spare) noexcept {
    spare.clear();
    const LockGuard guard(mutex_);
    return {std::exchange(events_, std::move(spare)), std::exchange(dropped_, 0)};
}

} // namespace nixl
