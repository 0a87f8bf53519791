#include "engine/anteroom.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nixl {

std::optional<Status>
Anteroom::enter(const std::string &agent, std::string message, const void *who, Entered entered) {
    const LockGuard lock(mutex_);
    if (!closed_.ok())
        return closed_;
    if (waiting_.empty() && inbox_.push(agent, std::move(message)))
        return Status();
    // NOLINTNEXTLINE(bugprone-use-after-move): an inbox that is full leaves it
    waiting_.push_back({agent, std::move(message), who, std::move(entered)});
    return std::nullopt;
}

std::optional<Status>
Anteroom::enterWithin(const std::string &agent, std::string message, std::chrono::milliseconds patience) {
    Mutex mutex;
    ConditionVariable changed;
    std::optional<Status> outcome;
    auto now = enter(agent, std::move(message), &outcome, [&](Status status) {
        const LockGuard lock(mutex);
        outcome = std::move(status);
        changed.notifyAll(); // under the lock: the waiting stack is gone once it sees the outcome
    });
    if (now)
        return now;
    const auto told = [&outcome] { return outcome.has_value(); };
    {
        const LockGuard lock(mutex);
        if (changed.waitFor(mutex, patience, told))
            return outcome;
    }
    if (withdraw(&outcome))
        return std::nullopt;
    const LockGuard lock(mutex);
    changed.wait(mutex, told); // it has just been let in or sent away
    return outcome;
}

std::optional<std::string>
Anteroom::withdraw(const void *who) {
    const LockGuard lock(mutex_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [who](const Waiting &waiting) { return waiting.who == who; });
    if (found == waiting_.end())
        return std::nullopt;
    std::string message = std::move(found->message);
    waiting_.erase(found);
    return message;
}

/// A push that the inbox refuses makes its next reader call again, so nobody is forgotten here.
bool
Anteroom::letIn() {
    std::vector<Entered> entered;
    {
        const LockGuard lock(mutex_);
        while (!waiting_.empty() &&
               inbox_.push(waiting_.front().agent, std::move(waiting_.front().message))) {
            entered.push_back(std::move(waiting_.front().entered));
            waiting_.pop_front();
        }
    }
    for (const Entered &told : entered)
        told(Status());
    return !entered.empty();
}

void
Anteroom::close(const Status &reason) {
    std::deque<Waiting> all;
    {
        const LockGuard lock(mutex_);
        closed_ = reason;
        all.swap(waiting_);
    }
    for (const Waiting &waiting : all)
        waiting.entered(reason);
}

} // namespace nixl
