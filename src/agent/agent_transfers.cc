// Preparing lists, making and posting requests.
#include <algorithm>
#include <thread>

#include "agent/agent_state.h"
#include "util/concat.h"
#include "util/log.h"

using nixl::concat;
using nixl::EngineList;
using nixl::EnginePtr;
using nixl::HostLane;
using nixl::RequestState;
using nixl::ResolvedList;
using nixl::Result;
using nixl::Service;
using nixl::ServiceList;
using nixl::Side;
using nixl::Status;

namespace {

void
add(std::string &reasons, const std::string &reason) {
    reasons += (reasons.empty() ? "" : "; ") + reason;
}

Status
checkOperation(nixl_xfer_op_t operation) {
    if (operation == NIXL_READ || operation == NIXL_WRITE)
        return {};
    return Status::error(NIXL_ERR_INVALID_PARAM, "operation ", static_cast<int>(operation),
                         " is neither READ nor WRITE");
}

/// Counts and lengths of two lists that are to be paired one to one.
Status
checkPairs(const nixl_xfer_dlist_t &local, const nixl_xfer_dlist_t &remote) {
    if (local.descCount() != remote.descCount())
        return Status::error(NIXL_ERR_INVALID_PARAM, local.descCount(), " local and ", remote.descCount(),
                             " remote descriptors cannot be paired");
    for (int i = 0; i < local.descCount(); ++i) {
        if (local[i].len != remote[i].len)
            return Status::error(NIXL_ERR_INVALID_PARAM, "the descriptors at position ", i,
                                 " differ in length: ", local[i].len, " local, ", remote[i].len, " remote");
    }
    return {};
}

/// Why an engine has no part in transfers with a peer that it has no link to.
std::string
explainNoLink(const Service &service) {
    const std::string *limit =
        service.limit(HostLane::kHostMemory); // peers that are set up alike do not offer it
    return limit ? *limit : "the peer has no connection for it";
}

} // namespace

std::string
nixlAgentData::Choice::reasons() const {
    std::string reasons;
    for (const nixlPathOption &option : excluded)
        add(reasons, nixl::asText(option));
    return reasons;
}

Result<nixlAgentData::Choice>
nixlAgentData::choose(const nixl_opt_args_t *args) const {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    Choice choice{std::move(named).value(), {}};
    for (const Service &service : backends.services()) {
        if (!nixl::find(choice.services, service.engine.get()))
            choice.exclude(service, "the call did not name it");
    }
    for (nixl::MissingEngine &engine : backends.missing())
        choice.excluded.push_back({engine.backend,
                                   engine.name == engine.backend ? "" : std::move(engine.name), false,
                                   std::move(engine.reason)});
    return choice;
}

Status
nixlAgentData::prepare(const std::string &agentName, const nixl::BlockInput &input,
                       const nixl_opt_args_t *args, nixlDlistH *&out) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    auto list = std::make_shared<nixlDlistH>();
    list->memory = input.memory;
    list->side = agentName.empty() ? Side::kLocal : agentName == name ? Side::kLoopback : Side::kRemote;
    if (list->side == Side::kRemote) {
        auto peer = knownPeer(agentName);
        if (!peer.ok())
            return peer.status();
        list->peer = std::move(peer).value();
    }
    const EngineList candidates = args && !args->backends.empty() ? enginesOf(named.value())
                                  : list->peer ? peers.enginesWith(*list->peer, input.memory)
                                               : memory.enginesWith(input.memory);
    if (candidates.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, list->peer ? concat("'", agentName, "'") : "this agent",
                             " has no ", nixlEnumStrings::memTypeStr(input.memory), " registered");
    out = nullptr;
    std::string reasons;
    for (const EnginePtr &engine : candidates) {
        if (list->side == Side::kLoopback && !engine->capabilities().local) {
            add(reasons, concat(engine->name(), " does not move data within an agent"));
            continue;
        }
        const ResolvedList *known = list->lists.empty() ? nullptr : &list->lists.front();
        auto resolved = list->peer ? resolve(input, peers, *list->peer, engine, known)
                                   : resolve(input, memory, engine, known);
        if (resolved.ok())
            list->lists.push_back(std::move(resolved).value());
        else
            add(reasons, resolved.status().message());
    }
    if (list->lists.empty())
        return Status(NIXL_ERR_NOT_FOUND, reasons);
    out = lists.add(std::move(list));
    return {};
}

Result<nixlXferReqH *>
nixlAgentData::make(nixl_xfer_op_t operation, const nixlDlistH *localHandle,
                    std::span<const int> localIndices, const nixlDlistH *remoteHandle,
                    std::span<const int> remoteIndices, const nixl_opt_args_t *args) {
    NIXL_RETURN_IF_ERROR(checkOperation(operation));
    const auto local = lists.find(localHandle), remote = lists.find(remoteHandle);
    if (!local || !remote)
        return Status::error(NIXL_ERR_INVALID_PARAM, "the ", local ? "remote" : "local",
                             " side is not a prepared list of this agent (null, or released)");
    if (local->side != Side::kLocal)
        return Status::error(NIXL_ERR_INVALID_PARAM,
                             "the local side was prepared for the remote end (agent '",
                             local->peer ? local->peer->name : name, "')");
    if (remote->side == Side::kLocal)
        return Status::error(NIXL_ERR_INVALID_PARAM, "the remote side was prepared for the local end");
    if (localIndices.empty() || localIndices.size() != remoteIndices.size())
        return Status::error(NIXL_ERR_INVALID_PARAM, localIndices.size(), " local and ", remoteIndices.size(),
                             " remote indices: the counts must be equal and not zero");
    auto choice = choose(args);
    if (!choice.ok())
        return choice.status();
    if (remote->peer) {
        Status usable = remote->peer->check("the remote list");
        if (usable.code() == NIXL_ERR_REMOTE_DISCONNECT)
            peers.drop(remote->peer, remote->peer->life->why());
        NIXL_RETURN_IF_ERROR(std::move(usable));
    }
    std::vector<Pairing> pairings;
    for (const Service &service : choice.value().services) {
        const nixl::EngineSlot *engine = service.engine.get();
        const ResolvedList *here = local->of(engine), *there = remote->of(engine);
        std::optional<nixl::PeerLink> link = remote->peer ? peers.link(*remote->peer, engine) : std::nullopt;
        if (remote->peer && !link)
            choice.value().exclude(service, explainNoLink(service));
        else if (!here || !there)
            choice.value().exclude(service,
                                   concat("it has no list of the ", here ? "remote" : "local", " side"));
        else
            pairings.push_back({service, std::move(link), here, there});
    }
    if (pairings.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "no backend in common: ", choice.value().reasons());
    const Ends ends{operation, local->memory, remote->memory, remote->peer, localIndices, remoteIndices, {}};
    return plan(ends, std::move(pairings), std::move(choice).value(), args);
}

Result<nixlXferReqH *>
nixlAgentData::create(nixl_xfer_op_t operation, const nixl_xfer_dlist_t &local,
                      const nixl_xfer_dlist_t &remote, const std::string &agentName,
                      const nixl_opt_args_t *args) {
    NIXL_RETURN_IF_ERROR(checkOperation(operation));
    NIXL_RETURN_IF_ERROR(checkPairs(local, remote));
    nixl::PeerPtr peer;
    if (agentName != name) {
        auto known = knownPeer(agentName);
        if (!known.ok())
            return known.status();
        peer = std::move(known).value();
    }
    auto choice = choose(args);
    if (!choice.ok())
        return choice.status();
    std::vector<ResolvedList> locals, remotes;
    locals.reserve(choice.value().services.size());
    remotes.reserve(choice.value().services.size());
    std::vector<Pairing> pairings;
    for (const Service &service : choice.value().services) {
        const EnginePtr &engine = service.engine;
        std::optional<nixl::PeerLink> link = peer ? peers.link(*peer, engine.get()) : std::nullopt;
        if (peer && !link) {
            choice.value().exclude(service, explainNoLink(service));
            continue;
        }
        if (!peer && !engine->capabilities().local) {
            choice.value().exclude(service, "it does not move data within an agent");
            continue;
        }
        auto here =
            resolve(nixl::BlockInput(local), memory, engine, locals.empty() ? nullptr : &locals.front());
        if (!here.ok()) {
            choice.value().exclude(service, "local side: " + here.status().message());
            continue;
        }
        const nixl::BlockInput remoteInput(remote);
        const ResolvedList *known = remotes.empty() ? nullptr : &remotes.front();
        auto there = peer ? resolve(remoteInput, peers, *peer, engine, known)
                          : resolve(remoteInput, memory, engine, known);
        if (!there.ok()) {
            choice.value().exclude(service, "remote side: " + there.status().message());
            continue;
        }
        locals.push_back(std::move(here).value());
        remotes.push_back(std::move(there).value());
        pairings.push_back({service, std::move(link), &locals.back(), &remotes.back()});
    }
    if (pairings.empty()) {
        const std::string reasons = choice.value().reasons();
        return Status::error(NIXL_ERR_NOT_FOUND, "no backend has the memory of both sides",
                             reasons.empty() ? " (the agent has none)" : ": " + reasons);
    }
    const Ends ends{operation,
                    local.getType(),
                    remote.getType(),
                    peer,
                    std::nullopt,
                    std::nullopt,
                    args ? args->customParam : nixl_blob_t()};
    return plan(ends, std::move(pairings), std::move(choice).value(), args);
}

/// Takes out the engine that joins if others have to reach the peer. NIXL_ERR_REMOTE_DISCONNECT: it is gone;
/// other errors: nothing is left.
Status
nixlAgentData::dropUnmet(const Ends &ends, std::vector<Pairing> &pairings, Choice &choice) {
    for (auto pairing = pairings.begin(); pairing != pairings.end();) {
        if (!pairing->link || !pairing->link->contact) {
            ++pairing;
            continue;
        }
        const auto met = meet(pairing->service, ends.peer, *pairing->link);
        if (met.ok()) {
            ++pairing;
            continue;
        }
        if (met.status().code() == NIXL_ERR_REMOTE_DISCONNECT)
            return met.status().withContext(pairing->service.engine->name());
        choice.exclude(pairing->service, met.status().message());
        pairing = pairings.erase(pairing);
    }
    if (pairings.empty())
        return Status::error(NIXL_ERR_BACKEND, "no path to the other end: ", choice.reasons());
    return {};
}

/// Picks the path, builds the blocks for it and prepares the request.
Result<nixlXferReqH *>
nixlAgentData::plan(const Ends &ends, std::vector<Pairing> pairings, Choice choice,
                    const nixl_opt_args_t *args) {
    const auto pair = [&](const Pairing &pairing) {
        return pairBlocks(*pairing.local, ends.localIndices, *pairing.remote, ends.remoteIndices,
                          !(args && args->skipDescMerge));
    };
    // Engines may see other regions and so merge otherwise, but hardly by enough to change the choice.
    const nixl::EnginePtr first = pairings.front().service.engine;
    auto blocks = pair(pairings.front());
    if (!blocks.ok())
        return blocks.status();
    NIXL_RETURN_IF_ERROR(dropUnmet(ends, pairings, choice));
    std::vector<nixl::PlanCandidate> candidates;
    candidates.reserve(pairings.size());
    for (const Pairing &pairing : pairings)
        candidates.push_back({pairing.service, pairing.link ? pairing.link->peer.get() : nullptr});
    nixl::TransferParts parts;
    parts.notification = nixl::wantedNotification(args);
    auto chosen =
        choosePath({ends.operation, ends.localMemory, ends.remoteMemory, blocks.value().blocks.size(),
                    blocks.value().bytes, parts.notification.has_value()},
                   candidates, std::move(choice.excluded));
    if (!chosen.ok()) {
        if (chosen.status().code() == NIXL_ERR_REMOTE_DISCONNECT && ends.peer)
            forget(ends.peer, chosen.status().message());
        return chosen.status();
    }
    const Pairing &pairing = pairings[chosen.value().chosen];
    if (pairing.service.engine != first) {
        blocks = pair(pairing);
        if (!blocks.ok())
            return blocks.status();
    }
    parts.operation = ends.operation;
    parts.localMemory = ends.localMemory;
    parts.remoteMemory = ends.remoteMemory;
    parts.peerName = ends.peer ? ends.peer->name : name;
    parts.peer = ends.peer;
    parts.link = pairing.link;
    parts.service = pairing.service;
    parts.blocks = std::move(blocks).value();
    parts.plan = std::move(chosen).value();
    parts.customParam = ends.customParam;
    auto request = nixlXferReqH::create(std::move(parts), {options->transferTimeout, options->cutOffTimeout},
                                        telemetry.get());
    if (!request.ok())
        return request.status();
    NIXL_RETURN_IF_ERROR(checkLive(*request.value()));
    return requests.add(std::move(request).value());
}

RequestState
nixlAgentData::post(nixlXferReqH &request, const nixl_opt_args_t *args,
                    std::optional<std::chrono::milliseconds> timeout) {
    std::optional<std::optional<std::string>> change;
    if (args)
        change.emplace(nixl::wantedNotification(args));
    RequestState state = request.post(change, timeout);
    dropIfDisconnected(request, state);
    return state;
}

RequestState
nixlAgentData::status(nixlXferReqH &request) {
    RequestState state = request.status();
    dropIfDisconnected(request, state);
    return state;
}

bool
nixlAgentData::drain(std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kPause{1};
    std::vector<std::shared_ptr<nixlXferReqH>> busy = requests.all();
    const auto within = [&](std::chrono::milliseconds time, auto ended) {
        const auto limit = Clock::now() + time;
        for (;;) {
            std::erase_if(busy, ended);
            if (busy.empty() || Clock::now() >= limit)
                return busy.empty();
            std::this_thread::sleep_for(kPause);
        }
    };
    const auto byItself = [](const std::shared_ptr<nixlXferReqH> &request) {
        const nixlXferReqH::Look look = request->look();
        if (look.work)
            look.work->help();
        return look.ended;
    };
    const auto cancelled = [](const std::shared_ptr<nixlXferReqH> &request) {
        return request->cancel("cancelled: the program has waited long enough");
    };
    const bool quiet = within(patience, byItself) || within(options->localQuiesceTimeout, cancelled);
    activity->signal(); // for others who wait for them
    return quiet;
}

Status
nixlAgentData::checkLive(const nixlXferReqH &request) {
    Status status = request.checkLive();
    if (status.code() == NIXL_ERR_REMOTE_DISCONNECT)
        peers.drop(request.peer(), status.message());
    return status;
}

/// A peer that an engine reports as gone is forgotten, as if it had been invalidated.
void
nixlAgentData::dropIfDisconnected(const nixlXferReqH &request, const RequestState &state) {
    if (state.peerGone && request.peer() && request.peer()->live.load())
        forget(request.peer(), state.message);
}

void
nixlAgentData::forget(const nixl::PeerPtr &peer, const std::string &why) {
    peers.drop(peer, why);
    activity->signal();
}
