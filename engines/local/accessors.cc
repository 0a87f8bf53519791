#include "engines/local/accessors.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <thread>

#include "util/concat.h"

namespace nixl::local {

Accessor::Accessor(std::string agent, pid_t pid, ScopedFd pidfd, MarksView marks, LifeView life,
                   const Hello &hello)
    : agent_(std::move(agent)), pid_(pid), pidfd_(std::move(pidfd)), marks_(std::move(marks)),
      life_(std::move(life)), token_(hello.token), tokenAddress_(hello.tokenAddress),
      revision_(std::min(kRevision, hello.revision)),
      description_(concat("agent '", agent_, "' (process ", pid, ")")), tokenVisible_(seesToken()) {}

bool
Accessor::ended() const {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
}

bool
Accessor::gone() const {
    if (ended())
        return true;
    if (life_.alive())
        return false;
    // It is exiting or executing another program. The memory that held the token is replaced only after all
    // other threads have ended.
    return tokenVisible_ && !seesToken();
}

bool
Accessor::seesToken() const {
    Challenge seen{};
    iovec to{seen.data(), seen.size()};
    iovec from{reinterpret_cast<void *>(tokenAddress_), seen.size()};
    const ssize_t got = process_vm_readv(pid_, &to, 1, &from, 1, 0);
    return got == static_cast<ssize_t>(seen.size()) && seen == token_;
}

void
Accessors::add(std::shared_ptr<Accessor> accessor) {
    const LockGuard lock(mutex_);
    accessors_.push_back(std::move(accessor));
}

void
Accessors::remove(const Accessor *accessor) {
    const LockGuard lock(mutex_);
    std::erase_if(accessors_, [&](const auto &entry) { return entry.get() == accessor; });
}

std::size_t
Accessors::size() const {
    const LockGuard lock(mutex_);
    return accessors_.size();
}

std::vector<Accessors::Busy>
Accessors::busyNow(const MarkPage &own) const {
    std::vector<Busy> busy;
    std::vector<BusyMark> marks;
    collectBusy(own, marks);
    if (!marks.empty())
        busy.push_back({nullptr, std::move(marks)});
    const LockGuard lock(mutex_);
    for (const auto &accessor : accessors_) {
        marks.clear();
        collectBusy(accessor->marks(), marks);
        if (!marks.empty())
            busy.push_back({accessor, std::move(marks)});
    }
    return busy;
}

void
Accessors::dropOver(std::vector<Busy> &busy) {
    std::erase_if(busy, [](Busy &entry) {
        std::erase_if(entry.marks, [](const BusyMark &mark) { return mark.over(); });
        return entry.marks.empty();
    });
}

Status
Accessors::waitQuiet(const MarkPage &own, std::chrono::milliseconds patience) const {
    constexpr int kSpins = 200;
    std::vector<Busy> busy = busyNow(own);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (int round = 0; !busy.empty(); ++round) {
        dropOver(busy);
        if (busy.empty())
            break;
        if (round < kSpins) {
            std::this_thread::yield();
            continue;
        }
        std::erase_if(busy, [](const Busy &entry) { return entry.accessor && entry.accessor->gone(); });
        if (busy.empty())
            break;
        if (std::chrono::steady_clock::now() >= deadline) {
            const auto &accessor = busy.front().accessor;
            return Status::error(NIXL_ERR_BACKEND, accessor ? accessor->description() : "this process",
                                 " is still in a copy to or from memory of this agent after ",
                                 patience.count(), " ms; ",
                                 accessor ? "is it stopped?" : "is a thread blocked?");
        }
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return {};
}

} // namespace nixl::local
