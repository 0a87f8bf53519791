// The engines of an agent, in the order of their creation, which is the order of preference.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/backend.h"
#include "engine/registry.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// Thread-safe. Engines are added, never removed.
class BackendTable {
public:
    explicit BackendTable(std::shared_ptr<EngineRegistry> registry) : registry_(std::move(registry)) {}

    /// Creates the engine `type`. NIXL_ERR_INVALID_PARAM: exists already; NIXL_ERR_NOT_FOUND: unknown or not
    /// loadable; NIXL_ERR_NOT_ALLOWED: excluded by another engine; NIXL_ERR_BACKEND: it cannot start.
    Result<BackendPtr> create(const std::string &type, const EngineConfig &config);

    /// All engines.
    BackendList all() const;

    /// The engines behind these handles, in their order; all engines if `args` is null or names none.
    /// NIXL_ERR_INVALID_PARAM, naming the position, for a handle that is not of this agent.
    Result<BackendList> named(const nixl_opt_args_t *args) const;

    /// The engine behind a handle, nullptr if it is not of this agent.
    BackendPtr find(const nixlBackendH *handle) const;

    EngineRegistry &
    registry() const {
        return *registry_;
    }

    /// Drops the table's references.
    void clear();

private:
    const std::shared_ptr<EngineRegistry> registry_;
    Mutex creating_; ///< one creation at a time, so that a type is created once
    mutable SharedMutex mutex_;
    BackendList backends_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
