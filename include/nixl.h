/**
 * @file nixl.h
 * The agent: registers memory, learns about peers, moves blocks between them.
 */
#ifndef NIXL_H
#define NIXL_H

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nixl_descriptors.h"
#include "nixl_params.h"
#include "nixl_types.h"

/**
 * One participant of transfers. A process may have several, also of one name.
 *
 * Results: every call returns NIXL_SUCCESS or a negative status unless it says more. A failing call changes
 * nothing, sets no output (unless stated), writes one line to the log and leaves the text of the cause for
 * nixl_last_error() (nixl_ext.h). In a forked child every call answers NIXL_ERR_NOT_ALLOWED.
 *
 * Threads: every call may be made from any thread at any time, in each syncMode. Only the destructor must not
 * run beside another call.
 *
 * Lifetime: handles belong to the agent that made them. A request or prepared list that was released, or that
 * belongs to another agent, is refused with NIXL_ERR_INVALID_PARAM; one whose memory was deregistered or
 * whose peer was invalidated (also if it was loaded again since) with NIXL_ERR_NOT_FOUND. Lists and strings
 * passed to a call are copied as needed and may be destroyed after it.
 */
class NIXL_EXPORT nixlAgent {
public:
    /**
     * @param name  how peers call this agent; any bytes, not empty
     * @throws std::invalid_argument if `name` is empty
     * @throws std::runtime_error if the configuration cannot work (two metadata stores, unusable exporter)
     */
    nixlAgent(const std::string &name, const nixlAgentConfig &cfg);

    /** Ends transfers, deregisters all memory, stops the engines. All handles become invalid. */
    ~nixlAgent();

    nixlAgent(const nixlAgent &) = delete;
    nixlAgent(nixlAgent &&) = delete;
    nixlAgent &operator=(const nixlAgent &) = delete;
    nixlAgent &operator=(nixlAgent &&) = delete;

    // ---- Engines ----------------------------------------------------------------------------------------

    /** Names of the engines that exist: built in, or found as files; loading one may still fail. */
    nixl_status_t getAvailPlugins(std::vector<nixl_backend_t> &plugins);

    /** What an engine offers before it is created: its kinds of memory and its parameters with defaults.
     *  NIXL_ERR_NOT_FOUND if it is unknown or cannot be loaded. */
    nixl_status_t getPluginParams(const nixl_backend_t &type, nixl_mem_list_t &mems,
                                  nixl_b_params_t &params) const;

    /** The kinds of memory of a created engine and the parameters it was created with. */
    nixl_status_t getBackendParams(const nixlBackendH *backend, nixl_mem_list_t &mems,
                                   nixl_b_params_t &params) const;

    /**
     * Creates an engine. The order of creation is the order of preference for registrations and
     * notifications. The handle is valid as long as the agent.
     *
     * NIXL_ERR_INVALID_PARAM: the agent has one of this type. NIXL_ERR_NOT_FOUND: no such engine, or it
     * cannot be loaded. NIXL_ERR_NOT_ALLOWED: excluded by another engine of this agent. NIXL_ERR_BACKEND: it
     * could not start.
     */
    nixl_status_t createBackend(const nixl_backend_t &type, const nixl_b_params_t &params,
                                nixlBackendH *&backend);

    // ---- Memory -----------------------------------------------------------------------------------------

    /**
     * Registers memory with every engine that takes its kind, or with extra_params->backends. Success if at
     * least one engine took all descriptors; the others take none. Registering a range again, or one that
     * overlaps, makes a registration of its own. Length 0 means "unbounded" for files, objects and block
     * devices and is refused for memory, as is a range that wraps.
     *
     * The memory must stay mapped until deregisterMem returned NIXL_SUCCESS.
     *
     * NIXL_ERR_NOT_FOUND: no engine for this kind of memory. NIXL_ERR_INVALID_PARAM: an illegal range.
     * NIXL_ERR_BACKEND: no engine took it.
     */
    nixl_status_t registerMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *extra_params = nullptr);

    /**
     * Ends registrations named by their exact address, length and device, once each per entry of the list.
     * When it returns NIXL_SUCCESS no transfer touches the memory any more; requests and prepared lists that
     * use it are stale.
     *
     * NIXL_ERR_NOT_FOUND: nothing of this kind is registered, or an entry is not; nothing was deregistered.
     * NIXL_ERR_BACKEND: a peer is in the middle of an access and does not finish; the registrations stay, are
     * closed to new transfers, and the call can be repeated.
     */
    nixl_status_t deregisterMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *extra_params = nullptr);

    /** Asks the one engine in extra_params->backends about files or objects; one answer per descriptor.
     *  NIXL_ERR_INVALID_PARAM unless exactly one engine is named. */
    nixl_status_t queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp,
                           const nixl_opt_args_t *extra_params) const;

    // ---- Transfers --------------------------------------------------------------------------------------

    /** Connects to a loaded peer now rather than at the first transfer.
     *  NIXL_ERR_NOT_FOUND: unknown peer. NIXL_ERR_BACKEND: no engine in common. */
    nixl_status_t makeConnection(const std::string &remote_agent,
                                 const nixl_opt_args_t *extra_params = nullptr);

    /**
     * Resolves a list of blocks against registrations, once, for many requests.
     * @param agent_name  "" (NIXL_INIT_AGENT): this agent's memory as the local side; a loaded peer, or this
     *                    agent's own name for loop-back: the remote side
     *
     * NIXL_ERR_NOT_FOUND: unknown agent (`dlist_hndl` untouched); some block lies in no registration, or the
     * list is empty (`dlist_hndl` = nullptr).
     */
    nixl_status_t prepXferDlist(const std::string &agent_name, const nixl_xfer_dlist_t &descs,
                                nixlDlistH *&dlist_hndl, const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t prepXferDlist(const nixl_xfer_dlist_t &descs, nixlDlistH *&dlist_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const;

    /** The same for strided rows; block i counts across the rows in their order. A row with count 0, len 0,
     *  stride < len, or that wraps, is in no registration. */
    nixl_status_t prepXferDlist(const std::string &agent_name, const nixl_stride_dlist_t &descs,
                                nixlDlistH *&dlist_hndl, const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t prepXferDlist(const nixl_stride_dlist_t &descs, nixlDlistH *&dlist_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const;

    /**
     * Makes a request that pairs local_indices[i] of one prepared list with remote_indices[i] of another.
     * Pairs that continue each other on both sides are merged unless skipDescMerge is set. The request does
     * not need the lists any more. `req_hndl` is nullptr after a failure.
     *
     * NIXL_ERR_INVALID_PARAM: a handle that is null or not live, sides exchanged, no indices, counts or
     * lengths that differ, an index out of range, no engine in common. NIXL_ERR_NOT_FOUND: stale list.
     * NIXL_ERR_BACKEND: a notification is wanted and no common engine has them, or no path to the peer.
     */
    nixl_status_t makeXferReq(const nixl_xfer_op_t &operation, const nixlDlistH *local_side,
                              const std::vector<int> &local_indices, const nixlDlistH *remote_side,
                              const std::vector<int> &remote_indices, nixlXferReqH *&req_hndl,
                              const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t makeXferReq(const nixl_xfer_op_t &operation, const nixlDlistH &local_side,
                              std::span<const int> local_indices, const nixlDlistH &remote_side,
                              std::span<const int> remote_indices, nixlXferReqH *&req_hndl,
                              const nixl_opt_args_t *extra_params = nullptr) const;

    /**
     * Makes a request from two lists at once. customParam is passed to the engine.
     *
     * NIXL_ERR_INVALID_PARAM: counts or lengths differ. NIXL_ERR_NOT_FOUND: unknown peer, no common engine,
     * a block that lies in no registration, empty lists. NIXL_ERR_BACKEND: as makeXferReq.
     */
    nixl_status_t createXferReq(const nixl_xfer_op_t &operation, const nixl_xfer_dlist_t &local_descs,
                                const nixl_xfer_dlist_t &remote_descs, const std::string &remote_agent,
                                nixlXferReqH *&req_hndl, const nixl_opt_args_t *extra_params = nullptr) const;

    /** How long the request would take alone, and by how much that may be wrong. */
    nixl_status_t estimateXferCost(const nixlXferReqH *req_hndl, std::chrono::microseconds &duration,
                                   std::chrono::microseconds &err_margin, nixl_cost_t &method,
                                   const nixl_opt_args_t *extra_params = nullptr) const;

    /**
     * Starts the request, again and again if wished, once the previous run is over.
     *
     * Notification: no extra_params: the stored one; extra_params with one: that, stored from now on;
     * extra_params without: none, from now on.
     *
     * NIXL_SUCCESS: done already. NIXL_IN_PROG: running. NIXL_ERR_REPOST_ACTIVE: the previous run is not
     * over. NIXL_ERR_NOT_FOUND: stale. NIXL_ERR_REMOTE_DISCONNECT: the peer is gone.
     */
    nixl_status_t postXferReq(nixlXferReqH *req_hndl, const nixl_opt_args_t *extra_params = nullptr) const;

    /** NIXL_IN_PROG, NIXL_SUCCESS, NIXL_ERR_NOT_POSTED, or how it failed. A terminal answer means that the
     *  engine is done with the local memory. The call may do a part of the work itself, some ten to a hundred
     *  microseconds: who polls gets the result sooner. */
    nixl_status_t getXferStatus(nixlXferReqH *req_hndl) const;

    /** NIXL_ERR_NO_TELEMETRY if it is off; the request's own status unless that is NIXL_SUCCESS. */
    nixl_status_t getXferTelemetry(const nixlXferReqH *req_hndl, nixl_xfer_telem_t &telemetry) const;

    /** The engine that carries the request. */
    nixl_status_t queryXferBackend(const nixlXferReqH *req_hndl, nixlBackendH *&backend) const;

    /**
     * Ends a request; a running one is cancelled first. NIXL_SUCCESS: local memory is quiet and the handle is
     * gone. NIXL_ERR_REPOST_ACTIVE, after 50 ms at most: it is not quiet yet; poll and release again.
     */
    nixl_status_t releaseXferReq(nixlXferReqH *req_hndl) const;

    /** Ends a prepared list; requests made from it live on. */
    nixl_status_t releasedDlistH(nixlDlistH *dlist_hndl) const;

    // ---- Memory views -----------------------------------------------------------------------------------

    /** Views for device code. No engine of this library offers them yet: NIXL_ERR_NOT_SUPPORTED, with the
     * reason. NIXL_ERR_NOT_FOUND: an unknown agent, or only placeholders. */
    nixl_status_t prepMemView(const nixl_remote_dlist_t &descs, nixlMemViewH &view,
                              const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t prepMemView(const nixl_local_dlist_t &descs, nixlMemViewH &view,
                              const nixl_opt_args_t *extra_params = nullptr) const;
    /** Ends a view; an unknown one is logged. */
    void releaseMemView(nixlMemViewH view) const;

    // ---- Notifications ----------------------------------------------------------------------------------

    /** Appends the messages that arrived since the last call. NIXL_ERR_BACKEND: no engine has notifications.
     */
    nixl_status_t getNotifs(nixl_notifs_t &notif_map, const nixl_opt_args_t *extra_params = nullptr);

    /** Sends a message (may be empty) to a loaded peer, or to this agent itself.
     *  NIXL_ERR_NOT_FOUND: unknown peer, or no engine in common. NIXL_ERR_BACKEND: no engine has them. */
    nixl_status_t genNotif(const std::string &remote_agent, const nixl_blob_t &msg,
                           const nixl_opt_args_t *extra_params = nullptr) const;

    // ---- Metadata ---------------------------------------------------------------------------------------

    /** Everything a peer needs to reach this agent's registrations. NIXL_ERR_INVALID_PARAM: no engine reaches
     *  other agents. */
    nixl_status_t getLocalMD(nixl_blob_t &str) const;

    /** The same for some registrations (exact ranges); connection information too if includeConnInfo is set
     * or the list is empty. NIXL_ERR_NOT_FOUND: an entry is not registered. */
    nixl_status_t getLocalPartialMD(const nixl_reg_dlist_t &descs, nixl_blob_t &str,
                                    const nixl_opt_args_t *extra_params = nullptr) const;

    /**
     * Learns about a peer; loading again updates what is known. A blob that is refused changes nothing.
     *
     * NIXL_ERR_MISMATCH: not metadata. NIXL_ERR_INVALID_PARAM: this agent's own. NIXL_ERR_NOT_ALLOWED: the
     * peer's identity or a region changed; invalidate it first. NIXL_ERR_BACKEND: no engine in common.
     */
    nixl_status_t loadRemoteMD(const nixl_blob_t &remote_metadata, std::string &agent_name);

    /** Forgets a peer. Its lists and requests are stale from now on.
     *  NIXL_ERR_INVALID_PARAM: the own name. NIXL_ERR_NOT_FOUND: unknown. */
    nixl_status_t invalidateRemoteMD(const std::string &remote_agent);

    /** Sends, fetches and invalidates metadata by sockets (ipAddr) or a store. NIXL_ERR_NOT_SUPPORTED: this
     *  build has neither. */
    nixl_status_t sendLocalMD(const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t sendLocalPartialMD(const nixl_reg_dlist_t &descs,
                                     const nixl_opt_args_t *extra_params = nullptr) const;
    nixl_status_t fetchRemoteMD(const std::string remote_name, const nixl_opt_args_t *extra_params = nullptr);
    nixl_status_t invalidateLocalMD(const nixl_opt_args_t *extra_params = nullptr) const;

    /** NIXL_SUCCESS if the peer is known and the list is empty or lies in its registrations, else
     *  NIXL_ERR_NOT_FOUND. A local lookup. */
    nixl_status_t checkRemoteMD(const std::string remote_name, const nixl_xfer_dlist_t &descs) const;

private:
    friend struct nixlAgentAccess;
    std::unique_ptr<nixlAgentData> data_;
};

#endif
