#include "agent/planner.h"

#include <algorithm>
#include <iomanip>
#include <limits>

#include "util/concat.h"

namespace nixl {

namespace {

/// Microseconds as people read them.
std::string
microseconds(double us) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(us < 100 ? 1 : 0) << us << " us";
    return std::move(text).str();
}

struct Considered {
    nixlPathOption option;
    double us = std::numeric_limits<double>::infinity();
};

} // namespace

Result<Plan>
choosePath(const PlanInput &input, const std::vector<PlanCandidate> &candidates,
           std::vector<nixlPathOption> excluded) {
    std::vector<Considered> considered;
    std::optional<Plan> plan;
    std::vector<Status> failures;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const nixlBackendH &backend = *candidates[i].backend;
        if (input.needsNotification && !backend.capabilities().notifications) {
            failures.push_back(Status::error(NIXL_ERR_BACKEND, backend.type(), " has no notifications"));
            considered.push_back({{backend.type(), "", false, "it has no notifications"}});
            continue;
        }
        auto path =
            backend.engine().path(input.operation, input.localMemory, input.remoteMemory, candidates[i].peer);
        if (!path.ok()) {
            failures.push_back(path.status().withContext(backend.type()));
            considered.push_back({{backend.type(), "", false, path.status().message()}});
            continue;
        }
        for (const auto &[lane, reason] : path.value().refused)
            considered.push_back({{backend.type(), lane, false, reason}});
        const double us = path.value().estimateUs(input.blocks, input.bytes);
        considered.push_back(
            {{backend.type(), path.value().lane, false,
              path.value().reason + (path.value().peerTakesPart ? "; the peer's library takes part" : "")},
             us});
        if (!plan || us < plan->estimateUs)
            plan = Plan{i, std::move(path).value(), us, {}};
    }
    if (!plan) {
        if (failures.size() == 1)
            return failures.front();
        std::string reasons;
        for (const Status &failure : failures)
            reasons += (reasons.empty() ? "" : "; ") + failure.message();
        const bool gone = std::all_of(failures.begin(), failures.end(), [](const Status &failure) {
            return failure.code() == NIXL_ERR_REMOTE_DISCONNECT;
        });
        return Status::error(gone ? NIXL_ERR_REMOTE_DISCONNECT : NIXL_ERR_BACKEND,
                             "no path to the other end: ", reasons);
    }
    const std::string &winner = candidates[plan->chosen].backend->type();
    std::stable_sort(considered.begin(), considered.end(),
                     [](const Considered &a, const Considered &b) { return a.us < b.us; });
    for (Considered &entry : considered) {
        nixlPathOption &option = entry.option;
        if (entry.us != std::numeric_limits<double>::infinity()) {
            option.chosen = option.backend == winner;
            const std::string estimate = concat("estimated ", microseconds(entry.us));
            option.reason = concat(option.chosen ? estimate : estimate + ", not less than " + winner, "; ",
                                   option.reason);
        }
        plan->options.push_back(std::move(option));
    }
    for (nixlPathOption &option : excluded)
        plan->options.push_back(std::move(option));
    return std::move(*plan);
}

} // namespace nixl
