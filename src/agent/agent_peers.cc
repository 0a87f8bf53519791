// Metadata, connections and notifications.
#include <algorithm>

#include "agent/agent_state.h"
#include "util/concat.h"
#include "util/log.h"

using nixl::BackendList;
using nixl::BackendPtr;
using nixl::concat;
using nixl::Result;
using nixl::Status;

namespace {

/// Those that can do something.
BackendList
able(const BackendList &backends, bool nixl::Capabilities::*what) {
    BackendList chosen;
    std::copy_if(backends.begin(), backends.end(), std::back_inserter(chosen),
                 [&](const BackendPtr &backend) { return backend->capabilities().*what; });
    return chosen;
}

} // namespace

Status
nixlAgentData::connect(const std::string &agentName, const nixl_opt_args_t *args) {
    auto named = backends.named(args);
    if (!named.ok())
        return named.status();
    const nixl::PeerPtr peer = peers.find(agentName);
    if (!peer)
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agentName, "' is loaded");
    const auto links = peers.links(*peer);
    if (links.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "the metadata of '", agentName,
                             "' has no connection information");
    bool connected = false;
    for (const BackendPtr &backend : named.value()) {
        const auto link = peers.link(*peer, backend.get());
        if (!link)
            continue;
        const Status status = backend->engine().connect(*link->peer);
        if (status.code() == NIXL_ERR_REMOTE_DISCONNECT)
            peers.drop(peer);
        if (!status.ok())
            return status.withContext(concat(backend->type(), " to '", agentName, "'"));
        connected = true;
    }
    if (!connected)
        return Status::error(NIXL_ERR_BACKEND, "no engine in common with '", agentName, "'");
    return {};
}

Status
nixlAgentData::encodeConnections(const BackendList &from, nixl::MetadataBlob &blob) const {
    for (const BackendPtr &backend : from) {
        auto info = backend->engine().connectionInfo();
        if (!info.ok())
            return info.status().withContext(backend->type());
        blob.connections.push_back({backend->type(), std::move(info).value()});
    }
    return {};
}

void
nixlAgentData::encodeSections(const std::vector<nixl::LocalSection> &sections,
                              nixl::MetadataBlob &blob) const {
    for (const nixl::LocalSection &section : sections) {
        nixl::MetadataSection out{section.backend->type(), nixl_reg_dlist_t(section.memory)};
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
    const BackendList remote = able(backends.all(), &nixl::Capabilities::remote);
    if (remote.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "no backend of this agent reaches other agents");
    nixl::MetadataBlob blob;
    blob.agent = name;
    NIXL_RETURN_IF_ERROR(encodeConnections(remote, blob));
    const auto [sections, epoch] = memory.snapshot();
    blob.extension = nixl::MetadataExtension{incarnation, epoch, true, {}};
    encodeSections(sections, blob);
    return encodeMetadata(blob);
}

Result<nixl_blob_t>
nixlAgentData::partialMetadata(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args) const {
    auto named = backends.named(args);
    if (!named.ok())
        return named.status();
    nixl::MetadataBlob blob;
    blob.agent = name;
    blob.extension = nixl::MetadataExtension{incarnation, memory.epoch(), false, {}};
    if (descs.isEmpty()) {
        NIXL_RETURN_IF_ERROR(encodeConnections(able(named.value(), &nixl::Capabilities::remote), blob));
        return encodeMetadata(blob);
    }
    const bool chosen = args && !args->backends.empty();
    const BackendList candidates = chosen ? named.value() : memory.backendsWith(descs.getType());
    if (candidates.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "no ", nixlEnumStrings::memTypeStr(descs.getType()),
                             " is registered");
    const BackendList remote = able(candidates, &nixl::Capabilities::remote);
    if (remote.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend with this memory reaches other agents");
    auto snapshot = memory.snapshot(remote, descs);
    if (!snapshot.ok())
        return snapshot.status();
    const auto &[sections, epoch] = snapshot.value();
    blob.extension->epoch = epoch;
    encodeSections(sections, blob);
    if (args && args->includeConnInfo) {
        BackendList used;
        for (const nixl::LocalSection &section : sections)
            used.push_back(section.backend);
        NIXL_RETURN_IF_ERROR(encodeConnections(used, blob));
    }
    return encodeMetadata(blob);
}

Status
nixlAgentData::checkRemote(const std::string &agentName, const nixl_xfer_dlist_t &descs) const {
    const nixl::PeerPtr peer = agentName == name ? nullptr : peers.find(agentName);
    const BackendList candidates =
        peer ? peers.backendsWith(*peer, descs.getType()) : memory.backendsWith(descs.getType());
    if (!peer && (agentName != name || candidates.empty()))
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agentName, "' is loaded");
    if (descs.isEmpty())
        return {};
    Status status = Status::error(NIXL_ERR_NOT_FOUND, "'", agentName, "' has no ",
                                  nixlEnumStrings::memTypeStr(descs.getType()), " registered");
    for (const BackendPtr &backend : candidates) {
        const nixl::BlockInput input(descs);
        status =
            peer ? resolve(input, peers, *peer, backend).status() : resolve(input, memory, backend).status();
        if (status.ok())
            return {};
    }
    return status;
}

Status
nixlAgentData::takeNotifications(nixl_notifs_t &out, const nixl_opt_args_t *args) {
    auto named = backends.named(args);
    if (!named.ok())
        return named.status();
    const BackendList talking = able(named.value(), &nixl::Capabilities::notifications);
    if (talking.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend of this agent has notifications");
    Status last;
    std::vector<nixl::Notification> arrived;
    for (const BackendPtr &backend : talking) {
        const Status status = backend->engine().takeNotifications(arrived);
        if (!status.ok())
            last = status.withContext(backend->type());
    }
    for (nixl::Notification &notification : arrived)
        out[notification.agent].push_back(std::move(notification.message));
    return last;
}

Status
nixlAgentData::notify(const std::string &agentName, const nixl_blob_t &message, const nixl_opt_args_t *args) {
    auto named = backends.named(args);
    if (!named.ok())
        return named.status();
    const BackendList talking = able(named.value(), &nixl::Capabilities::notifications);
    if (talking.empty())
        return Status::error(NIXL_ERR_BACKEND, "no backend of this agent has notifications");
    if (agentName == name) {
        for (const BackendPtr &backend : talking) {
            if (backend->capabilities().local)
                return backend->engine().notify(nullptr, message);
        }
        return Status::error(NIXL_ERR_NOT_FOUND, "no backend of this agent sends to itself");
    }
    const nixl::PeerPtr peer = peers.find(agentName);
    if (!peer)
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", agentName, "' is loaded");
    for (const BackendPtr &backend : talking) {
        const auto link = peers.link(*peer, backend.get());
        if (!link)
            continue;
        const Status status = backend->engine().notify(link->peer.get(), message);
        if (status.code() == NIXL_ERR_REMOTE_DISCONNECT)
            peers.drop(peer);
        return status.withContext(concat(backend->type(), " to '", agentName, "'"));
    }
    return Status::error(NIXL_ERR_NOT_FOUND, "no engine in common with '", agentName, "'");
}

Status
nixlAgentData::refuseMemView(const std::vector<std::string> &agents, nixl_mem_t memoryType,
                             const nixl_opt_args_t *args) const {
    auto named = backends.named(args);
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
    const bool capable = std::any_of(named.value().begin(), named.value().end(),
                                     [&](const BackendPtr &backend) { return backend->takes(memoryType); });
    if (!any || !capable)
        return Status::error(NIXL_ERR_NOT_FOUND,
                             any ? "no backend of this agent takes " + nixlEnumStrings::memTypeStr(memoryType)
                                 : "the list names only placeholders");
    return Status::error(
        NIXL_ERR_NOT_SUPPORTED,
        "no backend of this agent offers memory views: they are for device code, and need an "
        "engine with a device interface");
}
