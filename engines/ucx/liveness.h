// Whether peers still answer.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engines/ucx/kept_connections.h"
#include "engines/ucx/knock.h"
#include "engines/ucx/worker.h"
#include "util/mutex.h"
#include "util/worker.h"

namespace nixl::ucx {

class UcxPeer;

/// Looks at the connections of an engine's peers a few times a second, on a thread of its own, and drives
/// workers without threads a little, so that peers hear from this engine whatever its program does.
///
/// An engine of ours is asked for a sign of life when nothing was heard of it for a second. Of any other it
/// is seen only whether operations that wait for it go on. Who does not answer is stalled, and two things are
/// found out: whether its system answers (knock.h) - if not, or if that says that the process has ended, the
/// peer is lost - and, of one of ours, whether it answers over a new connection: then it has ended its side
/// of the old one, of which UCX does not always tell, and the old one is replaced.
class Liveness {
public:
    using Clock = std::chrono::steady_clock;

    /// Starts the thread. `workers` and `kept` outlive it.
    Liveness(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept);

    ~Liveness();
    Liveness(const Liveness &) = delete;
    Liveness &operator=(const Liveness &) = delete;

    /// Until forget(). Waits for a look that is under way, as forget() does: no lock of a worker is held.
    void watch(UcxPeer &peer);

    /// After the return nobody uses `peer` here.
    void forget(UcxPeer &peer);

    /// A connection was kept, to be closed when it breaks.
    void wake();

private:
    /// A connection, as of the last look.
    struct Lane {
        std::uint64_t heard = 0;
        Clock::time_point since{}; ///< when that was new
        bool asked = false;
        Clock::time_point askedAt{};
        bool silent = false;
        bool broken = false;
    };

    struct Watched {
        std::vector<Lane> lanes; ///< by index of the worker
        bool stalled = false;
        Status lost;                       ///< why it is
        std::unique_ptr<Knock> knock;      ///< while it is stalled, or one of its connections has broken
        std::shared_ptr<Connection> other; ///< over which it may answer; null: not tried
        bool kept = false;                 ///< it is from another time, and may be of no use either
        std::uint64_t heard = 0;           ///< of it when the try began
        Clock::time_point tried{};         ///< when that was
        Clock::time_point answered{};      ///< when it first did
        std::chrono::milliseconds patience{1000}; ///< how long that has to be so before others are replaced
        bool replaced = false;                    ///< some were, since it stalled
    };

    void run();
    bool anythingToDo() const NIXL_REQUIRES(mutex_);
    void tick() NIXL_REQUIRES(mutex_);
    void drive();
    void forgive(Clock::time_point now) NIXL_REQUIRES(mutex_);
    void look(UcxPeer &peer, Watched &watched, Clock::time_point now);
    static void look(Lane &lane, bool asks, Connection &connection, Clock::time_point now);
    void stall(UcxPeer &peer, Watched &watched);
    void resume(UcxPeer &peer, Watched &watched);
    void findOut(UcxPeer &peer, Watched &watched, Clock::time_point now);
    void tryAnother(UcxPeer &peer, Watched &watched, Clock::time_point now);
    void lose(UcxPeer &peer, Watched &watched, const Status &why);
    void letGo(Watched &watched);

    const std::vector<std::unique_ptr<ProgressWorker>> &workers_;
    KeptConnections &kept_;
    Mutex mutex_; ///< before the lock of a worker
    ConditionVariable changed_;
    std::unordered_map<UcxPeer *, Watched> peers_ NIXL_GUARDED_BY(mutex_);
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
    Clock::time_point last_ NIXL_GUARDED_BY(mutex_){}; ///< tick
    Worker thread_;
};

} // namespace nixl::ucx
