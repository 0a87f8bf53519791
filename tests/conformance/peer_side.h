// The other agent of a pair, in this process or in another one, behind one interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conformance/engine_suite.h"
#include "engine/engine.h"

namespace nixl::conformance {

/// A registration of the other agent.
struct PeerMemory {
    std::size_t id;
    nixlBlobDesc desc; ///< metaInfo: the public data
    nixl_mem_t kind;
};

/// Errors of the peer throw std::runtime_error, except where a Status is returned.
class PeerSide {
public:
    virtual ~PeerSide() = default;

    virtual std::string connectionInfo() = 0;
    virtual PeerMemory allocate(std::size_t length, std::size_t memoryIndex) = 0;
    virtual void store(std::size_t id, std::size_t offset, const std::string &bytes) = 0;
    virtual std::string load(std::size_t id, std::size_t offset, std::size_t length) = 0;
    virtual Status deregister(std::size_t id) = 0;

    /// Loads the agent under test, to be able to notify it.
    virtual void meet(const std::string &agent, const std::string &info) = 0;
    virtual Status notify(const std::string &message) = 0;
    virtual std::vector<Notification> takeNotifications() = 0;

    /// Ends the agent: its engine is destroyed, or its process killed. Nothing else may be called then.
    virtual void vanish() = 0;
};

std::unique_ptr<PeerSide> makePeer(const PairTraits &traits, const std::string &agent);

/// The life of the other process: serves the commands on standard input until it is closed.
int servePeer(const EngineTraits &traits, const std::string &agent, int fd);

/// The traits with that name; throws std::runtime_error if there are none.
const EngineTraits &findTraits(const std::string &name);

} // namespace nixl::conformance
