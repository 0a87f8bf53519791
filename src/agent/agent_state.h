// The state of an agent and what it does; nixlAgent (agent.cc) only checks handles and translates statuses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/activity.h"
#include "agent/backend_table.h"
#include "agent/handle_table.h"
#include "agent/local_memory.h"
#include "agent/peer_events.h"
#include "agent/peers.h"
#include "agent/prepared_list.h"
#include "agent/transfer.h"
#include "nixl.h"
#include "telemetry/telemetry.h"
#include "util/fork_guard.h"
#include "util/options.h"
#include "util/status.h"
#include "wire/metadata_blob.h"

/// Thread-safe: every part has its own lock, and no lock is held while an engine is called that may wait, but
/// for that of a HostContact.
class nixlAgentData {
public:
    /// NIXL_ERR_INVALID_PARAM: the name or a setting; NIXL_ERR_NOT_FOUND: the telemetry exporter.
    static nixl::Result<std::unique_ptr<nixlAgentData>> create(const std::string &name,
                                                               const nixlAgentConfig &config);

    /// Ends transfers, registrations, peers and engines, in this order. In a forked child, does nothing.
    ~nixlAgentData();

    // ---- Memory ----
    nixl::Status registerMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args);
    nixl::Status deregisterMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *args);

    // ---- Transfers ----
    /// `out` is nullptr if no engine has all blocks; other failures leave it alone.
    nixl::Status prepare(const std::string &agentName, const nixl::BlockInput &input,
                         const nixl_opt_args_t *args, nixlDlistH *&out);
    nixl::Result<nixlXferReqH *> make(nixl_xfer_op_t operation, const nixlDlistH *local,
                                      std::span<const int> localIndices, const nixlDlistH *remote,
                                      std::span<const int> remoteIndices, const nixl_opt_args_t *args);
    nixl::Result<nixlXferReqH *> create(nixl_xfer_op_t operation, const nixl_xfer_dlist_t &local,
                                        const nixl_xfer_dlist_t &remote, const std::string &agentName,
                                        const nixl_opt_args_t *args);
    nixl::RequestState post(nixlXferReqH &request, const nixl_opt_args_t *args,
                            std::optional<std::chrono::milliseconds> timeout = std::nullopt);
    nixl::RequestState status(nixlXferReqH &request);
    /// nixlXferReqH::checkLive(); a peer that it finds lost is forgotten.
    nixl::Status checkLive(const nixlXferReqH &request);

    // ---- Waiting: sleeps until something happens, without a lock ----
    using Deadline = std::optional<nixl::Activity::Clock::time_point>; ///< nullopt: none
    /// The position of the first handle that is not of a request in progress, or nothing at the deadline.
    std::optional<std::size_t> waitAny(std::span<nixlXferReqH *const> handles, const Deadline &deadline);
    /// Waits until no request is in progress, after `patience` by cancelling; whether local memory is quiet.
    bool drain(std::chrono::milliseconds patience);
    /// True once no handle is of a request in progress.
    bool waitAll(std::span<nixlXferReqH *const> handles, const Deadline &deadline);
    /// takeNotifications() until it has any. REQUIRES: `out` is empty, which it still is at the deadline.
    nixl::Status waitNotifications(nixl_notifs_t &out, const nixl_opt_args_t *args, const Deadline &deadline);

    // ---- Peers ----
    nixl::Status connect(const std::string &agentName, const nixl_opt_args_t *args);
    nixl::Result<nixl_blob_t> fullMetadata() const;
    nixl::Result<nixl_blob_t> partialMetadata(const nixl_reg_dlist_t &descs,
                                              const nixl_opt_args_t *args) const;
    nixl::Status checkRemote(const std::string &agentName, const nixl_xfer_dlist_t &descs) const;
    nixl::Status takeNotifications(nixl_notifs_t &out, const nixl_opt_args_t *args);
    nixl::Status takeFailures(std::vector<nixlFailedNotif> &out);
    nixl::Status notify(const std::string &agentName, const nixl_blob_t &message,
                        const nixl_opt_args_t *args);
    /// Appends what happened to peers. Those that are lost are forgotten by now.
    void takePeerEvents(std::vector<nixlPeerEvent> &out);
    /// Always an error: why views of these lists cannot be made.
    nixl::Status refuseMemView(const std::vector<std::string> &agents, nixl_mem_t memory,
                               const nixl_opt_args_t *args) const;

    /// Configuration for a new engine with these parameters.
    nixl::EngineConfig engineConfig(const nixl_b_params_t &params) const;

    // Constant after construction; the parts lock themselves.
    const std::string name;
    const nixlAgentConfig config;
    const std::shared_ptr<const nixl::Options> options;
    const nixl::Incarnation incarnation;
    const nixl::ForkGuard fork;
    const std::unique_ptr<nixl::Telemetry> telemetry; ///< null: off; used by requests
    const std::shared_ptr<nixl::Activity> activity; ///< signalled by engines, and by what ends requests here
    const std::shared_ptr<nixl::PeerEvents> peerEvents;
    nixl::BackendTable backends;
    nixl::LocalMemory memory;
    nixl::Peers peers;
    nixl::HandleTable<nixlDlistH> lists;
    nixl::HandleTable<nixlXferReqH> requests;

private:
    nixlAgentData(const std::string &name, const nixlAgentConfig &config,
                  std::shared_ptr<const nixl::Options> options, std::unique_ptr<nixl::Telemetry> telemetry,
                  std::shared_ptr<nixl::EngineRegistry> registry);

    /// The engines for a call, and why not the others.
    struct Choice {
        nixl::ServiceList services;
        std::vector<nixlPathOption> excluded;

        void
        exclude(const nixl::Service &service, std::string reason) {
            excluded.push_back(service.option("", std::move(reason)));
        }

        /// All reasons, for a message.
        std::string reasons() const;
    };

    /// One way to pair two ends: an engine with both lists.
    struct Pairing {
        nixl::Service service;
        std::optional<nixl::PeerLink> link; ///< nullopt: loop-back
        const nixl::ResolvedList *local;
        const nixl::ResolvedList *remote;
    };

    /// What make and create have in common once both lists are resolved.
    struct Ends {
        nixl_xfer_op_t operation;
        nixl_mem_t localMemory, remoteMemory;
        nixl::PeerPtr peer; ///< null: loop-back
        std::optional<std::span<const int>> localIndices, remoteIndices;
        std::string customParam;
    };

    /// NIXL_ERR_NOT_FOUND: unknown; NIXL_ERR_REMOTE_DISCONNECT: an engine has told that it is lost, and now
    /// it is forgotten.
    nixl::Result<nixl::PeerPtr> knownPeer(const std::string &agentName);
    nixl::Result<Choice> choose(const nixl_opt_args_t *args) const;
    nixl::Result<nixlXferReqH *> plan(const Ends &ends, std::vector<Pairing> pairings, Choice choice,
                                      const nixl_opt_args_t *args);
    nixl::Status dropUnmet(const Ends &ends, std::vector<Pairing> &pairings, Choice &choice);
    /// For the engine that joins: where the peer is, or why others have to reach it.
    /// NIXL_ERR_REMOTE_DISCONNECT: the peer is gone, and was forgotten.
    nixl::Result<nixl::HostLane> meet(const nixl::Service &service, const nixl::PeerPtr &peer,
                                      const nixl::PeerLink &link);
    /// Whether messages may take this way to the peer; errors as those of meet().
    nixl::Status checkMessages(const nixl::Service &service, const nixl::PeerPtr &peer,
                               const nixl::PeerLink &link);
    nixl::Status quiesce(const nixl::LocalEntryPtr &entry);
    nixl::EngineList endRequests();
    void encodeSections(const std::vector<nixl::LocalSection> &sections, const nixl::ServiceList &services,
                        nixl::MetadataBlob &blob) const;
    nixl::Status encodeConnections(const nixl::ServiceList &services, nixl::MetadataBlob &blob) const;
    void dropIfDisconnected(const nixlXferReqH &request, const nixl::RequestState &state);
    /// A peer is gone: nothing with it is in progress any more.
    void forget(const nixl::PeerPtr &peer, const std::string &why);
    template<typename Look> bool waitUntil(const Deadline &deadline, Look look);
};

namespace nixl {

/// The notification that optional arguments ask for.
std::optional<std::string> wantedNotification(const nixl_opt_args_t *args);

} // namespace nixl
