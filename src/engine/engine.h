// The interface between the core and the engines that move bytes.
//
// An engine states as data what it can do and gets whole lists at once, never one call per descriptor. The
// core checks arguments, resolves descriptors to regions, picks the path and keeps the state of requests; an
// engine only moves bytes and says when it is done with memory.
//
// Threads: every method may be called from any thread, also at the same time, unless it says otherwise.
// Lifetime: the core destroys requests before the regions and peers they use, those before the engine, and
// keeps what a request refers to (blocks, regions, peer) alive as long as the request.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nixl_descriptors.h"
#include "nixl_types.h"
#include "telemetry_event.h"
#include "util/status.h"

namespace nixl {

struct Options; // util/options.h

/// What an engine is, known before one is created.
struct EngineInfo {
    std::string name;         ///< as createBackend takes it
    std::string version;      ///< for people
    nixl_mem_list_t memories; ///< kinds of memory it registers
    nixl_b_params_t options;  ///< parameters and their defaults
    /// Engines that cannot be in one agent have the same non-empty group.
    std::string exclusiveGroup;
    /// Parameter that takes the number of threads a program asks for, if there is one.
    std::string threadsOption;
    /// Reaches other hosts. The engine that `joins` comes with it, and stands in if it cannot start here.
    bool network = false;
    /// Serves one host: comes by itself with the first network engine and works on its behalf.
    bool joins = false;
};

/// Ways to memory of the same host, which a program can rule out by settings of a network engine.
enum class HostLane {
    kSameProcess,  ///< memory of the agent's own process
    kHostMemory,   ///< host memory of another process
    kDeviceMemory, ///< device memory of another process
};

/// What a created engine can do.
struct Capabilities {
    nixl_mem_list_t memories;   ///< kinds of memory it registers
    bool local = false;         ///< moves between two regions of the same agent
    bool remote = false;        ///< moves between regions of two agents
    bool notifications = false; ///< carries messages between agents; REQUIRED if remote
    /// Kinds of memory that it would register elsewhere but does not here, each with the reason.
    std::vector<std::pair<nixl_mem_t, std::string>> refused{};
};

class Peer;

/// What an engine can learn about a peer that it has met.
enum class PeerChange {
    kStalled, ///< it does not answer, and may go on at any time: nothing of it has ended
    kResumed, ///< it answers again
    kLost,    ///< it is gone: what is under way with it ends with NIXL_ERR_REMOTE_DISCONNECT
};

/// What the core tells a new engine.
struct EngineConfig {
    std::string agentName;
    nixl_b_params_t params; ///< as the program gave them; unknown keys are ignored
    bool progressThread = false;
    std::chrono::microseconds progressDelay{0};
    nixl_thread_sync_t syncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE;
    bool telemetry = false;
    std::shared_ptr<const Options> options; ///< the process's settings when the agent was made; not null
    /// Called when a posted request has become terminal outside of post(), and when a message, or word of a
    /// failed transfer, has arrived; not after the engine's destructor has returned. From any thread, with
    /// locks of the engine held: it only wakes whoever waits, and calls nothing of the engine. May be empty.
    std::function<void()> onActivity;
    /// Called when the engine learns something about the life of a peer; `peer` is for comparing only, and
    /// not told of after its destructor has returned. From any thread, with locks of the engine held,
    /// as onActivity, and also where nobody asks for a transfer. May be empty.
    std::function<void(const Peer *peer, PeerChange change, const std::string &why)> onPeerChange;
    /// Called for each message to a peer that the engine took and cannot deliver, or cannot say of whether it
    /// arrived: the peer is gone, or was given up. As onPeerChange, but also for a peer whose destructor has
    /// returned. Not for the message of a transfer whose end says so.
    std::function<void(const std::string &peerName, std::string message, const std::string &why)>
        onUndelivered;
};

/// An engine's side of a local registration. Destroyed after Engine::deregister succeeded or with the engine.
class LocalRegion {
public:
    virtual ~LocalRegion() = default;
    LocalRegion(const LocalRegion &) = delete;
    LocalRegion &operator=(const LocalRegion &) = delete;

protected:
    LocalRegion() = default;
};

/// An engine's side of a peer's registration. Destroyed once no list or request uses it.
class RemoteRegion {
public:
    virtual ~RemoteRegion() = default;
    RemoteRegion(const RemoteRegion &) = delete;
    RemoteRegion &operator=(const RemoteRegion &) = delete;

protected:
    RemoteRegion() = default;
};

/// An engine's side of a peer: from loadPeer until nothing uses it. Destroying it closes its connections.
class Peer {
public:
    virtual ~Peer() = default;
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

protected:
    Peer() = default;
};

/// A contiguous piece of a transfer, resolved: `length` bytes between `local` and `remote`.
struct Block {
    std::uint64_t local;  ///< address or offset on this side
    std::uint64_t remote; ///< address or offset on the peer's side
    std::uint64_t length;
    std::uint32_t localRegion;  ///< index into TransferSpec::localRegions
    std::uint32_t remoteRegion; ///< index into TransferSpec::remoteRegions
};

/// One end of a transfer as an engine registered it.
struct LocalRegionRef {
    LocalRegion *region;
    std::uint64_t devId;
};

struct RemoteRegionRef {
    RemoteRegion *region;
    std::uint64_t devId;
};

/// A whole transfer. Everything it points to outlives the request that is prepared from it.
///
/// Strided rows arrive as their blocks.
struct TransferSpec {
    nixl_xfer_op_t operation;
    nixl_mem_t localMemory;
    nixl_mem_t remoteMemory;
    std::span<const Block> blocks; ///< at least one
    std::uint64_t bytes;           ///< sum of the lengths
    std::span<const LocalRegionRef> localRegions;
    std::span<const RemoteRegionRef> remoteRegions;
    std::string_view peerName;
    Peer *peer;                   ///< nullptr: the other end is this agent itself
    std::string_view customParam; ///< engine-specific, from the program
};

/// A way to reach memory, as an engine offers it for a pair of kinds of memory and a peer.
struct Path {
    std::string lane;                   ///< name for people: "process_vm"
    std::string reason;                 ///< why the engine takes this lane; one clause
    double latencyUs = 0;               ///< fixed cost of a transfer
    double bytesPerUs = 1;              ///< bandwidth
    double perBlockUs = 0;              ///< cost of each block beyond its bytes
    bool peerTakesPart = false;         ///< the peer's library must run for the transfer to go on
    std::optional<HostLane> hostLane{}; ///< set by engines that join
    /// Faster lanes of the same engine that cannot be used here, each with the reason.
    std::vector<std::pair<std::string, std::string>> refused;

    /// Microseconds that `blocks` pieces of `bytes` in all take.
    double
    estimateUs(std::size_t blocks, std::uint64_t bytes) const {
        return latencyUs + perBlockUs * static_cast<double>(blocks) + static_cast<double>(bytes) / bytesPerUs;
    }
};

/// State of a posted transfer. Terminal states hold once the engine no longer touches local memory.
struct Progress {
    nixl_status_t code = NIXL_IN_PROG; ///< NIXL_IN_PROG, NIXL_SUCCESS or an error
    std::string message;               ///< cause of an error
    /// When the engine saw it end, if it knows better than the moment of the question.
    std::optional<std::chrono::steady_clock::time_point> ended{};
    /// Of NIXL_ERR_REMOTE_DISCONNECT: only the connection has ended, by this side or the other; the peer is
    /// not known to be gone, and is connected with again at the next use.
    bool peerLives = false;

    static Progress
    failed(Status status) {
        return {status.code(), status.message()};
    }
};

/// Work of a transfer that is in progress. Thread-safe; usable beyond the request's end, which it does not
/// disturb.
class EngineWork {
public:
    virtual ~EngineWork() = default;

    /// Does some tens of microseconds of it, if any is left that nobody does. Waits for no other thread of
    /// the library; but a copy takes as long as the memory lets it.
    virtual void help() = 0;
};

/// An engine's side of a request. The core calls its methods one at a time.
class EngineRequest {
public:
    /// REQUIRES: never posted, or terminal.
    virtual ~EngineRequest() = default;
    EngineRequest(const EngineRequest &) = delete;
    EngineRequest &operator=(const EngineRequest &) = delete;

    /// How it goes, if the engine can tell better than path(), now that it has the blocks; same kind of lane.
    /// Constant.
    virtual std::optional<Path>
    path() const {
        return std::nullopt;
    }

    /// Starts the transfer. Returns soon; engine threads do the work. With `notification`, the peer gets that
    /// message once the data is visible there, without a further call by the program, and the transfer is not
    /// done before the message is on its way, for which the peer must have room. If the run ends otherwise,
    /// the peer gets a FailedNotification instead, where it can be reached and understands. May be called
    /// again after a terminal state. REQUIRES: not in progress.
    virtual Progress post(const std::optional<std::string> &notification) = 0;

    /// Where it stands. Never blocks.
    virtual Progress check() = 0;

    /// What the caller of check() can do itself, whose transfer is in progress. It helps without a lock that
    /// ending the request needs. nullptr: nothing.
    virtual std::shared_ptr<EngineWork>
    work() {
        return nullptr;
    }

    /// Stops feeding the transfer and waits, at most `patience`, until local memory is quiet. True if it is:
    /// check() is then terminal, NIXL_ERR_CANCELED unless it had ended otherwise before.
    virtual bool cancel(std::chrono::milliseconds patience) = 0;

    /// After a cancel() that did not succeed: ends by force what keeps local memory busy, be it the
    /// connection to the peer, whose other requests then end with NIXL_ERR_REMOTE_DISCONNECT and `peerLives`.
    /// Never blocks; cancel() tells when memory is quiet. The default does nothing, for engines that always
    /// get there.
    virtual void
    cutOff() {}

protected:
    EngineRequest() = default;
};

/// A message that arrived.
struct Notification {
    std::string agent; ///< who sent it
    std::string message;
};

/// What a peer says of a transfer of its that failed and would have brought a message.
struct FailedNotification {
    std::string agent;   ///< the initiator
    std::string message; ///< that does not come
    std::string why;
};

class Engine {
public:
    virtual ~Engine() = default;
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    /// Constant.
    virtual const Capabilities &capabilities() const = 0;

    /// The agent has ended, and an access that could not be stopped keeps this engine: it serves nobody any
    /// more, since the program may free what was registered. REQUIRES: nothing is called afterwards.
    virtual void
    halt() {}

    // ---- Local memory ----

    /// REQUIRES: a range that does not wrap; not empty for memory.
    virtual Result<std::unique_ptr<LocalRegion>> registerRegion(const nixlBlobDesc &desc,
                                                                nixl_mem_t memory) = 0;

    /// Ends a registration: no new access by anybody, and success only when no access is under way. Waits a
    /// bounded time for that. After an error the region still exists, closed to new accesses, and the call
    /// can be repeated.
    virtual Status deregisterRegion(LocalRegion &region) = 0;

    /// Registers descriptors in their order until one fails, appending a region for each before it to `out`;
    /// the caller ends those. What costs time once for a whole list is for an engine to override; the default
    /// goes one by one. REQUIRES: as registerRegion().
    virtual Status registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                                   std::vector<std::unique_ptr<LocalRegion>> &out);

    /// A region that deregisterRegions() could not end.
    struct Unended {
        std::size_t position; ///< in the list of the call
        Status reason;
    };

    /// deregisterRegion() for each of `regions`, whatever comes of the others; an engine that has to wait can
    /// do so once for all. The default goes one by one.
    virtual std::vector<Unended> deregisterRegions(std::span<LocalRegion *const> regions);

    /// Ends regions that nobody was told of, for a list that cannot be registered as a whole. Waits for
    /// nobody.
    virtual void discardRegions(std::span<LocalRegion *const> regions);

    /// The bytes a peer's loadRegion needs. Only if capabilities().remote.
    virtual Result<std::string> publicData(const LocalRegion &region) const;

    /// The remote-side form of an own region, for transfers of an agent with itself. Only if
    /// capabilities().local. The result may refer to `region`.
    virtual Result<std::unique_ptr<RemoteRegion>>
    loopbackRegion(LocalRegion &region, const nixlBlobDesc &desc, nixl_mem_t memory) = 0;

    /// Looks up files or objects.
    virtual Result<std::vector<nixl_query_resp_t>> queryMemory(const nixl_reg_dlist_t &descs) const;

    // ---- Peers: only if capabilities().remote ----

    /// The bytes a peer's loadPeer needs.
    virtual Result<std::string> connectionInfo() const;

    /// Takes in a peer's connection info. Opens no connection. `info` is untrusted.
    virtual Result<std::shared_ptr<Peer>> loadPeer(const std::string &name, std::string_view info);

    /// Connects now, in bounded time; harmless if connected. NIXL_ERR_REMOTE_DISCONNECT: the peer is gone.
    virtual Status connect(Peer &peer);

    /// Of an engine that joins: as connect(), and tells where the peer is: kSameProcess or kHostMemory. Cheap
    /// if it is connected. NIXL_ERR_REMOTE_DISCONNECT after a success is certain: the peer is gone; before
    /// the first success it may only mean that the peer cannot be seen from here.
    virtual Result<HostLane> meet(Peer &peer);

    /// Takes in a peer's region. `publicData` is untrusted.
    virtual Result<std::unique_ptr<RemoteRegion>> loadRegion(Peer &peer, const nixlBasicDesc &desc,
                                                             nixl_mem_t memory, std::string_view publicData);

    // ---- Transfers ----

    /// How this engine would move data between these kinds of memory; `peer` is nullptr for the agent itself.
    /// May connect. The error says why it cannot; NIXL_ERR_REMOTE_DISCONNECT if the peer is gone.
    virtual Result<Path> path(nixl_xfer_op_t operation, nixl_mem_t localMemory, nixl_mem_t remoteMemory,
                              Peer *peer) = 0;

    /// Makes a request. What `spec` points to outlives it.
    virtual Result<std::unique_ptr<EngineRequest>> prepare(const TransferSpec &spec) = 0;

    /// Microseconds (estimate, error margin). The default answers NIXL_ERR_NOT_SUPPORTED.
    virtual Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
    estimate(const TransferSpec &spec) const;

    // ---- Notifications: only if capabilities().notifications ----

    /// Sends a message; `peer` is nullptr for the agent itself. Messages to one peer arrive in order, each
    /// once. Waits, at most Options::notifTimeout, while the peer has no room; then NIXL_ERR_NOT_ALLOWED.
    virtual Status notify(Peer *peer, std::string_view message);

    /// Appends what arrived since the last call.
    virtual Status takeNotifications(std::vector<Notification> &out);

    /// Appends what arrived since the last call; of what nobody takes, the oldest may be dropped. The default
    /// has none.
    virtual void takeFailures(std::vector<FailedNotification> &out);

    // ---- Waiting ----

    /// Somebody is going to sleep instead of asking: from now on the engine works without calls of the
    /// program. onActivity has told of everything before this, too, or tells of it soon. Called before every
    /// sleep, so cheap if it is called again; waits for nobody. False: the engine cannot; who waits has to
    /// ask now and then, which is the default.
    virtual bool
    watch() {
        return false;
    }

    // ---- Telemetry ----

    /// Events of the engine's own since the last call; asked for after transfers, if telemetry is on.
    virtual std::vector<nixlTelemetryEvent>
    takeTelemetry() {
        return {};
    }

protected:
    Engine() = default;
};

/// Makes engines of one type; what the registry holds.
class EngineFactory {
public:
    virtual ~EngineFactory() = default;
    virtual const EngineInfo &info() const = 0;

    /// NIXL_ERR_BACKEND with the reason if the engine cannot work here.
    virtual Result<std::unique_ptr<Engine>> create(const EngineConfig &config) const = 0;

    /// Of a network engine: why its settings rule out a way inside the host, for the engine that joins it or
    /// stands in for it; nothing if they do not. Answers also where create() fails; what is wrong with the
    /// settings themselves is for create() to say.
    virtual std::optional<std::string>
    hostLaneLimit(HostLane, const EngineConfig &) const {
        return std::nullopt;
    }
};

} // namespace nixl
