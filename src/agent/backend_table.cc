#include "agent/backend_table.h"

#include <algorithm>

#include "util/concat.h"
#include "util/log.h"

namespace nixl {

namespace {

EnginePtr
findEngine(const EngineList &engines, const std::string &name) {
    for (const EnginePtr &engine : engines) {
        if (engine->name() == name)
            return engine;
    }
    return nullptr;
}

EnginePtr
findJoined(const EngineList &engines) {
    for (const EnginePtr &engine : engines) {
        if (engine->info().joins)
            return engine;
    }
    return nullptr;
}

Result<EnginePtr>
start(const EngineFactory &factory, const EngineConfig &config) {
    const EngineInfo &info = factory.info();
    auto engine = factory.create(config);
    if (!engine.ok())
        return engine.status();
    auto slot = std::make_shared<EngineSlot>(info, std::move(engine).value());
    const Capabilities &can = slot->capabilities();
    if (can.remote && !can.notifications)
        return Status::error(NIXL_ERR_BACKEND, "it reaches other agents but has no notifications");
    if (can.remote) {
        const auto connection = slot->impl().connectionInfo();
        if (!connection.ok())
            return connection.status().withContext("it has no connection information");
    }
    return slot;
}

/// Whether the machine lacks something, rather than the program being wrong.
bool
cannotStartHere(const Status &status) {
    return status.code() == NIXL_ERR_BACKEND || status.code() == NIXL_ERR_NOT_FOUND;
}

} // namespace

Status
BackendTable::checkNew(const EngineInfo &info) const {
    for (const BackendPtr &backend : all()) {
        if (backend->type() == info.name)
            return Status::error(NIXL_ERR_INVALID_PARAM, "the agent has a backend ", info.name, " already");
        const auto other = registry_->find(backend->type());
        if (!info.exclusiveGroup.empty() && other.ok() &&
            other.value()->info().exclusiveGroup == info.exclusiveGroup)
            return Status::error(NIXL_ERR_NOT_ALLOWED, info.name, " and ", backend->type(),
                                 " cannot be in one agent");
    }
    return {};
}

/// The engine of a factory: the one that the agent has, or a new one.
Result<EnginePtr>
BackendTable::obtain(const EngineFactory &factory, const EngineConfig &config) {
    if (EnginePtr known = findEngine(engines(), factory.info().name))
        return known;
    auto engine = start(factory, config);
    if (engine.ok()) {
        WriteLock lock(mutex_);
        engines_.push_back(engine.value());
    }
    return engine;
}

/// The engine that joins. If there is none, the reason is kept for explain: nobody asked for it by name.
Result<EnginePtr>
BackendTable::join(const EngineConfig &config) {
    const auto factory = registry_->joining();
    if (!factory)
        return Status::error(NIXL_ERR_NOT_FOUND, "no engine serves this host alone");
    EngineConfig own = config;
    own.params.clear(); // they are for the network engine
    auto engine = obtain(*factory, own);
    WriteLock lock(mutex_);
    refusal_.reset();
    if (engine.ok())
        return engine;
    refusal_ = engine.status();
    const Status why = engine.status().withContext(factory->info().name);
    NIXL_LOG(kInfo, "agent '", config.agentName, "': ", why.message());
    return why;
}

Result<BackendPtr>
BackendTable::create(const std::string &type, const EngineConfig &config) {
    LockGuard creating(creating_);
    auto factory = registry_->find(type);
    if (!factory.ok())
        return factory.status();
    const EngineInfo &info = factory.value()->info();
    NIXL_RETURN_IF_ERROR(checkNew(info));
    auto engine = obtain(*factory.value(), config);
    if (info.network && (engine.ok() || cannotStartHere(engine.status()))) {
        auto joined = join(config);
        if (!engine.ok() && !joined.ok())
            return Status::error(engine.status().code(), type, ": ", engine.status().message(),
                                 "; nothing stands in for it: ", joined.status().message());
        if (!engine.ok()) {
            NIXL_LOG(kWarn, "agent '", config.agentName, "': ", type,
                     " cannot start: ", engine.status().message(), "; ", joined.value()->name(),
                     " stands in for it and reaches agents of this host only");
            engine = std::move(joined);
        }
    }
    if (!engine.ok())
        return engine.status().withContext(type);
    auto backend = std::make_shared<nixlBackendH>(info, config.params, std::move(engine).value());
    WriteLock lock(mutex_);
    backends_.push_back(backend);
    return backend;
}

BackendList
BackendTable::all() const {
    ReadLock lock(mutex_);
    return backends_;
}

EngineList
BackendTable::engines() const {
    ReadLock lock(mutex_);
    return engines_;
}

ServiceList
BackendTable::serve(const BackendList &backends) const {
    const EnginePtr joined = findJoined(engines());
    const auto own = std::find_if(backends.begin(), backends.end(), [&](const BackendPtr &backend) {
        return joined && backend->own() == joined.get();
    });
    ServiceList services;
    for (const BackendPtr &backend : backends) {
        if (joined && backend->network() && !nixl::find(services, joined.get()))
            services.push_back({joined, own != backends.end() ? *own : backend});
        if (backend->own() && !nixl::find(services, backend->own()))
            services.push_back({backend->engine(), backend});
    }
    return services;
}

ServiceList
BackendTable::services() const {
    return serve(all());
}

Result<ServiceList>
BackendTable::services(const nixl_opt_args_t *args) const {
    auto backends = named(args);
    if (!backends.ok())
        return backends.status();
    return serve(backends.value());
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

std::optional<nixlPathOption>
BackendTable::missing() const {
    const auto factory = registry_->joining();
    ReadLock lock(mutex_);
    if (!factory || !refusal_ || findJoined(engines_))
        return std::nullopt;
    for (const BackendPtr &backend : backends_) {
        if (backend->network())
            return nixlPathOption{backend->type(), factory->info().name, false, refusal_->message()};
    }
    return std::nullopt;
}

void
BackendTable::clear() {
    BackendList backends; // declared first: destroyed after the lock is released
    EngineList engines;
    WriteLock lock(mutex_);
    backends.swap(backends_);
    engines.swap(engines_);
}

} // namespace nixl
