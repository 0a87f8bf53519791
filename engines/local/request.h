// The request that the core holds.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engines/local/peer.h"
#include "engines/local/reach.h"
#include "engines/local/settings.h"
#include "engines/local/transfer.h"
#include "util/fork_guard.h"

namespace nixl::local {

/// NIXL_ERR_INVALID_PARAM for a message above the limit.
Status checkMessageSize(std::size_t bytes, const Settings &settings);

class LocalRequest : public EngineRequest {
public:
    /// `peer` is nullptr for the agent itself.
    LocalRequest(HostProcess &process, std::shared_ptr<Endpoint> self, const Settings &settings,
                 const TransferSpec &spec, BatchPlan plan, LocalPeer *peer, Reach reach);
    ~LocalRequest() override;

    std::optional<Path>
    path() const override {
        return path_;
    }

    Progress post(const std::optional<std::string> &notification) override;
    Progress check() override;
    std::shared_ptr<EngineWork> work() override;
    bool cancel(std::chrono::milliseconds patience) override;

private:
    Status begin(const std::optional<std::string> &notification);

    HostProcess &process_;
    const std::shared_ptr<Endpoint> self_;
    const Settings settings_;
    LocalPeer *const peer_;
    const Path path_;
    std::shared_ptr<Transfer> transfer_;
    const ForkGuard guard_;
};

} // namespace nixl::local
