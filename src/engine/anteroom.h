// Where messages of agents of the same process wait while an inbox has no room for them.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "engine/inbox.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// Thread-safe. Nobody is called with the lock held.
class Anteroom {
public:
    /// Called once: when the message is in the inbox, or with the error that prevents it.
    using Entered = std::function<void(Status)>;

    explicit Anteroom(Inbox &inbox) : inbox_(inbox) {}

    /// Puts a message into the inbox after those that wait: the outcome, or nullopt if it waits as well;
    /// `entered` is called then, and only then. `who` names the message for withdraw().
    std::optional<Status> enter(const std::string &agent, std::string message, const void *who,
                                Entered entered);

    /// enter(), and waits for the outcome, at most `patience`, with no lock held. nullopt: there was no room
    /// for so long, and the message is dropped.
    std::optional<Status> enterWithin(const std::string &agent, std::string message,
                                      std::chrono::milliseconds patience);

    /// Takes a message that waits back, and its `entered` is not called. nullopt: it does not wait any more.
    std::optional<std::string> withdraw(const void *who);

    /// The inbox may have room. True if a message went into it.
    bool letIn();

    /// Sends all away, also those that come later.
    void close(const Status &reason);

private:
    struct Waiting {
        std::string agent;
        std::string message;
        const void *who;
        Entered entered;
    };

    Inbox &inbox_;
    Mutex mutex_; ///< before that of the inbox
    std::deque<Waiting> waiting_ NIXL_GUARDED_BY(mutex_);
    Status closed_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
