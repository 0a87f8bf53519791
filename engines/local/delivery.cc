#include "engines/local/delivery.h"

#include <utility>

#include "util/mutex.h"

namespace nixl::local {

std::optional<Status>
deliverThen(const Endpoint &from, Endpoint &to, std::string message, const void *who,
            Anteroom::Entered entered) {
    if (!to.table.view().open())
        return to.ended();
    auto outcome = to.anteroom.enter(from.agent, std::move(message), who, std::move(entered));
    if (outcome && outcome->ok())
        to.signalActivity();
    return outcome;
}

Status
deliverWithin(const Endpoint &from, Endpoint &to, std::string message, std::chrono::milliseconds patience) {
    Mutex mutex;
    ConditionVariable changed;
    std::optional<Status> outcome;
    const auto now = deliverThen(from, to, std::move(message), &outcome, [&](Status status) {
        const LockGuard lock(mutex);
        outcome = std::move(status);
        changed.notifyAll(); // under the lock: the waiting stack is gone once it sees the outcome
    });
    if (now)
        return *now;
    const auto told = [&outcome] { return outcome.has_value(); };
    {
        const LockGuard lock(mutex);
        if (changed.waitFor(mutex, patience, told))
            return *outcome;
    }
    if (to.anteroom.withdraw(&outcome))
        return Status::error(NIXL_ERR_NOT_ALLOWED, "agent '", to.agent,
                             "' does not read its notifications: its queue is full");
    const LockGuard lock(mutex);
    changed.wait(mutex, told); // it has just been let in or sent away
    return *outcome;
}

} // namespace nixl::local
