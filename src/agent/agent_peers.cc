// Metadata, connections and notifications.
#include <algorithm>
#include <iterator>

#include "agent/agent_state.h"
#include "util/concat.h"
#include "util/log.h"

using nixl::concat;
using nixl::EngineList;
using nixl::EnginePtr;
using nixl::HostLane;
using nixl::PeerLink;
using nixl::PeerPtr;
using nixl::Result;
using nixl::Service;
using nixl::ServiceList;
using nixl::Status;

namespace {

ServiceList
talking(ServiceList services) {
    std::erase_if(services, [](const Service &s) { return !s.engine->capabilities().notifications; });
    return services;
}

ServiceList
offered(ServiceList services) {
    std::erase_if(services, [](const Service &service) { return !service.offered(); });
    return services;
}

/// Why none of `services` may be offered to peers, as far as the program's settings are the cause.
std::string
whyNotOffered(const ServiceList &services) {
    std::string text;
    for (const Service &service : services) {
        if (const std::string *limit = service.limit(HostLane::kHostMemory))
            text += concat("; ", service.engine->name(), " may not: ", *limit);
    }
    return text;
}

/// Engines beside `engine` that know a peer with these links.
std::vector<nixl::HostContact::Other>
othersThan(const nixl::EngineSlot &engine, const std::vector<PeerLink> &links) {
    std::vector<nixl::HostContact::Other> others;
    for (const PeerLink &link : links) {
        if (link.engine.get() != &engine)
            others.push_back({link.engine, link.peer});
    }
    return others;
}

} // namespace

Result<PeerPtr>
nixlAgentData::knownPeer(const std::string &agentName) {
    PeerPtr peer = peers.find(agentName);
    if (!peer)
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agentName, "' is loaded");
    if (!peer->life->lost())
        return peer;
    peers.drop(peer, peer->life->why());
    return peer->gone();
}

void
nixlAgentData::takePeerEvents(std::vector<nixlPeerEvent> &out) {
    std::vector<nixlPeerEvent> events;
    peerEvents->take(events);
    const bool lost = std::any_of(events.begin(), events.end(), [](const nixlPeerEvent &event) {
        return event.kind == nixlPeerEvent::Kind::kLost || event.dropped > 0;
    });
    if (lost)
        peers.dropLost();
    out.insert(out.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
}

Result<HostLane>
nixlAgentData::meet(const Service &service, const PeerPtr &peer, const PeerLink &link) {
    if (const std::string *limit = service.limitOfAll())
        return Status(NIXL_ERR_BACKEND, *limit);
    nixl::Engine &engine = service.engine->impl();
    auto lane = link.contact->known(engine, *link.peer);
    if (!lane)
        lane = link.contact->decide(engine, *link.peer, othersThan(*service.engine, peers.links(*peer)));
    if (lane->status().code() == NIXL_ERR_REMOTE_DISCONNECT)
        forget(peer, lane->status().message());
    return *lane;
}

Status
nixlAgentData::checkMessages(const Service &service, const PeerPtr &peer, const PeerLink &link) {
    if (!link.contact)
        return {};
    const auto lane = meet(service, peer, link);
    if (!lane.ok())
        return lane.status();
    const std::string *limit = service.limit(lane.value());
    return limit ? Status(NIXL_ERR_BACKEND, *limit) : Status();
}

Status
nixlAgentData::connect(const std::string &agentName, const nixl_opt_args_t *args) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    const auto known = knownPeer(agentName);
    if (!known.ok())
        return known.status();
    const PeerPtr &peer = known.value();
    if (peers.links(*peer).empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "the metadata of '", agentName,
                             "' has no connection information");
    bool connected = false;
    EnginePtr inside; // serves the peer within this host
    Status refusal;
    for (const Service &service : named.value()) {
        const auto link = peers.link(*peer, service.engine.get());
        if (!link)
            continue;
        const auto inContext = [&](const Status &status) {
            return status.withContext(concat(service.engine->name(), " to '", agentName, "'"));
        };
        if (link->contact) {
            const Status met = checkMessages(service, peer, *link);
            if (met.code() == NIXL_ERR_REMOTE_DISCONNECT)
                return inContext(met);
            if (met.ok())
                inside = service.engine;
            else
                refusal = inContext(met);
            connected |= met.ok();
            continue;
        }
        // Within the host the network is used for memory only that the other engine does not take.
        const auto &memories = service.engine->capabilities().memories;
        if (inside && service.engine->info().network &&
            std::all_of(memories.begin(), memories.end(),
                        [&](nixl_mem_t kind) { return inside->takes(kind); }))
            continue;
        const Status status = service.engine->impl().connect(*link->peer);
        if (!status.ok() && inside && service.engine->info().network) {
            NIXL_LOG(kInfo, "makeConnection: ", inContext(status).message());
            continue;
        }
        if (status.code() == NIXL_ERR_REMOTE_DISCONNECT)
            forget(peer, status.message());
        if (!status.ok())
            return inContext(status);
        connected = true;
    }
    if (connected)
        return {};
    return refusal.ok() ? Status::error(NIXL_ERR_BACKEND, "no engine in common with '", agentName, "'")
                        : refusal;
}

Status
nixlAgentData::encodeConnections(const ServiceList &services, nixl::MetadataBlob &blob) const {
    for (const Service &service : services) {
        auto info = service.engine->impl().connectionInfo();
        if (!info.ok())
            return info.status().withContext(service.engine->name());
        blob.connections.push_back({service.engine->name(), std::move(info).value()});
    }
    return {};
}

/// Writes the sections of those of `services` that offer them.
void
nixlAgentData::encodeSections(const std::vector<nixl::LocalSection> &sections, const ServiceList &services,
                              nixl::MetadataBlob &blob) const {
    for (const nixl::LocalSection &section : sections) {
        const Service *service = nixl::find(services, section.engine.get());
        if (!service || !service->offers(section.memory))
            continue;
        nixl::MetadataSection out{section.engine->name(), nixl_reg_dlist_t(section.memory)};
        out.descs.reserve(section.entries.size());
        for (const nixl::LocalEntryPtr &entry : section.entries) {
            out.descs.emplace(entry->desc, entry->publicData);
            blob.extension->keys.push_back(entry->key);
        }
        blob.sections.push_back(std::move(out));
    }
}

Result<nixl_blob_t>
nixlAgentData::fullMetadata() const {
    const ServiceList all = backends.services();
    const ServiceList services = offered(all);
    if (services.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "no backend of this agent reaches other agents",
                             whyNotOffered(all));
    nixl::MetadataBlob blob;
    blob.agent = name;
    NIXL_RETURN_IF_ERROR(encodeConnections(services, blob));
    const auto [sections, epoch] = memory.snapshot();
    blob.extension = nixl::MetadataExtension{incarnation, epoch, true, {}};
    encodeSections(sections, services, blob);
    return encodeMetadata(blob);
}

Result<nixl_blob_t>
nixlAgentData::partialMetadata(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args) const {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    nixl::MetadataBlob blob;
    blob.agent = name;
    blob.extension = nixl::MetadataExtension{incarnation, memory.epoch(), false, {}};
    if (descs.isEmpty()) {
        NIXL_RETURN_IF_ERROR(encodeConnections(offered(named.value()), blob));
        return encodeMetadata(blob);
    }
    const bool chosen = args && !args->backends.empty();
    const nixl_mem_t kind = descs.getType();
    const EngineList having = memory.enginesWith(kind);
    if (!chosen && having.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "no ", nixlEnumStrings::memTypeStr(kind), " is registered");
    ServiceList services = offered(named.value());
    std::erase_if(services, [&](const Service &service) {
        return (service.joined() && !service.offers(kind)) ||
               (!chosen && std::find(having.begin(), having.end(), service.engine) == having.end());
    });
    if (services.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend with this memory reaches other agents",
                             whyNotOffered(named.value()));
    auto snapshot = memory.snapshot(enginesOf(services), descs);
    if (!snapshot.ok())
        return snapshot.status();
    const auto &sections = snapshot.value().first;
    blob.extension->epoch = snapshot.value().second;
    encodeSections(sections, services, blob);
    if (args && args->includeConnInfo) {
        std::erase_if(services, [&](const Service &service) {
            return std::none_of(sections.begin(), sections.end(), [&](const nixl::LocalSection &section) {
                return section.engine == service.engine;
            });
        });
        NIXL_RETURN_IF_ERROR(encodeConnections(services, blob));
    }
    return encodeMetadata(blob);
}

Status
nixlAgentData::checkRemote(const std::string &agentName, const nixl_xfer_dlist_t &descs) const {
    const PeerPtr peer = agentName == name ? nullptr : peers.find(agentName);
    if (peer && peer->life->lost())
        return Status(NIXL_ERR_NOT_FOUND, peer->gone().message()); // an answer: nobody is told by it
    const EngineList candidates =
        peer ? peers.enginesWith(*peer, descs.getType()) : memory.enginesWith(descs.getType());
    if (!peer && (agentName != name || candidates.empty()))
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agentName, "' is loaded");
    if (descs.isEmpty())
        return {};
    Status status = Status::error(NIXL_ERR_NOT_FOUND, "'", agentName, "' has no ",
                                  nixlEnumStrings::memTypeStr(descs.getType()), " registered");
    for (const EnginePtr &engine : candidates) {
        const nixl::BlockInput input(descs);
        status =
            peer ? resolve(input, peers, *peer, engine).status() : resolve(input, memory, engine).status();
        if (status.ok())
            return {};
    }
    return status;
}

Status
nixlAgentData::takeNotifications(nixl_notifs_t &out, const nixl_opt_args_t *args) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    const ServiceList services = talking(std::move(named).value());
    if (services.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend of this agent has notifications");
    Status last;
    std::vector<nixl::Notification> arrived;
    for (const Service &service : services) {
        const Status status = service.engine->impl().takeNotifications(arrived);
        if (!status.ok())
            last = status.withContext(service.engine->name());
    }
    for (nixl::Notification &notification : arrived)
        out[notification.agent].push_back(std::move(notification.message));
    return last;
}

Status
nixlAgentData::takeFailures(std::vector<nixlFailedNotif> &out) {
    auto services = backends.services(nullptr);
    if (!services.ok())
        return services.status();
    std::vector<nixl::FailedNotification> arrived;
    for (const Service &service : services.value())
        service.engine->impl().takeFailures(arrived);
    for (nixl::FailedNotification &failed : arrived)
        out.push_back({std::move(failed.agent), std::move(failed.message), std::move(failed.why)});
    return {};
}

Status
nixlAgentData::notify(const std::string &agentName, const nixl_blob_t &message, const nixl_opt_args_t *args) {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    const ServiceList services = talking(std::move(named).value());
    if (services.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend of this agent has notifications");
    if (agentName == name) {
        for (const Service &service : services) {
            if (service.engine->capabilities().local && !service.limit(HostLane::kSameProcess))
                return service.engine->impl().notify(nullptr, message);
        }
        return Status::error(NIXL_ERR_NOT_FOUND, "no backend of this agent sends to itself");
    }
    const auto known = knownPeer(agentName);
    if (!known.ok())
        return known.status();
    const PeerPtr &peer = known.value();
    Status refusal;
    for (const Service &service : services) {
        const auto link = peers.link(*peer, service.engine.get());
        if (!link)
            continue;
        const auto inContext = [&](const Status &status) {
            return status.withContext(concat(service.engine->name(), " to '", agentName, "'"));
        };
        Status status = checkMessages(service, peer, *link);
        if (!status.ok() && status.code() != NIXL_ERR_REMOTE_DISCONNECT) {
            refusal = inContext(status);
            continue;
        }
        if (status.ok())
            status = service.engine->impl().notify(link->peer.get(), message);
        if (status.ok())
            return status;
        if (status.code() == NIXL_ERR_REMOTE_DISCONNECT)
            forget(peer, status.message());
        return inContext(status);
    }
    return refusal.ok() ? Status::error(NIXL_ERR_NOT_FOUND, "no engine in common with '", agentName, "'")
                        : refusal;
}

Status
nixlAgentData::refuseMemView(const std::vector<std::string> &agents, nixl_mem_t memoryType,
                             const nixl_opt_args_t *args) const {
    auto named = backends.services(args);
    if (!named.ok())
        return named.status();
    bool any = agents.empty();
    for (const std::string &agent : agents) {
        if (agent == nixl_null_agent)
            continue;
        any = true;
        if (agent != name && !peers.find(agent))
            return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agent, "' is loaded");
    }
    const bool capable = std::any_of(named.value().begin(), named.value().end(), [&](const Service &service) {
        return service.engine->takes(memoryType);
    });
    if (!any || !capable)
        return Status::error(NIXL_ERR_NOT_FOUND,
                             any ? "no backend of this agent takes " + nixlEnumStrings::memTypeStr(memoryType)
                                 : "the list names only placeholders");
    return Status::error(
        NIXL_ERR_NOT_SUPPORTED,
        "no backend of this agent offers memory views: they are for device code, and need an "
        "engine with a device interface");
}
