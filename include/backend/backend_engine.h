/**
 * @file backend_engine.h
 * The class a plugin derives its engine from: one object per agent that creates the engine.
 *
 * Results: NIXL_SUCCESS or a negative status; where it says so also NIXL_IN_PROG. What an engine throws is
 * caught and becomes NIXL_ERR_BACKEND with its text.
 *
 * Threads: calls into one engine never overlap, but come from different threads.
 *
 * Lifetime: requests end before the registrations and peers they use, those before the engine. Lists, names,
 * operation and optional arguments given to prepXfer stay where they are until releaseReqH, so an engine may
 * keep references to them; postXfer gets the same objects.
 */
#ifndef NIXL_BACKEND_ENGINE_H
#define NIXL_BACKEND_ENGINE_H

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend_aux.h"
#include "nixl_types.h"
#include "telemetry_event.h"

class NIXL_EXPORT nixlBackendEngine {
public:
    /** Copies what it needs from `init_params`, which must not be null. */
    explicit nixlBackendEngine(const nixlBackendInitParams *init_params)
        : localAgent(init_params->localAgent), enableTelemetry_(init_params->enableTelemetry_),
          backendType_(init_params->type) {
        if (init_params->customParams != nullptr)
            customParams_ = *init_params->customParams;
    }

    virtual ~nixlBackendEngine() = default;

    nixlBackendEngine(const nixlBackendEngine &) = delete;
    nixlBackendEngine(nixlBackendEngine &&) = delete;
    nixlBackendEngine &operator=(const nixlBackendEngine &) = delete;
    nixlBackendEngine &operator=(nixlBackendEngine &&) = delete;

    /** True if the constructor could not do its work: the engine is destroyed again, createBackend fails. */
    bool
    getInitErr() const noexcept {
        return initErr;
    }

    /** Name of the plugin. */
    const nixl_backend_t &
    getType() const noexcept {
        return backendType_;
    }

    /** The parameters it was created with, and what setInitParam added. */
    const nixl_b_params_t &
    getCustomParams() const noexcept {
        return customParams_;
    }

    /** Takes the events that addTelemetryEvent kept. Any thread. */
    std::vector<nixlTelemetryEvent>
    getTelemetryEvents() {
        const std::lock_guard<std::mutex> lock(telemetryMutex_);
        return std::exchange(telemetryEvents_, {});
    }

    // ---- What it can do: constant ------------------------------------------------------------------------

    /** Moves data between two agents. An engine that does must support notifications too. */
    virtual bool supportsRemote() const = 0;

    /** Moves data between two registrations of its own agent. */
    virtual bool supportsLocal() const = 0;

    /** Carries messages between agents. */
    virtual bool supportsNotif() const = 0;

    /** Kinds of memory it registers. */
    virtual nixl_mem_list_t getSupportedMems() const = 0;

    // ---- Memory ------------------------------------------------------------------------------------------

    /** Registers memory. `out` is set on success and stays valid until deregisterMem. The same range may be
     *  registered several times. */
    virtual nixl_status_t registerMem(const nixlBlobDesc &mem, const nixl_mem_t &nixl_mem,
                                      nixlBackendMD *&out) = 0;

    /** Ends a registration and frees `meta`. After an error `meta` is still valid and the call is repeated.
     */
    virtual nixl_status_t deregisterMem(nixlBackendMD *meta) = 0;

    /** Looks up files or objects: one answer per descriptor. */
    virtual nixl_status_t
    queryMem(const nixl_reg_dlist_t &, std::vector<nixl_query_resp_t> &) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }

    // ---- Peers and loop-back -----------------------------------------------------------------------------

    /** Connects to a peer whose connection information was loaded, or, if supportsLocal, to the agent itself.
     *  Bounded in time; harmless if connected. */
    virtual nixl_status_t connect(const std::string &remote_agent) = 0;

    /** Closes what connect opened and forgets what loadRemoteConnInfo told. */
    virtual nixl_status_t disconnect(const std::string &remote_agent) = 0;

    /** Frees what loadRemoteMD or loadLocalMD made; called before the peer is disconnected and before the
     *  registration itself ends. */
    virtual nixl_status_t unloadMD(nixlBackendMD *input) = 0;

    /** The bytes that a peer's loadRemoteMD needs. Only if supportsRemote. */
    virtual nixl_status_t
    getPublicData(const nixlBackendMD *, std::string &) const {
        return NIXL_ERR_BACKEND;
    }

    /** The bytes that a peer's loadRemoteConnInfo needs. Only if supportsRemote. */
    virtual nixl_status_t
    getConnInfo(std::string &) const {
        return NIXL_ERR_BACKEND;
    }

    /** Takes in a peer's connection information, which may be forged. Only if supportsRemote. */
    virtual nixl_status_t
    loadRemoteConnInfo(const std::string & /*remote_agent*/, const std::string & /*remote_conn_info*/) {
        return NIXL_ERR_BACKEND;
    }

    /** Takes in a peer's registration; `input.metaInfo` holds its public data, which may be forged. Only if
     *  supportsRemote. */
    virtual nixl_status_t
    loadRemoteMD(const nixlBlobDesc & /*input*/, const nixl_mem_t & /*nixl_mem*/,
                 const std::string & /*remote_agent*/, nixlBackendMD *& /*output*/) {
        return NIXL_ERR_BACKEND;
    }

    /** Makes the target side of an own registration, which may be `input` itself. Only if supportsLocal. */
    virtual nixl_status_t
    loadLocalMD(nixlBackendMD * /*input*/, nixlBackendMD *& /*output*/) {
        return NIXL_ERR_BACKEND;
    }

    // ---- Transfers ---------------------------------------------------------------------------------------

    /** Makes a request: local[i] and remote[i] have the same length. `handle` is set on success. */
    virtual nixl_status_t prepXfer(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                                   const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                                   nixlBackendReqH *&handle,
                                   const nixl_opt_b_args_t *opt_args = nullptr) const = 0;

    /** Starts it, also again after it ended. NIXL_IN_PROG: ask checkXfer; NIXL_SUCCESS: done. */
    virtual nixl_status_t postXfer(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                                   const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                                   nixlBackendReqH *&handle,
                                   const nixl_opt_b_args_t *opt_args = nullptr) const = 0;

    /** NIXL_IN_PROG, or how it ended; NIXL_ERR_REMOTE_DISCONNECT if the peer is gone. Does not block. When it
     *  has ended the engine no longer touches local memory. */
    virtual nixl_status_t checkXfer(nixlBackendReqH *handle) const = 0;

    /** Ends a request, cancelling it if it runs. Success: local memory is quiet and `handle` is freed. An
     * error: it is not quiet yet, `handle` is still valid. */
    virtual nixl_status_t releaseReqH(nixlBackendReqH *handle) const = 0;

    /** How long a prepared request would take. */
    virtual nixl_status_t
    estimateXferCost(const nixl_xfer_op_t & /*operation*/, const nixl_meta_dlist_t & /*local*/,
                     const nixl_meta_dlist_t & /*remote*/, const std::string & /*remote_agent*/,
                     nixlBackendReqH *const & /*handle*/, std::chrono::microseconds & /*duration*/,
                     std::chrono::microseconds & /*err_margin*/, nixl_cost_t & /*method*/,
                     const nixl_opt_args_t * /*extra_params*/ = nullptr) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }

    // ---- Views for device code: not asked for by this library yet ----------------------------------------

    virtual nixl_status_t
    prepMemView(const nixl_remote_meta_dlist_t &, nixlMemViewH &, const nixl_opt_b_args_t * = nullptr) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }

    virtual nixl_status_t
    prepMemView(const nixl_meta_dlist_t &, nixlMemViewH &, const nixl_opt_b_args_t * = nullptr) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }

    virtual void
    releaseMemView(nixlMemViewH) const {}

    // ---- Notifications: only if supportsNotif ------------------------------------------------------------

    /** Puts what arrived since the last call into `notif_list`, which is empty. */
    virtual nixl_status_t
    getNotifs(notif_list_t & /*notif_list*/) {
        return NIXL_ERR_BACKEND;
    }

    /** Sends a message to a loaded peer, or to the agent itself. Messages to one peer arrive in order. */
    virtual nixl_status_t
    genNotif(const std::string & /*remote_agent*/, const std::string & /*msg*/) const {
        return NIXL_ERR_BACKEND;
    }

protected:
    /** A constructor that fails sets it. */
    bool initErr = false;
    const std::string localAgent;
    const bool enableTelemetry_;

    /** Adds a parameter; NIXL_ERR_NOT_ALLOWED if it is there. */
    nixl_status_t
    setInitParam(const std::string &key, const std::string &value) {
        return customParams_.emplace(key, value).second ? NIXL_SUCCESS : NIXL_ERR_NOT_ALLOWED;
    }

    /** Reads a parameter; NIXL_ERR_INVALID_PARAM, and `value` as it was, if it is not there. */
    nixl_status_t
    getInitParam(const std::string &key, std::string &value) const {
        const auto found = customParams_.find(key);
        if (found == customParams_.end())
            return NIXL_ERR_INVALID_PARAM;
        value = found->second;
        return NIXL_SUCCESS;
    }

    /** Keeps an event for getTelemetryEvents if telemetry is on; the newest are dropped when 1000 wait.
     *  Any thread. */
    void
    addTelemetryEvent(nixl_telemetry_event_type_t event_type, std::uint64_t value) {
        constexpr std::size_t kMostEvents = 1000;
        if (!enableTelemetry_)
            return;
        const std::lock_guard<std::mutex> lock(telemetryMutex_);
        if (telemetryEvents_.size() < kMostEvents)
            telemetryEvents_.emplace_back(event_type, value);
    }

private:
    const nixl_backend_t backendType_;
    nixl_b_params_t customParams_;
    std::mutex telemetryMutex_;
    std::vector<nixlTelemetryEvent> telemetryEvents_; // guarded by telemetryMutex_
};

#endif
