// The backends of an agent and the engines that serve them, in the order of their creation, which is the
// order of preference.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/backend.h"
#include "engine/registry.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// Decides which engines serve which backend, and in whose name. Thread-safe. Backends and engines are added,
/// never removed.
class BackendTable {
public:
    explicit BackendTable(std::shared_ptr<EngineRegistry> registry) : registry_(std::move(registry)) {}

    /// Creates a backend. With the first network backend comes the engine that joins, if there is one, unless
    /// it is there already; it stands in if the network engine itself cannot start here and the program's
    /// settings leave it a lane. The process warns of that once for each backend and reason.
    /// NIXL_ERR_INVALID_PARAM: exists already; NIXL_ERR_NOT_FOUND: unknown or not loadable;
    /// NIXL_ERR_NOT_ALLOWED: excluded by another engine; NIXL_ERR_BACKEND: it cannot start.
    Result<BackendPtr> create(const std::string &type, const EngineConfig &config);

    /// All backends.
    BackendList all() const;

    /// All engines.
    EngineList engines() const;

    /// The engines that serve all backends. The engine that joins comes before the first network engine; it
    /// works in the name of its own backend if it has one, else of the network backend that rules out the
    /// fewest lanes, of equal ones the first.
    ServiceList services() const;

    /// The engines that serve the backends that `args` names, in their order; services() if `args` is null or
    /// names none. NIXL_ERR_INVALID_PARAM, naming the position, for a handle that is not of this agent.
    Result<ServiceList> services(const nixl_opt_args_t *args) const;

    /// The backends that `args` names; see services().
    Result<BackendList> named(const nixl_opt_args_t *args) const;

    /// The backend behind a handle, nullptr if it is not of this agent.
    BackendPtr find(const nixlBackendH *handle) const;

    /// Engines of the network backends that could not start: their own ones, and the one that joins.
    std::vector<MissingEngine> missing() const;

    /// Why engines that would take memory of a kind elsewhere do not here, each after ": " or "; "; "" if
    /// there are none.
    std::string whyRefused(nixl_mem_t memory) const;

    EngineRegistry &
    registry() const {
        return *registry_;
    }

    /// Somebody waits from now on: tells the engines, also those that come later (Engine::watch()), and again
    /// before every sleep. True if each tells of everything that happens.
    bool watch();

    /// Drops the table's references.
    void clear();

private:
    Status checkNew(const EngineInfo &info) const;
    Result<EnginePtr> obtain(const EngineFactory &factory, const EngineConfig &config);
    Result<EnginePtr> join(const EngineConfig &config);
    Result<EnginePtr> standIn(const EngineInfo &info, const EngineConfig &config,
                              const HostLaneLimits &limits, const Status &refusal);
    ServiceList serve(const BackendList &backends) const;

    const std::shared_ptr<EngineRegistry> registry_;
    Mutex creating_; ///< one creation at a time, so that a type is created once
    mutable SharedMutex mutex_;
    BackendList backends_ NIXL_GUARDED_BY(mutex_);
    EngineList engines_ NIXL_GUARDED_BY(mutex_);
    bool watched_ NIXL_GUARDED_BY(mutex_) = false;
    std::optional<Status> refusal_ NIXL_GUARDED_BY(mutex_); ///< of the engine that joins
};

} // namespace nixl
