// nixlAgent: finds the objects behind handles, delegates, and turns outcomes into statuses.
#include "nixl.h"

#include <stdexcept>

#include "agent/agent_state.h"
#include "agent/edge.h"
#include "util/log.h"

using nixl::call;
using nixl::notALiveRequest;
using nixl::reportState;
using nixl::RequestState;
using nixl::Result;
using nixl::Status;

namespace {

template<typename T>
Status
assign(Result<T> result, T &out) {
    if (!result.ok())
        return result.status();
    out = std::move(result).value();
    return {};
}

Status
noMetadataExchange(const nixl_opt_args_t *args) {
    return Status::error(NIXL_ERR_NOT_SUPPORTED, "this build exchanges no metadata over ",
                         args && !args->ipAddr.empty() ? "sockets" : "a store",
                         "; hand over the bytes of getLocalMD and give them to loadRemoteMD");
}

} // namespace

nixlAgent::nixlAgent(const std::string &name, const nixlAgentConfig &cfg) {
    auto data = nixlAgentData::create(name, cfg);
    if (!data.ok()) {
        nixl::setLastError(data.status().message());
        if (name.empty())
            throw std::invalid_argument(data.status().message());
        throw std::runtime_error(data.status().message());
    }
    data_ = std::move(data).value();
}

nixlAgent::~nixlAgent() {
    if (data_->fork.inherited())
        (void)data_.release(); // its threads are in the parent; nothing can be stopped or joined here
}

nixl_status_t
nixlAgent::getAvailPlugins(std::vector<nixl_backend_t> &plugins) {
    return call(*data_, "getAvailPlugins", [&] {
        plugins = data_->backends.registry().names();
        return Status();
    });
}

nixl_status_t
nixlAgent::getPluginParams(const nixl_backend_t &type, nixl_mem_list_t &mems, nixl_b_params_t &params) const {
    return call(*data_, "getPluginParams", [&] {
        auto factory = data_->backends.registry().find(type);
        if (!factory.ok())
            return factory.status();
        mems = factory.value()->info().memories;
        params = factory.value()->info().options;
        return Status();
    });
}

nixl_status_t
nixlAgent::getBackendParams(const nixlBackendH *backend, nixl_mem_list_t &mems,
                            nixl_b_params_t &params) const {
    return call(*data_, "getBackendParams", [&] {
        const auto found = data_->backends.find(backend);
        if (!found)
            return Status::error(NIXL_ERR_INVALID_PARAM, "not a backend of this agent");
        mems = found->engine()->capabilities().memories;
        params = found->params();
        return Status();
    });
}

nixl_status_t
nixlAgent::createBackend(const nixl_backend_t &type, const nixl_b_params_t &params, nixlBackendH *&backend) {
    return call(*data_, "createBackend", [&] {
        auto created = data_->backends.create(type, data_->engineConfig(params));
        if (created.ok())
            backend = created.value().get();
        return created.status();
    });
}

nixl_status_t
nixlAgent::registerMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *extra_params) {
    return call(*data_, "registerMem", [&] { return data_->registerMem(descs, extra_params); });
}

nixl_status_t
nixlAgent::deregisterMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *extra_params) {
    return call(*data_, "deregisterMem", [&] { return data_->deregisterMem(descs, extra_params); });
}

nixl_status_t
nixlAgent::queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp,
                    const nixl_opt_args_t *extra_params) const {
    return call(*data_, "queryMem", [&]() -> Status {
        if (!extra_params || extra_params->backends.size() != 1)
            return Status::error(NIXL_ERR_INVALID_PARAM, "exactly one backend must be named");
        auto named = data_->backends.named(extra_params);
        if (!named.ok())
            return named.status();
        const nixl::EngineSlot &engine = *named.value().front()->engine();
        return assign(engine.impl().queryMemory(descs), resp).withContext(engine.name());
    });
}

nixl_status_t
nixlAgent::makeConnection(const std::string &remote_agent, const nixl_opt_args_t *extra_params) {
    return call(*data_, "makeConnection", [&] { return data_->connect(remote_agent, extra_params); });
}

nixl_status_t
nixlAgent::prepXferDlist(const std::string &agent_name, const nixl_xfer_dlist_t &descs,
                         nixlDlistH *&dlist_hndl, const nixl_opt_args_t *extra_params) const {
    return call(*data_, "prepXferDlist", [&] {
        return data_->prepare(agent_name, nixl::BlockInput(descs), extra_params, dlist_hndl);
    });
}

nixl_status_t
nixlAgent::prepXferDlist(const nixl_xfer_dlist_t &descs, nixlDlistH *&dlist_hndl,
                         const nixl_opt_args_t *extra_params) const {
    return prepXferDlist(NIXL_INIT_AGENT, descs, dlist_hndl, extra_params);
}

nixl_status_t
nixlAgent::prepXferDlist(const std::string &agent_name, const nixl_stride_dlist_t &descs,
                         nixlDlistH *&dlist_hndl, const nixl_opt_args_t *extra_params) const {
    return call(*data_, "prepXferDlist", [&] {
        return data_->prepare(agent_name, nixl::BlockInput(descs), extra_params, dlist_hndl);
    });
}

nixl_status_t
nixlAgent::prepXferDlist(const nixl_stride_dlist_t &descs, nixlDlistH *&dlist_hndl,
                         const nixl_opt_args_t *extra_params) const {
    return prepXferDlist(NIXL_INIT_AGENT, descs, dlist_hndl, extra_params);
}

nixl_status_t
nixlAgent::makeXferReq(const nixl_xfer_op_t &operation, const nixlDlistH *local_side,
                       const std::vector<int> &local_indices, const nixlDlistH *remote_side,
                       const std::vector<int> &remote_indices, nixlXferReqH *&req_hndl,
                       const nixl_opt_args_t *extra_params) const {
    req_hndl = nullptr;
    return call(*data_, "makeXferReq", [&] {
        return assign(
            data_->make(operation, local_side, local_indices, remote_side, remote_indices, extra_params),
            req_hndl);
    });
}

nixl_status_t
nixlAgent::makeXferReq(const nixl_xfer_op_t &operation, const nixlDlistH &local_side,
                       std::span<const int> local_indices, const nixlDlistH &remote_side,
                       std::span<const int> remote_indices, nixlXferReqH *&req_hndl,
                       const nixl_opt_args_t *extra_params) const {
    req_hndl = nullptr;
    return call(*data_, "makeXferReq", [&] {
        return assign(
            data_->make(operation, &local_side, local_indices, &remote_side, remote_indices, extra_params),
            req_hndl);
    });
}

nixl_status_t
nixlAgent::createXferReq(const nixl_xfer_op_t &operation, const nixl_xfer_dlist_t &local_descs,
                         const nixl_xfer_dlist_t &remote_descs, const std::string &remote_agent,
                         nixlXferReqH *&req_hndl, const nixl_opt_args_t *extra_params) const {
    req_hndl = nullptr;
    return call(*data_, "createXferReq", [&] {
        return assign(data_->create(operation, local_descs, remote_descs, remote_agent, extra_params),
                      req_hndl);
    });
}

nixl_status_t
nixlAgent::estimateXferCost(const nixlXferReqH *req_hndl, std::chrono::microseconds &duration,
                            std::chrono::microseconds &err_margin, nixl_cost_t &method,
                            const nixl_opt_args_t *) const {
    return call(*data_, "estimateXferCost", [&]() -> Status {
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        NIXL_RETURN_IF_ERROR(data_->checkLive(*request));
        auto estimate = request->estimate();
        if (!estimate.ok())
            return estimate.status().withContext(request->backend()->type());
        std::tie(duration, err_margin) = estimate.value();
        method = nixl_cost_t::ANALYTICAL_BACKEND;
        return {};
    });
}

nixl_status_t
nixlAgent::postXferReq(nixlXferReqH *req_hndl, const nixl_opt_args_t *extra_params) const {
    RequestState state;
    const nixl_status_t status = call(*data_, "postXferReq", [&]() -> Status {
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        state = data_->post(*request, extra_params);
        return {};
    });
    return status != NIXL_SUCCESS ? status : reportState(*data_, "postXferReq", state);
}

nixl_status_t
nixlAgent::getXferStatus(nixlXferReqH *req_hndl) const {
    RequestState state;
    const nixl_status_t status = call(*data_, "getXferStatus", [&]() -> Status {
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        state = data_->status(*request);
        return {};
    });
    return status != NIXL_SUCCESS ? status : reportState(*data_, "getXferStatus", state);
}

nixl_status_t
nixlAgent::getXferTelemetry(const nixlXferReqH *req_hndl, nixl_xfer_telem_t &telemetry) const {
    RequestState state;
    const nixl_status_t status = call(*data_, "getXferTelemetry", [&]() -> Status {
        if (!data_->telemetry)
            return Status::error(NIXL_ERR_NO_TELEMETRY,
                                 "telemetry is off; set captureTelemetry or NIXL_TELEMETRY_ENABLE");
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        state = data_->status(*request);
        if (state.code == NIXL_SUCCESS)
            telemetry = request->times();
        else if (state.code == NIXL_IN_PROG)
            state.message = "the transfer is in progress";
        return {};
    });
    return status != NIXL_SUCCESS ? status : reportState(*data_, "getXferTelemetry", state);
}

nixl_status_t
nixlAgent::queryXferBackend(const nixlXferReqH *req_hndl, nixlBackendH *&backend) const {
    return call(*data_, "queryXferBackend", [&] {
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        backend = request->backend().get();
        return Status();
    });
}

nixl_status_t
nixlAgent::releaseXferReq(nixlXferReqH *req_hndl) const {
    return call(*data_, "releaseXferReq", [&] {
        const auto request = data_->requests.find(req_hndl);
        if (!request)
            return notALiveRequest();
        if (!request->release(data_->options->releaseTimeout))
            return Status::error(NIXL_ERR_REPOST_ACTIVE,
                                 "the transfer is cancelled but its memory is not quiet after ",
                                 data_->options->releaseTimeout.count(), " ms; poll and release again");
        const auto removed = data_->requests.remove(req_hndl);
        data_->activity->signal();
        return removed ? Status() : notALiveRequest();
    });
}

nixl_status_t
nixlAgent::releasedDlistH(nixlDlistH *dlist_hndl) const {
    return call(*data_, "releasedDlistH", [&] {
        if (!data_->lists.remove(dlist_hndl))
            return Status::error(NIXL_ERR_INVALID_PARAM,
                                 "not a prepared list of this agent (null, or released)");
        return Status();
    });
}

nixl_status_t
nixlAgent::prepMemView(const nixl_remote_dlist_t &descs, nixlMemViewH &,
                       const nixl_opt_args_t *extra_params) const {
    return call(*data_, "prepMemView", [&] {
        std::vector<std::string> agents;
        for (const nixlRemoteDesc &desc : descs)
            agents.push_back(desc.remoteAgent);
        if (agents.empty())
            return Status::error(NIXL_ERR_NOT_FOUND, "the list is empty");
        return data_->refuseMemView(agents, descs.getType(), extra_params);
    });
}

nixl_status_t
nixlAgent::prepMemView(const nixl_local_dlist_t &descs, nixlMemViewH &,
                       const nixl_opt_args_t *extra_params) const {
    return call(*data_, "prepMemView",
                [&] { return data_->refuseMemView({}, descs.getType(), extra_params); });
}

void
nixlAgent::releaseMemView(nixlMemViewH view) const {
    NIXL_LOG(kWarn, "releaseMemView: ", view, " is not a memory view of agent '", data_->name, "'");
}

nixl_status_t
nixlAgent::getNotifs(nixl_notifs_t &notif_map, const nixl_opt_args_t *extra_params) {
    return call(*data_, "getNotifs", [&] { return data_->takeNotifications(notif_map, extra_params); });
}

nixl_status_t
nixlAgent::genNotif(const std::string &remote_agent, const nixl_blob_t &msg,
                    const nixl_opt_args_t *extra_params) const {
    return call(*data_, "genNotif", [&] { return data_->notify(remote_agent, msg, extra_params); });
}

nixl_status_t
nixlAgent::getLocalMD(nixl_blob_t &str) const {
    return call(*data_, "getLocalMD", [&] { return assign(data_->fullMetadata(), str); });
}

nixl_status_t
nixlAgent::getLocalPartialMD(const nixl_reg_dlist_t &descs, nixl_blob_t &str,
                             const nixl_opt_args_t *extra_params) const {
    return call(*data_, "getLocalPartialMD",
                [&] { return assign(data_->partialMetadata(descs, extra_params), str); });
}

nixl_status_t
nixlAgent::loadRemoteMD(const nixl_blob_t &remote_metadata, std::string &agent_name) {
    return call(*data_, "loadRemoteMD", [&] {
        const nixl::BackendTable &backends = data_->backends;
        auto loaded = data_->peers.load(remote_metadata, backends.engines(), backends.missing());
        data_->activity->signal(); // another life of the peer ends what was in progress with the last one
        return assign(std::move(loaded), agent_name);
    });
}

nixl_status_t
nixlAgent::invalidateRemoteMD(const std::string &remote_agent) {
    return call(*data_, "invalidateRemoteMD", [&] {
        const Status status = data_->peers.invalidate(remote_agent);
        data_->activity->signal();
        return status;
    });
}

nixl_status_t
nixlAgent::sendLocalMD(const nixl_opt_args_t *extra_params) const {
    return call(*data_, "sendLocalMD", [&] { return noMetadataExchange(extra_params); });
}

nixl_status_t
nixlAgent::sendLocalPartialMD(const nixl_reg_dlist_t &, const nixl_opt_args_t *extra_params) const {
    return call(*data_, "sendLocalPartialMD", [&] { return noMetadataExchange(extra_params); });
}

nixl_status_t
nixlAgent::fetchRemoteMD(const std::string, const nixl_opt_args_t *extra_params) {
    return call(*data_, "fetchRemoteMD", [&] { return noMetadataExchange(extra_params); });
}

nixl_status_t
nixlAgent::invalidateLocalMD(const nixl_opt_args_t *extra_params) const {
    return call(*data_, "invalidateLocalMD", [&] { return noMetadataExchange(extra_params); });
}

nixl_status_t
nixlAgent::checkRemoteMD(const std::string remote_name, const nixl_xfer_dlist_t &descs) const {
    nixl_status_t answer = NIXL_SUCCESS;
    const nixl_status_t status = call(*data_, "checkRemoteMD", [&] {
        const Status known = data_->checkRemote(remote_name, descs);
        answer = known.code(); // an answer, not a failure: no log line
        if (!known.ok())
            nixl::setLastError(known.message());
        return Status();
    });
    return status != NIXL_SUCCESS ? status : answer;
}
