// An engine in memory whose every answer a test can script, and which watches that the core keeps its side of
// the contract in engine/engine.h.
//
// Agents of one process reach each other, also with different FakeSettings. DRAM_SEG and VRAM_SEG are
// addresses of this process; the other kinds live in FakeSettings' storage, one byte string per devId.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "util/mutex.h"

namespace nixl {

class FakeTransfer; // one posted run of a request

/// When a posted transfer ends.
enum class FakeCompletion {
    kInline, ///< within post()
    kWorker, ///< on the engine's thread, FakeScript::delay after the post
    kHeld,   ///< when the test calls FakeSettings::releaseOne() or releaseAll()
};

/// What the engines answer. A Status that is an error is the answer, every time, until the test changes it.
struct FakeScript {
    Status create;
    /// Registrations (of all engines of these settings) that succeed before one fails with `registration`;
    /// it fails once. Negative: none fails.
    int failRegistrationAfter = -1;
    Status registration{NIXL_ERR_BACKEND, "scripted registration failure"};
    Status deregister; ///< the region is closed all the same, as the contract says
    std::vector<std::uint64_t> failDeregistrationOf; ///< lengths to which `deregister` applies; empty: all
    std::function<void()> onDeregister;              ///< called first, without a lock; may block
    Status publicData;
    Status loopback;
    Status connectionInfo;
    Status loadPeer;
    Status loadRegion;
    Status connect;
    Status meet;
    HostLane lane = HostLane::kHostMemory;  ///< of an engine that joins: where meet() and path() find peers
    std::map<HostLane, std::string> limits; ///< lanes that its settings rule out, and why
    Status prepare;
    Status post;     ///< post() fails, nothing moves
    Status transfer; ///< the transfer starts and ends so; nothing moves
    Status notify;
    std::optional<std::string> undelivered; ///< notify() takes messages, and they are lost: why
    bool tellsFailures =
        true; ///< peers hear of transfers that fail, unless the connection was ended by force
    Status takeNotifications;
    FakeCompletion completion = FakeCompletion::kInline;
    std::chrono::milliseconds delay{0}; ///< for kWorker
    std::function<void()> help;         ///< work that a caller may do; may block
    bool cancelFails = false;           ///< cancel() says that memory is not quiet and the transfer goes on
    bool cutOffFails = false;           ///< cutOff() does nothing
    bool watches = true;                ///< what watch() answers
    bool silent = false;                ///< nothing is told through onActivity
    std::set<std::string> gone;         ///< agents that answer NIXL_ERR_REMOTE_DISCONNECT
    Path path{"memory", "both ends are in this process", 1.0, 10000.0, 0.01, false, {}, {}};
    Status pathRefused;
    /// Replaces `path` and `pathRefused`; `peer` is empty for the agent itself.
    std::function<Result<Path>(nixl_xfer_op_t, nixl_mem_t local, nixl_mem_t remote, const std::string &peer)>
        pathOf;
    std::optional<std::pair<std::chrono::microseconds, std::chrono::microseconds>> estimate;
};

/// A call that an engine got, or a message it delivered (method "notification").
struct FakeCall {
    std::string agent;  ///< whose engine
    std::string method; ///< of Engine or EngineRequest: "registerRegion", "post"
    std::string detail; ///< "0x1000+64 DRAM_SEG", a peer's name, a message
};

/// Objects that exist now.
struct FakeLive {
    int engines = 0;
    int localRegions = 0;
    int remoteRegions = 0;
    int peers = 0;
    int requests = 0;
};

/// Shared by a test and the engines made from it. The plain fields are read when a factory or an engine is
/// made; the methods may be called from any thread at any time.
struct FakeSettings {
    std::string name = "FAKE";
    std::string version = "1";
    nixl_mem_list_t memories{DRAM_SEG};
    bool local = true;
    bool remote = true;
    bool notifications = true;
    std::vector<std::pair<nixl_mem_t, std::string>> refused; ///< see Capabilities
    nixl_b_params_t options;
    std::string exclusiveGroup;
    std::string threadsOption;
    bool network = false;
    bool joins = false;

    FakeSettings();
    ~FakeSettings();
    FakeSettings(const FakeSettings &) = delete;
    FakeSettings &operator=(const FakeSettings &) = delete;

    /// A copy of the script.
    FakeScript script() const;

    /// Changes the script: settings->edit([](FakeScript &script) { script.post = ...; });
    void edit(const std::function<void(FakeScript &)> &change);

    /// Ends the held transfer that was posted first, as the script says now; false if none is held.
    bool releaseOne();

    /// Ends all held transfers in the order of their posts and returns how many.
    std::size_t releaseAll();

    std::size_t held() const;

    std::vector<FakeCall> calls() const;
    std::size_t count(const std::string &method) const;
    void clearCalls();
    FakeLive live() const;

    /// Has every engine report this of its peer of that name, as an engine does: under a lock.
    void tellPeerChange(const std::string &agent, PeerChange change, const std::string &why);

    /// Has every engine of `agent` report this, as an engine does: under a lock.
    void tellUndelivered(const std::string &agent, const std::string &peer, const std::string &message,
                         const std::string &why);

    /// The newest peer of that name that an engine has; nullptr if there is none.
    const Peer *peer(const std::string &agent) const;

    /// Configurations that engines were created with, oldest first.
    std::vector<EngineConfig> configs() const;

    /// What the core did against the contract of engine.h; a test expects none.
    std::vector<std::string> violations() const;

    /// Bytes behind a devId of FILE_SEG, OBJ_SEG or BLK_SEG; "" if nothing was written.
    std::string storage(std::uint64_t devId) const;
    void setStorage(std::uint64_t devId, std::string bytes);

    // ---- For the engine itself ----

    void record(std::string agent, std::string method, std::string detail);
    void violation(std::string text);
    void created(const EngineConfig &config);
    void addPeer(const std::string &agent, const Peer &peer);
    void removePeer(const Peer &peer);
    void changeLive(int FakeLive::*counter, int by);
    /// Counts a registration; the scripted error if it is to fail.
    Status countRegistration();
    void hold(std::shared_ptr<FakeTransfer> transfer);
    /// False if it is not held (any more).
    bool drop(const FakeTransfer *transfer);
    /// Copies between host memory and the storage of `devId`; `offset + length` must not wrap.
    Status accessStorage(std::uint64_t devId, std::uint64_t offset, void *host, std::size_t length,
                         bool store);

private:
    mutable Mutex mutex_;
    FakeScript script_ NIXL_GUARDED_BY(mutex_);
    std::deque<std::shared_ptr<FakeTransfer>> held_ NIXL_GUARDED_BY(mutex_);
    std::vector<FakeCall> calls_ NIXL_GUARDED_BY(mutex_);
    std::vector<EngineConfig> configs_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::pair<std::string, const Peer *>> peers_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::string> violations_ NIXL_GUARDED_BY(mutex_);
    FakeLive live_ NIXL_GUARDED_BY(mutex_);
    std::map<std::uint64_t, std::string> storage_ NIXL_GUARDED_BY(mutex_);
};

/// Makes fake engines. Objects of the engine keep the settings alive.
class FakeEngineFactory : public EngineFactory {
public:
    explicit FakeEngineFactory(std::shared_ptr<FakeSettings> settings);

    const EngineInfo &info() const override;
    Result<std::unique_ptr<Engine>> create(const EngineConfig &config) const override;
    std::optional<std::string> hostLaneLimit(HostLane lane, const EngineConfig &config) const override;

private:
    std::shared_ptr<FakeSettings> settings_;
    EngineInfo info_;
};

} // namespace nixl
