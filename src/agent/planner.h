// Which engine carries a transfer.
#pragma once

#include <string>
#include <vector>

#include "agent/backend.h"
#include "engine/engine.h"
#include "nixl_ext.h"
#include "util/status.h"

namespace nixl {

/// An engine that has the memory of both ends.
struct PlanCandidate {
    Service service;
    Peer *peer = nullptr; ///< nullptr: the other end is this agent itself
};

/// What is to be moved.
struct PlanInput {
    nixl_xfer_op_t operation;
    nixl_mem_t localMemory;
    nixl_mem_t remoteMemory;
    std::size_t blocks;
    std::uint64_t bytes;
    bool needsNotification;
};

/// The choice, with everything that was considered.
struct Plan {
    std::size_t chosen; ///< index into the candidates
    Path path;
    double estimateUs;
    std::vector<nixlPathOption> options; ///< fastest first, those that cannot last
};

/// An option for a message: "UCX, LOCAL process_vm: reason".
std::string asText(const nixlPathOption &option);

/// Asks each candidate for its path and takes the one with the lowest estimate, of equal ones the first.
/// Where an engine that joins has a path, network engines after it are not asked: transfers of every size and
/// plain messages then share one way, and their order. A lane that the program ruled out is refused. The same
/// input and answers always give the same choice. `excluded` are engines that are no candidates, with the
/// reason. Errors have all reasons; of the only candidate, its own code; of several,
/// NIXL_ERR_REMOTE_DISCONNECT if that is what all answer and NIXL_ERR_BACKEND otherwise.
Result<Plan> choosePath(const PlanInput &input, const std::vector<PlanCandidate> &candidates,
                        std::vector<nixlPathOption> excluded);

/// Puts what the chosen engine knows better, now that it has the blocks, in the place of what it said before.
void refinePlan(Plan &plan, const Service &service, const Path &path, const PlanInput &input);

} // namespace nixl
