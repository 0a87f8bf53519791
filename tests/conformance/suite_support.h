// Agents, memory and transfers as the tests of the suite use them.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/engine_suite.h"
#include "engine/engine.h"

namespace nixl::conformance {

/// Longer than anything that works takes, also under a sanitizer on a busy machine.
inline constexpr std::chrono::seconds kLongEnough{60};

/// Waits for a condition by asking, at most kLongEnough.
bool eventually(const std::function<bool()> &condition);

/// Bytes that differ by position and by seed.
std::string pattern(std::size_t length, unsigned seed);

EngineConfig makeConfig(const EngineTraits &traits, const std::string &agent);

/// A registration of a Side. Deregisters at its end.
class Registered {
public:
    Registered(Engine &engine, const MemoryTraits &traits, std::size_t length);
    ~Registered();
    Registered(const Registered &) = delete;
    Registered &operator=(const Registered &) = delete;

    /// REQUIRES: registered.
    Status deregister();

    /// The target side for transfers of the agent with itself.
    RemoteRegion &loopback();

    TestMemory &
    memory() {
        return *memory_;
    }

    LocalRegion &
    region() {
        return *region_;
    }

    nixl_mem_t
    kind() const {
        return kind_;
    }

    nixlBlobDesc
    desc() const {
        return memory_->desc();
    }

private:
    Engine &engine_;
    const nixl_mem_t kind_;
    std::unique_ptr<TestMemory> memory_;
    std::unique_ptr<LocalRegion> region_; // null: deregistered
    std::unique_ptr<RemoteRegion> loopback_;
};

/// An agent with one engine.
class Side {
public:
    /// Throws std::runtime_error if the engine cannot be made.
    Side(const EngineTraits &traits, std::string agent, bool progressThread = true);

    Engine &
    engine() {
        return *engine_;
    }

    const std::string &
    agent() const {
        return agent_;
    }

    /// How often the engine has told that something happened.
    unsigned
    activity() const {
        return activity_.load();
    }

    /// Throws std::runtime_error if it is refused.
    std::unique_ptr<Registered> allocate(std::size_t length, std::size_t memoryIndex = 0);

private:
    const EngineTraits traits_;
    const std::string agent_;
    std::atomic<unsigned> activity_{0};
    std::unique_ptr<Engine> engine_;
};

/// The target of a transfer.
struct Target {
    RemoteRegion *region;
    nixlBasicDesc desc;
    nixl_mem_t kind;
    std::string agent;
    Peer *peer; ///< nullptr: loop-back
};

Target loopbackTarget(Side &side, Registered &registered);

/// A piece of a transfer, by offsets into both memories.
struct Piece {
    std::size_t local;
    std::size_t remote;
    std::size_t length;
};

/// A prepared request with everything it points to.
class Transfer {
public:
    /// Throws std::runtime_error if the engine refuses it.
    Transfer(Engine &engine, nixl_xfer_op_t operation, Registered &local, const Target &target,
             const std::vector<Piece> &pieces);
    Transfer(const Transfer &) = delete;
    Transfer &operator=(const Transfer &) = delete;

    Progress post(const std::optional<std::string> &notification = std::nullopt);

    /// Posts and waits for the end.
    Progress run(const std::optional<std::string> &notification = std::nullopt);

    /// Waits for the end of what was posted.
    Progress finish();

    EngineRequest &
    request() {
        return *request_;
    }

private:
    std::vector<Block> blocks_;
    LocalRegionRef localRef_;
    RemoteRegionRef remoteRef_;
    const std::string peerName_;
    std::unique_ptr<EngineRequest> request_;
};

/// Ways to cut a memory of kPatternLength bytes into pieces, by name.
inline constexpr std::size_t kPatternLength = 300000;
std::map<std::string, std::vector<Piece>> piecePatterns();

/// What the target holds after `pieces` of `source` were moved into `target`.
std::string moved(const std::string &source, std::string target, const std::vector<Piece> &pieces,
                  nixl_xfer_op_t operation);

/// Waits until `count` messages came and returns them; fewer if they do not come.
std::vector<Notification> takeNotifications(const std::function<void(std::vector<Notification> &)> &take,
                                            std::size_t count);
std::vector<Notification> takeNotifications(Engine &engine, std::size_t count);

} // namespace nixl::conformance
