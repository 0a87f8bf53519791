#include "agent/agent_state.h"

#include <utility>

#include "engine/process_registry.h"
#include "util/log.h"
#include "util/random.h"

using nixl::EngineList;
using nixl::EnginePtr;
using nixl::Result;
using nixl::Service;
using nixl::ServiceList;
using nixl::Status;

namespace {

nixl::Incarnation
newIncarnation() {
    nixl::Incarnation incarnation;
    nixl::randomBytes(incarnation.data(), incarnation.size());
    return incarnation;
}

std::uint64_t
totalBytes(const nixl_reg_dlist_t &descs) {
    std::uint64_t bytes = 0;
    for (const nixlBlobDesc &desc : descs)
        bytes += desc.len;
    return bytes;
}

} // namespace

std::optional<std::string>
nixl::wantedNotification(const nixl_opt_args_t *args) {
    if (!args)
        return std::nullopt;
    if (args->notif)
        return args->notif;
    return args->hasNotif ? std::optional<std::string>(args->notifMsg) : std::nullopt;
}

nixlAgentData::nixlAgentData(const std::string &name_, const nixlAgentConfig &config_,
                             std::shared_ptr<const nixl::Options> options_,
                             std::unique_ptr<nixl::Telemetry> telemetry_,
                             std::shared_ptr<nixl::EngineRegistry> registry)
    : name(name_), config(config_), options(std::move(options_)), incarnation(newIncarnation()),
      telemetry(std::move(telemetry_)), activity(std::make_shared<nixl::Activity>()),
      peerEvents(std::make_shared<nixl::PeerEvents>(options->peerEvents, options->notifQueueBytes,
                                                    [activity = activity] { activity->signal(); })),
      backends(std::move(registry)), peers(name_, peerEvents) {}

Result<std::unique_ptr<nixlAgentData>>
nixlAgentData::create(const std::string &name, const nixlAgentConfig &config) {
    if (name.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "Agent needs a non-empty name");
    auto options = nixl::loadOptions();
    if (!options.ok())
        return options.status();
    const nixl::Options &settings = *options.value();
    if (!settings.etcdEndpoints.empty() && !settings.tcpStoreEndpoint.empty())
        return Status::error(
            NIXL_ERR_INVALID_PARAM,
            "NIXL_ETCD_ENDPOINTS and NIXL_TCPSTORE_ENDPOINT are both set; an agent has one store");
    if (config.useListenThread)
        NIXL_LOG(kWarn, "agent '", name, "' asks for a metadata listener on port ", config.listenPort,
                 ", which this build does not have: peers' metadata must be handed over by the program");
    auto telemetry = nixl::Telemetry::create(name, config.captureTelemetry, settings,
                                             nixl::pluginDirectories(settings.pluginDir));
    if (!telemetry.ok())
        return telemetry.status().withContext("telemetry");
    auto registry = nixl::processRegistry(settings.pluginDir);
    return std::unique_ptr<nixlAgentData>(new nixlAgentData(
        name, config, std::move(options).value(), std::move(telemetry).value(), std::move(registry)));
}

nixlAgentData::~nixlAgentData() {
    const EngineList kept = endRequests();
    lists.clear();
    const Status status =
        memory.removeAll([this](const nixl::LocalEntryPtr &entry) { return quiesce(entry); });
    if (!status.ok())
        NIXL_LOG(kError, "agent '", name, "' ends: ", status.message());
    peers.clear();
    backends.clear();
    for (const nixl::EnginePtr &engine : kept)
        engine->impl().halt();
}

/// All of them in the time of one: first none is fed any more, then what does not end by itself is cut off.
/// The engines of those that do not end for all that.
nixl::EngineList
nixlAgentData::endRequests() {
    using Clock = std::chrono::steady_clock;
    std::vector<std::shared_ptr<nixlXferReqH>> ended = requests.clear();
    EngineList kept;
    const auto limit = Clock::now() + options->localQuiesceTimeout;
    const auto left = [&](Clock::time_point until) {
        return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()),
                        std::chrono::milliseconds(0));
    };
    for (const auto &request : ended)
        (void)request->cancel("cancelled: the agent ends");
    const auto patience = std::min(limit, Clock::now() + options->releaseTimeout);
    for (const auto &request : ended) {
        if (!request->release(left(patience)))
            request->cutOff();
    }
    for (std::shared_ptr<nixlXferReqH> &request : ended) {
        if (request->release(left(limit)))
            continue;
        NIXL_LOG(kError, "agent '", name,
                 "' ends while a transfer cannot be stopped; its memory must stay mapped");
        // The engine still works on it: it stays, with all that it uses, until the process ends.
        if (std::find(kept.begin(), kept.end(), request->carrier()) == kept.end())
            kept.push_back(request->carrier());
        new std::shared_ptr<nixlXferReqH>(std::move(request));
    }
    return kept;
}

nixl::EngineConfig
nixlAgentData::engineConfig(const nixl_b_params_t &params) const {
    nixl::EngineConfig engine;
    engine.agentName = name;
    engine.params = params;
    engine.progressThread = config.useProgThread;
    engine.progressDelay = std::chrono::microseconds(config.pthrDelay);
    engine.syncMode = config.syncMode;
    engine.telemetry = telemetry != nullptr;
    engine.options = options;
    engine.onActivity = [activity = activity] { activity->signal(); };
    engine.onPeerChange = [events = peerEvents](const nixl::Peer *peer, nixl::PeerChange change,
                                                const std::string &why) {
        events->report(peer, change, why);
    };
    engine.onUndelivered = [events = peerEvents](const std::string &peer, std::string message,
                                                 const std::string &why) {
        events->undelivered(peer, std::move(message), why);
    };
    return engine;
}

Status
nixlAgentData::registerMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    const bool chosen = args && !args->backends.empty();
    const std::string kind = nixlEnumStrings::memTypeStr(descs.getType());
    ServiceList candidates;
    for (const Service &service : named.value()) {
        if (service.engine->takes(descs.getType()) || (chosen && !service.joined()))
            candidates.push_back(service);
    }
    if (candidates.empty())
        return Status::error(chosen ? NIXL_ERR_BACKEND : NIXL_ERR_NOT_FOUND, "no backend of this ",
                             chosen ? "call" : "agent", " takes ", kind,
                             backends.all().empty() ? " (it has none)"
                                                    : backends.whyRefused(descs.getType()));
    if (descs.isEmpty())
        return Status::error(NIXL_ERR_BACKEND, "there is nothing to register: the list is empty");
    if (Status status = nixl::checkRanges(descs); !status.ok())
        return status;
    const auto refused = [&](const nixl::EngineSlot &engine) {
        const std::string *reason = engine.refusal(descs.getType());
        return Status::error(NIXL_ERR_BACKEND, engine.name(), " does not take ", kind, reason ? ": " : "",
                             reason ? *reason : "");
    };
    std::string reasons;
    bool registered = false, reachable = false, unreachable = false;
    for (const Service &service : candidates) {
        const EnginePtr &engine = service.engine;
        const Status status = engine->takes(descs.getType()) ? memory.add(engine, descs) : refused(*engine);
        registered |= status.ok();
        if (engine->info().network)
            (status.ok() ? reachable : unreachable) = true;
        if (!status.ok())
            reasons += (reasons.empty() ? "" : "; ") + status.message();
    }
    if (!registered)
        return Status(NIXL_ERR_BACKEND, reasons);
    if (unreachable && !reachable)
        NIXL_LOG(kWarn, "registerMem: this memory can be reached from this host only: ", reasons);
    else if (!reasons.empty())
        NIXL_LOG(kInfo, "registerMem: ", reasons);
    if (telemetry)
        telemetry->recordRegistered(totalBytes(descs));
    return {};
}

Status
nixlAgentData::deregisterMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    // Each backend that is named must have all of it, in whichever of its engines.
    std::vector<EngineList> groups;
    if (args && !args->backends.empty()) {
        const nixlBackendH *last = nullptr;
        for (const Service &service : named.value()) {
            if (std::exchange(last, service.backend.get()) != service.backend.get())
                groups.emplace_back();
            groups.back().push_back(service.engine);
        }
    } else {
        groups.push_back(memory.enginesWith(descs.getType()));
    }
    NIXL_RETURN_IF_ERROR(
        memory.remove(groups, descs, [this](const nixl::LocalEntryPtr &entry) { return quiesce(entry); }));
    if (telemetry)
        telemetry->recordDeregistered(totalBytes(descs));
    return {};
}

/// Ends the posted requests that use `entry`.
Status
nixlAgentData::quiesce(const nixl::LocalEntryPtr &entry) {
    Status status;
    for (const std::shared_ptr<nixlXferReqH> &request : requests.all()) {
        status = request->quiesce(*entry, options->localQuiesceTimeout);
        if (!status.ok())
            break;
    }
    activity->signal();
    return status;
}
