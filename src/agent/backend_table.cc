#include "agent/backend_table.h"

#include "util/concat.h"

namespace nixl {

Result<BackendPtr>
BackendTable::create(const std::string &type, const EngineConfig &config) {
    LockGuard creating(creating_);
    for (const BackendPtr &backend : all()) {
        if (backend->type() == type)
            return Status::error(NIXL_ERR_INVALID_PARAM, "the agent has a backend ", type, " already");
    }
    auto factory = registry_->find(type);
    if (!factory.ok())
        return factory.status();
    const EngineInfo &info = factory.value()->info();
    for (const BackendPtr &backend : all()) {
        const auto other = registry_->find(backend->type());
        if (!info.exclusiveGroup.empty() && other.ok() &&
            other.value()->info().exclusiveGroup == info.exclusiveGroup)
            return Status::error(NIXL_ERR_NOT_ALLOWED, type, " and ", backend->type(),
                                 " cannot be in one agent");
    }
    auto engine = factory.value()->create(config);
    if (!engine.ok())
        return engine.status().withContext(type);
    auto backend = std::make_shared<nixlBackendH>(type, config.params, std::move(engine).value());
    const Capabilities &can = backend->capabilities();
    if (can.remote && !can.notifications)
        return Status::error(NIXL_ERR_BACKEND, type, " reaches other agents but has no notifications");
    if (can.remote) {
        const auto connection = backend->engine().connectionInfo();
        if (!connection.ok())
            return connection.status().withContext(concat(type, " has no connection information"));
    }
    WriteLock lock(mutex_);
    backends_.push_back(backend);
    return backend;
}

BackendList
BackendTable::all() const {
    ReadLock lock(mutex_);
    return backends_;
}

Result<BackendList>
BackendTable::named(const nixl_opt_args_t *args) const {
    if (!args || args->backends.empty())
        return all();
    BackendList backends;
    for (std::size_t i = 0; i < args->backends.size(); ++i) {
        BackendPtr backend = find(args->backends[i]);
        if (!backend)
            return Status::error(NIXL_ERR_INVALID_PARAM, "backend ", i,
                                 " of the optional arguments is not one of this agent");
        backends.push_back(std::move(backend));
    }
    return backends;
}

BackendPtr
BackendTable::find(const nixlBackendH *handle) const {
    ReadLock lock(mutex_);
    for (const BackendPtr &backend : backends_) {
        if (backend.get() == handle)
            return backend;
    }
    return nullptr;
}

void
BackendTable::clear() {
    BackendList backends; // declared first: destroyed after the lock is released
    WriteLock lock(mutex_);
    backends.swap(backends_);
}

} // namespace nixl
