// A south-bound plugin whose answers a test writes, and which watches how it is called.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend_plugin.h"
#include "engine/engine.h"
#include "util/mutex.h"

namespace nixl {

/// The script of all engines made from description(). Any thread.
class ScriptedPlugin {
public:
    /// One that starts anew; description() refers to the newest.
    ScriptedPlugin();
    ~ScriptedPlugin();

    /// The answer of a function from now on: "registerMem", "create_engine".
    void answer(const std::string &function, nixl_status_t status);
    /// The function throws std::runtime_error("scripted").
    void throwIn(const std::string &function);

    std::vector<std::string> calls() const;
    std::size_t count(const std::string &function) const;
    void clearCalls();

    bool remote = true;
    bool local = true;
    bool notif = true;
    bool initErr = false;
    bool nullEngine = false;
    std::atomic<int> liveEngines{0};
    std::atomic<int> liveHandles{0};
    std::atomic<int> liveMetadata{0};
    std::atomic<int> overlaps{0};       ///< calls into an engine while another one was under way
    std::atomic<int> moved{0};          ///< lists or arguments that were not where they had been
    nixlBackendInitParams initParams{}; ///< of the last engine
    nixl_b_params_t customParams;
    nixl_opt_b_args_t lastArgs; ///< of the last post
    std::vector<nixlMetaDesc> lastLocal;
    std::vector<nixlMetaDesc> lastRemote;
    std::string lastAgent;

    nixlBackendPlugin description() const;

    /// An engine made through the adapter; the test fails if that fails.
    std::unique_ptr<Engine> makeEngine();
    Result<std::unique_ptr<Engine>> tryEngine(const EngineConfig &config);

    // ---- For the engine ----

    /// Notes the call; throws or answers as scripted.
    nixl_status_t enter(const std::string &function, const std::string &detail = "");

private:
    mutable Mutex mutex_;
    std::map<std::string, nixl_status_t> answers_ NIXL_GUARDED_BY(mutex_);
    std::map<std::string, bool> throws_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::string> calls_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
