// Sleeping until something has happened.
#include <algorithm>

#include "agent/agent_state.h"

using nixl::Status;
using Clock = nixl::Activity::Clock;

namespace {

/// How often who waits asks, while an engine cannot tell.
constexpr std::chrono::milliseconds kAskEvery{1};

/// What a look at what is waited for has found.
struct Sight {
    bool enough = false;                    ///< there is nothing to wait for
    std::shared_ptr<nixl::EngineWork> work; ///< that can be done meanwhile
    std::optional<Clock::time_point> next;  ///< a request has to be looked at then
};

void
makeEarlier(std::optional<Clock::time_point> &limit, const std::optional<Clock::time_point> &other) {
    if (other && (!limit || *other < *limit))
        limit = other;
}

/// Looks at a request. It is not held while its waiter sleeps or works, so that others can release it.
/// True if it is not in progress.
bool
lookAt(const nixl::HandleTable<nixlXferReqH> &requests, const nixlXferReqH *handle, Sight &sight) {
    const auto request = requests.find(handle);
    if (!request)
        return true;
    nixlXferReqH::Look look = request->look();
    if (!look.ended && !sight.work)
        sight.work = std::move(look.work);
    makeEarlier(sight.next, look.next);
    return look.ended;
}

} // namespace

/// Calls `look(Sight &)` until it has seen enough, which is true, or the time is up. What it sees is
/// signalled afterwards at the latest; so it misses nothing that comes after the count was read.
template<typename Look>
bool
nixlAgentData::waitUntil(const Deadline &deadline, Look look) {
    for (;;) {
        const std::uint32_t seen = activity->count();
        Sight sight;
        look(sight);
        if (sight.enough)
            return true;
        const auto now = Clock::now();
        const bool over = deadline && now >= *deadline;
        if (sight.work && !over) {
            sight.work->help();
            continue;
        }
        const bool told = backends.watch();
        if (over)
            return false;
        Deadline until = sight.next;
        makeEarlier(until, deadline);
        if (!told)
            makeEarlier(until, now + kAskEvery);
        activity->sleep(seen, until);
    }
}

std::optional<std::size_t>
nixlAgentData::waitAny(std::span<nixlXferReqH *const> handles, const Deadline &deadline) {
    std::size_t ended = 0;
    const bool any = waitUntil(deadline, [&](Sight &sight) {
        const auto found = std::find_if(handles.begin(), handles.end(), [&](const nixlXferReqH *handle) {
            return lookAt(requests, handle, sight);
        });
        sight.enough = found != handles.end();
        ended = static_cast<std::size_t>(found - handles.begin());
    });
    return any ? std::optional(ended) : std::nullopt;
}

bool
nixlAgentData::waitAll(std::span<nixlXferReqH *const> handles, const Deadline &deadline) {
    // Those that have ended are not looked at again; those behind the first that has not, once, and when one
    // of them asks for it.
    auto left = handles.begin();
    bool all = true;
    Deadline next;
    return waitUntil(deadline, [&](Sight &sight) {
        if (all || (next && Clock::now() >= *next)) {
            Sight others;
            for (const nixlXferReqH *handle : std::span(left, handles.end()))
                (void)lookAt(requests, handle, others);
            next = others.next;
            all = false;
        }
        while (left != handles.end() && lookAt(requests, *left, sight))
            ++left;
        makeEarlier(sight.next, next);
        sight.enough = left == handles.end();
    });
}

Status
nixlAgentData::waitNotifications(nixl_notifs_t &out, const nixl_opt_args_t *args, const Deadline &deadline) {
    Status status;
    (void)waitUntil(deadline, [&](Sight &sight) {
        status = takeNotifications(out, args);
        sight.enough = !status.ok() || !out.empty();
    });
    return status;
}
