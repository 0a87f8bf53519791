// The inside of the fake engine: what its engines share and one run of a request.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "support/fake_engine.h"
#include "util/mutex.h"

namespace nixl {

/// A registration: of kinds that are no memory, length 0 and SIZE_MAX mean unbounded.
struct FakeRange {
    std::uint64_t address;
    std::uint64_t length;
    nixl_mem_t memory;

    bool covers(std::uint64_t start, std::uint64_t size) const;
};

/// What others see of an engine. Lives as long as somebody refers to it.
struct FakeCore {
    std::uint64_t id = 0;
    std::string agent;
    std::shared_ptr<FakeSettings> settings;
    std::map<std::uint64_t, FakeRange> ranges; ///< by key; guarded by FakeWorld::mutex

    std::optional<Inbox> inbox; ///< set by the engine, then constant

    /// Calls EngineConfig::onActivity, unless the engine has ended or the script says that it is silent.
    void signal();

    /// Calls EngineConfig::onUndelivered, unless the engine has ended.
    void tellUndelivered(const std::string &peer, const std::string &message, const std::string &why);

    Mutex telling; ///< held while the core is told something
    std::function<void()> onActivity NIXL_GUARDED_BY(telling);
    std::function<void(const std::string &, std::string, const std::string &)>
        onUndelivered NIXL_GUARDED_BY(telling);
};

/// All engines of the process. The mutex is held shared while bytes are copied, so that a deregistration
/// (which takes it alone) ends after the copies.
struct FakeWorld {
    SharedMutex mutex;
    std::map<std::uint64_t, std::shared_ptr<FakeCore>> cores NIXL_GUARDED_BY(mutex);
    std::uint64_t nextId NIXL_GUARDED_BY(mutex) = 1;
    std::uint64_t nextKey NIXL_GUARDED_BY(mutex) = 1;

    static FakeWorld &get();
};

struct FakeLocalRegion : LocalRegion {
    FakeLocalRegion(std::shared_ptr<FakeCore> owner, std::uint64_t key, FakeRange range);
    ~FakeLocalRegion() override;

    const std::shared_ptr<FakeCore> core;
    const std::uint64_t key;
    const FakeRange range;
    std::atomic<int> users{0}; ///< requests
};

struct FakePeer : Peer {
    FakePeer(std::shared_ptr<FakeSettings> settings, std::string name, std::uint64_t id);
    ~FakePeer() override;

    const std::shared_ptr<FakeSettings> settings;
    const std::string name;
    const std::uint64_t id;
    std::atomic<int> users{0}; ///< requests and remote regions
};

struct FakeRemoteRegion : RemoteRegion {
    FakeRemoteRegion(std::shared_ptr<FakeSettings> settings, std::uint64_t coreId, std::uint64_t key,
                     FakeRange range, FakePeer *peer);
    ~FakeRemoteRegion() override;

    const std::shared_ptr<FakeSettings> settings;
    const std::uint64_t coreId;
    const std::uint64_t key;
    const FakeRange range; ///< as the peer's metadata says
    FakePeer *const peer;  ///< nullptr: loop-back
    std::atomic<int> users{0};
};

/// Delivers a message to the engine `coreId`. NIXL_ERR_REMOTE_DISCONNECT if it is gone, NIXL_ERR_NOT_ALLOWED
/// if it has no room.
Status deliverFake(FakeCore &sender, std::uint64_t coreId, const std::string &message);

/// Tells the engine `coreId`, if it is there and the script allows it, that a transfer with this message
/// failed.
void deliverFakeFailure(FakeCore &sender, std::uint64_t coreId, const std::string &message,
                        const std::string &why);

/// One run: waiting, then running, then over.
class FakeTransfer {
public:
    FakeTransfer(std::shared_ptr<FakeCore> core, const TransferSpec &spec,
                 std::optional<std::string> notification);

    /// Moves the bytes as the script says now, once; does nothing if it is not waiting. Nothing is told of an
    /// end within post().
    void run(bool withinPost = false);

    /// Where it stands; a waiting one whose peer is gone ends here.
    Progress check();

    /// Ends it with NIXL_ERR_CANCELED if it is waiting, and waits for the end if it is running.
    void cancel();

    /// Ends it as a connection that this side ends: NIXL_ERR_REMOTE_DISCONNECT, peerLives.
    void cutOff();

private:
    enum class State { kWaiting, kRunning, kOver };

    Status move();
    Status moveBlock(FakeCore &target, const Block &block);
    bool end(Progress progress);
    void finish(Progress progress, bool quietly);
    void tellFailure(const std::string &why);
    bool peerGone() const;

    const std::shared_ptr<FakeCore> core_;
    const TransferSpec spec_; // what it points to outlives the request, which cancels the run at its end
    const std::optional<std::string> notification_;
    const std::string peerName_;
    const std::uint64_t targetId_;

    Mutex mutex_;
    ConditionVariable changed_;
    State state_ NIXL_GUARDED_BY(mutex_) = State::kWaiting;
    Progress progress_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
