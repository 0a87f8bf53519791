// A peer's agent as loadPeer got to know it.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "engines/local/endpoint.h"
#include "engines/local/host_process.h"
#include "engines/local/lane.h"
#include "engines/local/protocol.h"
#include "engines/local/settings.h"
#include "util/fork_guard.h"
#include "util/mutex.h"

namespace nixl::local {

/// Belongs to one incarnation of the agent; another one under the same name is another peer. Thread-safe.
class LocalPeer : public Peer {
public:
    LocalPeer(HostProcess &process, std::shared_ptr<Endpoint> self, const Settings &settings,
              std::string name, const ConnectionInfo &info);
    ~LocalPeer() override;

    /// The lane to it; connects if there is none, within Settings::connectTimeout. Errors name the agent.
    Result<Lane> lane();

    const std::string &
    name() const {
        return name_;
    }

    const Incarnation &
    incarnation() const {
        return info_.incarnation;
    }

private:
    Result<Lane> connect() NIXL_REQUIRES(mutex_);
    void tell(PeerChange change, const std::string &why) const;

    HostProcess &process_;
    const std::shared_ptr<Endpoint> self_;
    const Settings settings_;
    const std::string name_;
    const ConnectionInfo info_;
    const ForkGuard guard_;
    Mutex mutex_; // held while connecting, so that one connection is made
    std::unique_ptr<Lane> lane_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::local
