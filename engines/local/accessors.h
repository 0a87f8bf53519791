// Whoever may be copying to or from the memory of an engine, and how to wait until none of them does.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engines/local/life_page.h"
#include "engines/local/marks.h"
#include "engines/local/protocol.h"
#include "util/mutex.h"
#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl::local {

/// A peer process with access to our memory.
class Accessor {
public:
    Accessor(std::string agent, pid_t pid, ScopedFd pidfd, MarksView marks, LifeView life,
             const Hello &hello);

    const MarkPage &
    marks() const {
        return marks_.page();
    }

    /// For messages: "agent 'x' (process 7)".
    const std::string &
    description() const {
        return description_;
    }

    const std::string &
    agent() const {
        return agent_;
    }

    /// That both sides understand.
    std::uint32_t
    revision() const {
        return revision_;
    }

    int
    pidfd() const {
        return pidfd_.get();
    }

    /// Whether the process has ended.
    bool ended() const;

    /// Whether no thread that could set the marks exists any more, so that they mean nothing: the process has
    /// ended or executed another program. Its life page alone does not tell: that ends a little earlier than
    /// a thread in the middle of a copy.
    bool gone() const;

private:
    bool seesToken() const;

    const std::string agent_;
    const pid_t pid_;
    const ScopedFd pidfd_;
    const MarksView marks_;
    const LifeView life_;
    const Challenge token_;
    const std::uint64_t tokenAddress_;
    const std::uint32_t revision_;
    const std::string description_;
    const bool tokenVisible_; // we may read the peer's memory, and the token lies there
};

/// Thread-safe.
class Accessors {
public:
    void add(std::shared_ptr<Accessor> accessor);
    void remove(const Accessor *accessor);
    std::size_t size() const;

    /// Waits until every copy has ended that is under way now, by peers and by this process (`own`), whose
    /// marks are set before the call. NIXL_ERR_BACKEND after `patience`, with the name of a peer that still
    /// copies.
    Status waitQuiet(const MarkPage &own, std::chrono::milliseconds patience) const;

private:
    struct Busy {
        std::shared_ptr<Accessor> accessor; // nullptr: this process
        std::vector<BusyMark> marks;
    };

    std::vector<Busy> busyNow(const MarkPage &own) const;
    static void dropOver(std::vector<Busy> &busy);

    mutable Mutex mutex_;
    std::vector<std::shared_ptr<Accessor>> accessors_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::local
