// Registered memory: an agent's own, and that of its peers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engines/ucx/connection.h"
#include "util/fork_guard.h"

namespace nixl::ucx {

/// Memory that UCX has mapped.
class OwnRegion : public LocalRegion {
public:
    /// NIXL_ERR_BACKEND: not mapped, or memory of another kind than `memory` says.
    static Result<std::unique_ptr<LocalRegion>> create(Context &context, const nixlBlobDesc &desc,
                                                       nixl_mem_t memory);

    ~OwnRegion() override;

    /// Ends the mapping: hardware reaches the memory no more. Harmless when repeated.
    Status unmap();

    /// REQUIRES: mapped.
    ucp_mem_h
    handle() const {
        return handle_;
    }

    /// The packed remote key.
    const std::string &
    packedKey() const {
        return packedKey_;
    }

private:
    OwnRegion(Context &context, ucp_mem_h handle, std::string packedKey)
        : context_(context), handle_(handle), packedKey_(std::move(packedKey)) {}

    Context &context_;
    ucp_mem_h handle_; ///< null: unmapped
    const std::string packedKey_;
};

/// A peer's region. Its remote keys are unpacked when a connection first needs one, once for each opening.
class PeerRegion : public RemoteRegion {
public:
    /// `packedKey`: a checked packed remote key.
    PeerRegion(const std::vector<std::unique_ptr<ProgressWorker>> &workers, std::string packedKey);

    ~PeerRegion() override;

    /// The key for a connection. REQUIRES: the lock of its worker; opening number `opening` stands.
    Result<ucp_rkey_h> key(const Connection &connection, std::uint64_t opening);

private:
    struct Key {
        std::uint64_t opening;
        ucp_rkey_h handle;
    };

    const ForkGuard guard_;
    const std::vector<std::unique_ptr<ProgressWorker>> &workers_;
    const std::string packedKey_;
    // By index of the worker, each under that worker's lock; the last is the newest. Those of the openings
    // before stay for a while: operations that are being cancelled may still refer to them.
    std::vector<std::vector<Key>> keys_;
};

} // namespace nixl::ucx
