#include "engines/ucx/liveness.h"

#include <algorithm>
#include <utility>

#include "engines/ucx/peer.h"
#include "util/concat.h"

namespace nixl::ucx {

namespace {

constexpr std::chrono::milliseconds kTick{250};
/// A peer of which nothing was heard for so long is asked, and is silent if it does not answer in that time.
constexpr std::chrono::milliseconds kQuiet{1000};
/// A peer that is stalled, after all that, and whose system has not answered for so long, is lost: as one
/// that was not stalled, all in all.
constexpr std::chrono::milliseconds kSilence = Knock::kSilence - 2 * kQuiet;
/// So long another connection has to be the only one over which a peer answers.
constexpr std::chrono::milliseconds kReplace{1000};
constexpr std::chrono::milliseconds kLongestReplace{60'000};
/// A tick that is so late tells of this process, or its host: it was stopped, and what came meanwhile is not
/// read yet.
constexpr std::chrono::milliseconds kLate{1000};
/// Rounds of a worker without a thread.
constexpr int kRounds = 64;

} // namespace

Liveness::Liveness(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept)
    : workers_(workers), kept_(kept) {
    thread_.start("nixl-ucx-alive", [this] { run(); });
}

Liveness::~Liveness() {
    {
        const LockGuard lock(mutex_);
        stop_ = true;
    }
    changed_.notifyAll();
    thread_.join();
}

void
Liveness::watch(UcxPeer &peer) {
    {
        const LockGuard lock(mutex_);
        peers_[&peer].lanes.resize(workers_.size());
    }
    changed_.notifyAll();
}

void
Liveness::forget(UcxPeer &peer) {
    const LockGuard lock(mutex_);
    const auto found = peers_.find(&peer);
    if (found == peers_.end())
        return;
    letGo(found->second);
    peers_.erase(found);
}

void
Liveness::wake() {
    {
        const LockGuard lock(mutex_); // whoever looked before waits now
    }
    changed_.notifyAll();
}

bool
Liveness::anythingToDo() const {
    return !peers_.empty() || kept_.size() > 0 ||
           !std::all_of(workers_.begin(), workers_.end(),
                        [](const auto &worker) { return worker->threaded(); });
}

void
Liveness::run() {
    const LockGuard lock(mutex_);
    while (!stop_) {
        if (!anythingToDo()) {
            changed_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return stop_ || anythingToDo(); });
            last_ = Clock::now();
        }
        if (!changed_.waitFor(mutex_, kTick, [this]() NIXL_REQUIRES(mutex_) { return stop_; }))
            tick();
    }
}

void
Liveness::tick() {
    drive();
    const auto now = Clock::now();
    if (now - std::exchange(last_, now) > kTick + kLate)
        forgive(now);
    for (auto &[peer, watched] : peers_)
        look(*peer, watched, now);
    kept_.look();
}

void
Liveness::drive() {
    for (const auto &worker : workers_) {
        for (int i = 0; i < kRounds && !worker->threaded() && worker->progress(); ++i) {
        }
    }
}

/// Time that passed without us counts for nobody.
void
Liveness::forgive(Clock::time_point now) {
    for (auto &[peer, watched] : peers_) {
        for (Lane &lane : watched.lanes) {
            if (lane.silent)
                continue;
            lane.since = now;
            lane.asked = false;
        }
        if (watched.knock)
            watched.knock = std::make_unique<Knock>(peer->socketAddresses(),
                                                    watched.stalled ? kSilence : Knock::kSilence);
    }
}

void
Liveness::look(UcxPeer &peer, Watched &watched, Clock::time_point now) {
    if (!watched.lost.ok()) {
        // It may be lost before anybody listens: over a connection that was kept.
        peer.tell(PeerChange::kLost, watched.lost.message());
        return;
    }
    if (const Status why = peer.lost(); !why.ok()) {
        lose(peer, watched, why);
        return;
    }
    const bool asks = peer.packs() && peer.errorHandling();
    bool silent = false;
    bool broken = false;
    for (std::size_t i = 0; i < watched.lanes.size(); ++i) {
        Lane &lane = watched.lanes[i];
        Connection &connection = peer.connection(static_cast<unsigned>(i));
        connection.worker().with([&] {
            look(lane, asks, connection, now);
            connection.judgeLate(now);
        });
        silent |= lane.silent;
        broken |= lane.broken;
    }
    if (silent && !watched.stalled)
        stall(peer, watched);
    else if (!silent && watched.stalled)
        resume(peer, watched);
    if (silent || broken)
        findOut(peer, watched, now);
    else
        watched.knock.reset();
}

/// Whether nothing was heard over a connection for so long that something should have been. REQUIRES: the
/// lock of the connection's worker.
void
Liveness::look(Lane &lane, bool asks, Connection &connection, Clock::time_point now) {
    const Connection::Pulse pulse = connection.pulse();
    if (!pulse.stands || pulse.heard != lane.heard) {
        lane = {pulse.heard, now, false, {}, false, pulse.broken};
        return;
    }
    lane.broken = false;
    if (!asks) {
        if (!pulse.waits)
            lane.since = now;
        lane.silent = now - lane.since >= 2 * kQuiet;
        return;
    }
    if (now - lane.since >= kQuiet)
        connection.ping();
    else
        connection.askForLetters();
    if (now - lane.since >= kQuiet && !std::exchange(lane.asked, true))
        lane.askedAt = now;
    lane.silent = lane.asked && now - lane.askedAt >= kQuiet;
}

void
Liveness::stall(UcxPeer &peer, Watched &watched) {
    watched.stalled = true;
    peer.tell(PeerChange::kStalled, concat("agent '", peer.name(), "' does not answer"));
}

void
Liveness::resume(UcxPeer &peer, Watched &watched) {
    watched.stalled = false;
    if (!std::exchange(watched.replaced, false))
        watched.patience = kReplace;
    letGo(watched);
    peer.tell(PeerChange::kResumed, concat("agent '", peer.name(), "' answers again"));
}

void
Liveness::findOut(UcxPeer &peer, Watched &watched, Clock::time_point now) {
    if (!peer.errorHandling())
        return; // nothing can be ended by force
    // Of a process that ends, the socket that listens may be closed last, long after its connections.
    if (!watched.knock)
        watched.knock =
            std::make_unique<Knock>(peer.socketAddresses(), watched.stalled ? kSilence : Knock::kSilence);
    const Knock::Answer answer = watched.knock->look(now);
    if (answer == Knock::Answer::kRefused || answer == Knock::Answer::kSilent) {
        lose(peer, watched, gone(peer.name(), answer));
        return;
    }
    if (watched.stalled && peer.packs() && answer == Knock::Answer::kThere)
        tryAnother(peer, watched, now);
}

/// Connections that UCX has joined with those of the peer are kept, so that it loses none of its own.
void
Liveness::tryAnother(UcxPeer &peer, Watched &watched, Clock::time_point now) {
    const auto lane =
        std::find_if(watched.lanes.begin(), watched.lanes.end(), [](const Lane &one) { return one.silent; });
    if (lane == watched.lanes.end())
        return;
    Connection &old = peer.connection(static_cast<unsigned>(lane - watched.lanes.begin()));
    if (watched.other && watched.kept && watched.answered == Clock::time_point() &&
        now - watched.tried >= kReplace) {
        // It is of no use either. One more may be kept beside it, so that stalls do not add up.
        if (kept_.has(*watched.other))
            watched.other->worker().with([&] { watched.other->close(true); });
        else
            kept_.keep(watched.other);
        watched.other = nullptr;
    }
    if (!watched.other) {
        if (watched.tried == Clock::time_point())
            watched.other = kept_.take(old.worker(), peer.name(), old.address());
        watched.kept = watched.other != nullptr;
        if (!watched.other)
            watched.other = std::make_shared<Connection>(old.worker(), peer.name(), old.address(),
                                                         peer.errorHandling(), peer.socketAddresses());
        watched.tried = now;
        watched.answered = {};
        watched.heard = watched.other->worker().locked([&] { return watched.other->pulse().heard; });
    }
    std::uint64_t heard = 0;
    watched.other->worker().with([&] {
        watched.other->seen(); // its system answers the knock
        watched.other->ping();
        heard = watched.other->pulse().heard;
    });
    if (heard == watched.heard)
        return;
    if (watched.answered == Clock::time_point())
        watched.answered = now;
    if (now - watched.answered < watched.patience)
        return;
    // What takes longer to arrive than this must not end again and again.
    watched.patience = std::min(2 * watched.patience, kLongestReplace);
    watched.replaced = true;
    for (std::size_t i = 0; i < watched.lanes.size(); ++i) {
        if (!watched.lanes[i].silent)
            continue;
        Connection &connection = peer.connection(static_cast<unsigned>(i));
        connection.worker().with([&] { connection.replace(); });
    }
}

void
Liveness::lose(UcxPeer &peer, Watched &watched, const Status &why) {
    watched.lost = why;
    letGo(watched);
    peer.tell(PeerChange::kLost, why.message());
    peer.giveUp(why);
}

void
Liveness::letGo(Watched &watched) {
    watched.knock.reset();
    if (watched.other)
        kept_.keep(std::move(watched.other));
    watched.other = nullptr;
    watched.tried = {};
}

} // namespace nixl::ucx
