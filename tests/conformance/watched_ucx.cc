#include "conformance/watched_ucx.h"

#include <list>

namespace nixl::conformance {

namespace {

ucx::Api real;

/// The error handler that the engine gave to an endpoint.
struct Handler {
    ucp_err_handler_t engines;
};

Mutex watching;
std::list<Handler> handlers NIXL_GUARDED_BY(watching); // as long as the process: UCX keeps pointers to them
std::set<ucp_ep_h> failed NIXL_GUARDED_BY(watching);   ///< endpoints whose error handler was called

/// Counts a call into UCX that concerns an endpoint.
void
called(ucp_ep_h endpoint) {
    UcxCalls &calls = ucxCalls();
    if (calls.callsLeft.load() >= 0 && calls.callsLeft.fetch_sub(1) == 0)
        calls.atCall();
    LockGuard lock(watching);
    calls.late += static_cast<int>(failed.count(endpoint));
}

void
onError(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    {
        LockGuard lock(watching);
        failed.insert(endpoint);
    }
    const auto *handler = static_cast<const Handler *>(argument);
    handler->engines.cb(handler->engines.arg, endpoint, status);
}

ucs_status_t
createEndpoint(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *endpoint) {
    called(nullptr);
    ucp_ep_params_t watched = *params;
    if ((params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) != 0) {
        LockGuard lock(watching);
        handlers.push_back({params->err_handler});
        watched.err_handler = {onError, &handlers.back()};
    }
    const ucs_status_t status = real.ep_create(worker, &watched, endpoint);
    if (status == UCS_OK) {
        LockGuard lock(watching);
        failed.erase(*endpoint);
    }
    return status;
}

/// Notes a put, of one block or of many. True: it is to fail.
bool
putFails(ucp_ep_h endpoint) {
    UcxCalls &calls = ucxCalls();
    if (calls.putFails.exchange(false))
        return true;
    LockGuard lock(calls.mutex);
    calls.put.insert(endpoint);
    return false;
}

ucx::Api
watchedApi() {
    ucx::Api api = real;
    api.ep_create = createEndpoint;
    api.ep_rkey_unpack = [](ucp_ep_h endpoint, const void *bytes, ucp_rkey_h *key) {
        called(endpoint);
        ++ucxCalls().unpacked;
        return real.ep_rkey_unpack(endpoint, bytes, key);
    };
    api.put_nbx = [](ucp_ep_h endpoint, const void *buffer, size_t count, uint64_t remote, ucp_rkey_h key,
                     const ucp_request_param_t *param) -> ucs_status_ptr_t {
        called(endpoint);
        ++ucxCalls().puts;
        if (putFails(endpoint))
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        return real.put_nbx(endpoint, buffer, count, remote, key, param);
    };
    api.get_nbx = [](ucp_ep_h endpoint, void *buffer, size_t count, uint64_t remote, ucp_rkey_h key,
                     const ucp_request_param_t *param) {
        called(endpoint);
        ++ucxCalls().gets;
        return real.get_nbx(endpoint, buffer, count, remote, key, param);
    };
    api.ep_flush_nbx = [](ucp_ep_h endpoint, const ucp_request_param_t *param) {
        called(endpoint);
        return real.ep_flush_nbx(endpoint, param);
    };
    api.am_send_nbx = [](ucp_ep_h endpoint, unsigned id, const void *header, size_t headerLength,
                         const void *buffer, size_t count,
                         const ucp_request_param_t *param) -> ucs_status_ptr_t {
        called(endpoint);
        ucxCalls().requests += id == ucx::kPutBlocks || id == ucx::kGetBlocks ? 1 : 0;
        if (id == ucx::kPutBlocks && putFails(endpoint))
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        return real.am_send_nbx(endpoint, id, header, headerLength, buffer, count, param);
    };
    return api;
}

class WatchedFactory : public EngineFactory {
public:
    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        auto settings = ucx::parseSettings(config.params);
        if (!settings.ok())
            return settings.status();
        auto library = ucx::Library::get(*config.options);
        if (!library.ok())
            return library.status();
        real = library.value()->api();
        return ucx::UcxEngine::create(config, std::move(settings).value(),
                                      library.value()->calledThrough(watchedApi()));
    }

private:
    const EngineInfo info_{"UCX", "1", {DRAM_SEG}, {}, "", ""};
};

} // namespace

UcxCalls &
ucxCalls() {
    static UcxCalls calls;
    return calls;
}

std::shared_ptr<EngineFactory>
makeWatchedUcxFactory() {
    return std::make_shared<WatchedFactory>();
}

} // namespace nixl::conformance
