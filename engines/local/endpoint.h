// What peers and running transfers of the same process may still hold when an engine has ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engines/local/lent_memory.h"
#include "engines/local/region_table.h"
#include "util/mutex.h"
#include "wire/metadata_blob.h"

namespace nixl::local {

/// The messages that an engine got. Thread-safe.
class Inbox {
public:
    explicit Inbox(std::uint64_t limit) : limit_(limit) {}

    /// False, and the message untouched, if it is full: nothing is taken in while `limit` bytes wait.
    bool push(const std::string &agent, std::string &&message);

    /// Appends all to `out`. True if the inbox was full: whoever waits for room can go on.
    bool take(std::vector<Notification> &out);

private:
    const std::uint64_t limit_;
    Mutex mutex_;
    std::vector<Notification> messages_ NIXL_GUARDED_BY(mutex_);
    std::uint64_t bytes_ NIXL_GUARDED_BY(mutex_) = 0;
    bool refused_ NIXL_GUARDED_BY(mutex_) = false;
};

struct Endpoint {
    Endpoint(const Incarnation &id, std::string name, RegionTable regions, std::uint64_t inboxLimit,
             std::function<void()> onActivity)
        : incarnation(id), agent(std::move(name)), table(std::move(regions)), inbox(inboxLimit),
          onActivity_(std::move(onActivity)) {}

    const Incarnation incarnation;
    const std::string agent;
    RegionTable table;
    LentMemory lent;
    Inbox inbox;

    /// Tells the core that something happened, unless the engine has ended.
    void signalActivity();

    /// After the return nothing more is told.
    void end();

private:
    Mutex mutex_;
    std::function<void()> onActivity_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::local
