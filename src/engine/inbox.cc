#include "engine/inbox.h"

#include <iterator>
#include <utility>

#include "util/log.h"

namespace nixl {

namespace {

/// What a message costs beyond its bytes.
constexpr std::uint64_t kMessageOverhead = 64;

std::uint64_t
costOf(const FailedNotification &failure) {
    return failure.agent.size() + failure.message.size() + failure.why.size() + kMessageOverhead;
}

} // namespace

bool
Inbox::push(const std::string &agent, std::string &&message) {
    const LockGuard lock(mutex_);
    if (bytes_ >= limit_) {
        refused_ = true;
        return false;
    }
    bytes_ += message.size() + agent.size() + kMessageOverhead;
    messages_.push_back({agent, std::move(message)});
    return true;
}

bool
Inbox::take(std::vector<Notification> &out) {
    std::vector<Notification> messages;
    bool refused;
    {
        const LockGuard lock(mutex_);
        messages.swap(messages_);
        bytes_ = 0;
        refused = std::exchange(refused_, false);
    }
    if (out.empty())
        out = std::move(messages);
    else
        out.insert(out.end(), std::make_move_iterator(messages.begin()),
                   std::make_move_iterator(messages.end()));
    return refused;
}

void
Inbox::pushFailure(FailedNotification failure) {
    const LockGuard lock(mutex_);
    failureBytes_ += costOf(failure);
    failures_.push_back(std::move(failure));
    while (failureBytes_ > limit_ && failures_.size() > 1) {
        const FailedNotification &oldest = failures_.front();
        NIXL_LOG(kWarn, "the word of '", oldest.agent,
                 "' that a transfer failed is dropped: nobody takes such words (failed_notifs)");
        failureBytes_ -= costOf(oldest);
        failures_.pop_front();
    }
}

void
Inbox::takeFailures(std::vector<FailedNotification> &out) {
    const LockGuard lock(mutex_);
    out.insert(out.end(), std::make_move_iterator(failures_.begin()),
               std::make_move_iterator(failures_.end()));
    failures_.clear();
    failureBytes_ = 0;
}

} // namespace nixl
