#include "agent/planner.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "util/concat.h"

namespace nixl {

namespace {

/// Microseconds as people read them.
std::string
estimateText(double us) {
    std::array<char, 64> text; // of which the largest number that is ever estimated takes a part
    const int size = std::snprintf(text.data(), text.size(), "estimated %.*f us", us < 100 ? 1 : 0, us);
    return std::string(text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1));
}

/// Puts an estimate in front of a reason; every request that is made comes here.
std::string
withEstimate(std::string estimate, const std::string &reason) {
    return std::move(estimate.append("; ").append(reason));
}

struct Considered {
    nixlPathOption option;
    std::size_t candidate;
    double us = std::numeric_limits<double>::infinity();
};

/// A candidate's path; the error says why it has none, and `lane` is then the one that was ruled out, if any.
Result<Path>
askForPath(const PlanInput &input, const PlanCandidate &candidate, std::string &lane) {
    const EngineSlot &engine = *candidate.service.engine;
    if (input.needsNotification && !engine.capabilities().notifications)
        return Status::error(NIXL_ERR_BACKEND, "it has no notifications");
    auto path = engine.impl().path(input.operation, input.localMemory, input.remoteMemory, candidate.peer);
    if (!path.ok() || !path.value().hostLane)
        return path;
    const std::string *limit = candidate.service.limit(*path.value().hostLane);
    if (!limit)
        return path;
    lane = path.value().lane;
    return Status(NIXL_ERR_BACKEND, *limit);
}

Status
explainFailures(const std::vector<Status> &failures, const std::vector<nixlPathOption> &excluded) {
    if (failures.size() == 1 && excluded.empty())
        return failures.front();
    std::string reasons;
    for (const Status &failure : failures)
        reasons += (reasons.empty() ? "" : "; ") + failure.message();
    for (const nixlPathOption &option : excluded)
        reasons += "; " + asText(option);
    const nixl_status_t first = failures.front().code();
    const bool agreed =
        failures.size() == 1 ||
        (first == NIXL_ERR_REMOTE_DISCONNECT &&
         std::all_of(failures.begin(), failures.end(), [&](const Status &f) { return f.code() == first; }));
    return Status::error(agreed ? first : NIXL_ERR_BACKEND, "no path to the other end: ", reasons);
}

/// Puts all that was considered into the plan, fastest first, and says why the winner won.
void
explainChoice(Plan &plan, const std::string &winner, std::vector<Considered> considered) {
    std::stable_sort(considered.begin(), considered.end(),
                     [](const Considered &a, const Considered &b) { return a.us < b.us; });
    for (Considered &entry : considered) {
        nixlPathOption &option = entry.option;
        if (entry.us != std::numeric_limits<double>::infinity()) {
            option.chosen = entry.candidate == plan.chosen;
            std::string estimate = estimateText(entry.us);
            if (!option.chosen)
                estimate.append(", not less than ").append(winner);
            option.reason = withEstimate(std::move(estimate), option.reason);
        }
        plan.options.push_back(std::move(option));
    }
}

} // namespace

std::string
asText(const nixlPathOption &option) {
    return concat(option.backend, option.path.empty() ? "" : ", ", option.path, ": ", option.reason);
}

Result<Plan>
choosePath(const PlanInput &input, const std::vector<PlanCandidate> &candidates,
           std::vector<nixlPathOption> excluded) {
    std::vector<Considered> considered;
    std::optional<Plan> plan;
    std::vector<Status> failures;
    const EngineSlot *inside = nullptr; // an engine that joins and has a path
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const Service &service = candidates[i].service;
        const EngineSlot &engine = *service.engine;
        if (inside && engine.info().network) {
            considered.push_back(
                {service.option("", "not needed: " + inside->name() + " serves this host"), i});
            continue;
        }
        std::string lane;
        auto path = askForPath(input, candidates[i], lane);
        if (!path.ok()) {
            failures.push_back(path.status().withContext(engine.name()));
            considered.push_back({service.option(lane, path.status().message()), i});
            continue;
        }
        if (engine.info().joins)
            inside = &engine;
        for (const auto &[refused, reason] : path.value().refused)
            considered.push_back({service.option(refused, reason), i});
        const double us = path.value().estimateUs(input.blocks, input.bytes);
        const char *help = path.value().peerTakesPart ? "; the peer's library takes part" : "";
        considered.push_back({service.option(path.value().lane, path.value().reason + help), i, us});
        if (!plan || us < plan->estimateUs)
            plan = Plan{i, std::move(path).value(), us, {}};
    }
    if (!plan)
        return explainFailures(failures, excluded);
    explainChoice(*plan, candidates[plan->chosen].service.engine->name(), std::move(considered));
    for (nixlPathOption &option : excluded)
        plan->options.push_back(std::move(option));
    return std::move(*plan);
}

void
refinePlan(Plan &plan, const Service &service, const Path &path, const PlanInput &input) {
    plan.path = path;
    plan.estimateUs = path.estimateUs(input.blocks, input.bytes);
    const auto chosen = std::find_if(plan.options.begin(), plan.options.end(),
                                     [](const nixlPathOption &option) { return option.chosen; });
    if (chosen == plan.options.end())
        return;
    chosen->path = path.lane;
    chosen->reason = withEstimate(estimateText(plan.estimateUs), path.reason);
    for (const auto &[refused, reason] : path.refused)
        plan.options.push_back(service.option(refused, reason));
}

} // namespace nixl
