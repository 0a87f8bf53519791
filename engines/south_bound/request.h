// A request of a south-bound plugin. States: prepared -> in progress -> ended -> in progress ...; closed at
// any time when what it uses goes away. A plugin's handle exists from prepare on, until a cancel or close
// takes it; posting makes a new one.
#pragma once

#include <memory>
#include <string>

#include "backend/backend_engine.h"
#include "engine/engine.h"
#include "engines/south_bound/engine.h"

namespace nixl::south_bound {

class SouthBoundRequest : public EngineRequest {
public:
    /// Makes the plugin's lists and its handle.
    static Result<std::unique_ptr<EngineRequest>> create(SouthBoundEngine &engine, const TransferSpec &spec);
    ~SouthBoundRequest() override;

    Progress post(const std::optional<std::string> &notification) override;
    Progress check() override;
    bool cancel(std::chrono::milliseconds patience) override;

    // ---- For the engine, under its mutex ----

    bool
    inProgress() const {
        return progress_.code == NIXL_IN_PROG;
    }

    /// Asks the plugin where it stands. REQUIRES: in progress.
    void poll();

    /// Refuses further posts with NIXL_ERR_NOT_FOUND and this reason.
    void close(const std::string &reason);

    /// Tries to stop it; true if it is not in progress any more.
    bool stop();

    /// Gives the plugin's handle back. REQUIRES: not in progress.
    void dropHandle();

    /// The plugin's estimate. REQUIRES: a handle.
    Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>> estimate();

private:
    SouthBoundRequest(SouthBoundEngine &engine, const TransferSpec &spec);

    Status prepareHandle();
    void end(Progress progress);
    void linkUsers(bool add);

    SouthBoundEngine &engine_;
    const TransferSpec spec_;
    // A plugin may keep references to these.
    const nixl_xfer_op_t operation_;
    const std::string remoteAgent_;
    nixl_meta_dlist_t local_;
    nixl_meta_dlist_t remote_;
    nixl_opt_b_args_t args_;
    // Guarded by the engine's mutex.
    nixlBackendReqH *handle_ = nullptr;
    Progress progress_{NIXL_ERR_NOT_POSTED, "never posted", {}};
    std::string closed_; // why it cannot be posted any more
};

} // namespace nixl::south_bound
