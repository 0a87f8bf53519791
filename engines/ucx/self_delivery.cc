#include "engines/ucx/self_delivery.h"

#include <utility>
#include <vector>

namespace nixl::ucx {

void
SelfDelivery::deliver(std::string message, Done done) {
    {
        const LockGuard lock(mutex_);
        if (!waiting_.empty() || !inbox_.push(agent_, std::move(message))) {
            waiting_.push_back({std::move(message), std::move(done)});
            return;
        }
    }
    if (onArrival_)
        onArrival_();
    done();
}

Status
SelfDelivery::deliverWithin(std::string message, std::chrono::milliseconds patience) {
    {
        const LockGuard lock(mutex_);
        const bool taken = room_.waitFor(mutex_, patience, [&]() NIXL_REQUIRES(mutex_) {
            return waiting_.empty() && inbox_.push(agent_, std::move(message));
        });
        if (!taken)
            return Status::error(NIXL_ERR_NOT_ALLOWED, "agent '", agent_,
                                 "' does not take its notifications: its queue is full");
    }
    if (onArrival_)
        onArrival_();
    return {};
}

void
SelfDelivery::goOn() {
    std::vector<Done> done;
    {
        const LockGuard lock(mutex_);
        while (!waiting_.empty() && inbox_.push(agent_, std::move(waiting_.front().message))) {
            done.push_back(std::move(waiting_.front().done));
            waiting_.pop_front();
        }
        room_.notifyAll();
    }
    if (!done.empty() && onArrival_)
        onArrival_();
    for (const Done &one : done)
        one();
}

} // namespace nixl::ucx
