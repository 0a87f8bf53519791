#include "agent/backend_table.h"

#include <algorithm>
#include <set>
#include <utility>

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

/// Whether this process hears for the first time that the engine of a backend cannot start for this reason.
bool
isNews(const std::string &type, const std::string &reason) {
    static Mutex mutex;
    static auto *known = new std::set<std::pair<std::string, std::string>>; // outlives other statics
    LockGuard lock(mutex);
    return known->emplace(type, reason).second;
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
    if (!engine.ok())
        return engine;
    bool watched = false;
    {
        WriteLock lock(mutex_);
        engines_.push_back(engine.value());
        watched = watched_;
    }
    if (watched)
        (void)engine.value()->impl().watch();
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

/// The engine that joins, for a network backend whose own engine does not start.
Result<EnginePtr>
BackendTable::standIn(const EngineInfo &info, const EngineConfig &config, const HostLaneLimits &limits,
                      const Status &refusal) {
    const auto nothing = [&](nixl_status_t code, const auto &...why) {
        return Status::error(code, info.name, ": ", refusal.message(),
                             "; nothing stands in for it: ", why...);
    };
    const auto factory = registry_->joining();
    if (const std::string *limit = factory ? limits.ofAll(factory->info().memories) : nullptr)
        return nothing(NIXL_ERR_BACKEND, factory->info().name, " may not: ", *limit);
    auto joined = join(config);
    if (!joined.ok())
        return nothing(refusal.code(), joined.status().message());
    const std::string *limit = limits.of(HostLane::kHostMemory);
    const std::string what =
        concat("agent '", config.agentName, "': ", info.name, " cannot start: ", refusal.message(), "; ",
               joined.value()->name(), " stands in for it and reaches agents of this ",
               limit ? "process only, since " + *limit : "host only");
    if (isNews(info.name, refusal.message()))
        NIXL_LOG(kWarn, what);
    else
        NIXL_LOG(kInfo, what);
    return joined;
}

Result<BackendPtr>
BackendTable::create(const std::string &type, const EngineConfig &config) {
    LockGuard creating(creating_);
    auto factory = registry_->find(type);
    if (!factory.ok())
        return factory.status();
    const EngineInfo &info = factory.value()->info();
    NIXL_RETURN_IF_ERROR(checkNew(info));
    HostLaneLimits limits(*factory.value(), config);
    auto engine = obtain(*factory.value(), config);
    const Status refusal = engine.status();
    if (info.network && engine.ok()) {
        (void)join(config);
    } else if (info.network && cannotStartHere(refusal)) {
        engine = standIn(info, config, limits, refusal);
        if (!engine.ok())
            return engine.status();
    }
    if (!engine.ok())
        return engine.status().withContext(type);
    auto backend = std::make_shared<nixlBackendH>(info, config.params, std::move(engine).value(),
                                                  std::move(limits), refusal.message());
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
    BackendPtr spokenFor; // by the engine that joins
    for (const BackendPtr &backend : backends) {
        if (joined && backend->own() == joined.get()) {
            spokenFor = backend;
            break;
        }
        if (backend->network() && (!spokenFor || backend->limits().count() < spokenFor->limits().count()))
            spokenFor = backend;
    }
    ServiceList services;
    for (const BackendPtr &backend : backends) {
        if (joined && backend->network() && !nixl::find(services, joined.get()))
            services.push_back({joined, spokenFor});
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

std::vector<MissingEngine>
BackendTable::missing() const {
    const auto factory = registry_->joining();
    std::vector<MissingEngine> missing;
    ReadLock lock(mutex_);
    bool joins = factory && refusal_ && !findJoined(engines_);
    for (const BackendPtr &backend : backends_) {
        if (!backend->own())
            missing.push_back({backend->type(), backend->type(), backend->refusal()});
        if (backend->network() && std::exchange(joins, false))
            missing.push_back({factory->info().name, backend->type(), refusal_->message()});
    }
    return missing;
}

std::string
BackendTable::whyRefused(nixl_mem_t memory) const {
    std::string text;
    const auto add = [&](const std::string &name, const std::string &reason) {
        text += concat(text.empty() ? ": " : "; ", name, ": ", reason);
    };
    for (const EnginePtr &engine : engines()) {
        if (const std::string *reason = engine->refusal(memory))
            add(engine->name(), *reason);
    }
    for (const MissingEngine &engine : missing()) {
        const auto factory = registry_->find(engine.name);
        const auto takes = [&](const nixl_mem_list_t &kinds) {
            return std::find(kinds.begin(), kinds.end(), memory) != kinds.end();
        };
        if (factory.ok() && takes(factory.value()->info().memories))
            add(engine.name, engine.reason);
    }
    return text;
}

bool
BackendTable::watch() {
    EngineList engines;
    {
        WriteLock lock(mutex_);
        watched_ = true;
        engines = engines_;
    }
    bool all = true;
    for (const EnginePtr &engine : engines)
        all = engine->impl().watch() && all;
    return all;
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
