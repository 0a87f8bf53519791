#include "engines/south_bound/scripted_plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "engines/south_bound/plugin.h"

namespace nixl {

namespace {

ScriptedPlugin *current = nullptr;

struct ScriptedMD : nixlBackendMD {
    explicit ScriptedMD(bool isPrivate) : nixlBackendMD(isPrivate) {
        ++current->liveMetadata;
    }

    ~ScriptedMD() override {
        --current->liveMetadata;
    }
};

struct ScriptedHandle : nixlBackendReqH {
    ScriptedHandle(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote,
                   const std::string &agent, const nixl_opt_b_args_t *args)
        : places{&op, &local, &remote, &agent, args} {
        ++current->liveHandles;
    }

    ~ScriptedHandle() override {
        --current->liveHandles;
    }

    const std::vector<const void *> places;
};

class ScriptedEngine : public nixlBackendEngine {
public:
    explicit ScriptedEngine(const nixlBackendInitParams *params) : nixlBackendEngine(params) {
        ++current->liveEngines;
        current->initParams = *params;
        current->customParams = getCustomParams();
        initErr = current->initErr;
    }

    ~ScriptedEngine() override {
        --current->liveEngines;
    }

    bool
    supportsRemote() const override {
        return current->remote;
    }

    bool
    supportsLocal() const override {
        return current->local;
    }

    bool
    supportsNotif() const override {
        return current->notif;
    }

    nixl_mem_list_t
    getSupportedMems() const override {
        return {DRAM_SEG};
    }

    nixl_status_t
    registerMem(const nixlBlobDesc &, const nixl_mem_t &, nixlBackendMD *&out) override {
        const nixl_status_t status = call("registerMem");
        if (status == NIXL_SUCCESS)
            out = new ScriptedMD(true);
        return status;
    }

    nixl_status_t
    deregisterMem(nixlBackendMD *meta) override {
        return end("deregisterMem", meta);
    }

    nixl_status_t
    connect(const std::string &agent) override {
        return call("connect", agent);
    }

    nixl_status_t
    disconnect(const std::string &agent) override {
        return call("disconnect", agent);
    }

    nixl_status_t
    unloadMD(nixlBackendMD *meta) override {
        return end("unloadMD", meta);
    }

    nixl_status_t
    getPublicData(const nixlBackendMD *, std::string &str) const override {
        str = "public";
        return call("getPublicData");
    }

    nixl_status_t
    getConnInfo(std::string &str) const override {
        str = "info";
        return call("getConnInfo");
    }

    nixl_status_t
    loadRemoteConnInfo(const std::string &agent, const std::string &info) override {
        return call("loadRemoteConnInfo", agent + "=" + info);
    }

    nixl_status_t
    loadRemoteMD(const nixlBlobDesc &input, const nixl_mem_t &, const std::string &agent,
                 nixlBackendMD *&output) override {
        return load(call("loadRemoteMD", agent + "=" + input.metaInfo), output);
    }

    nixl_status_t
    loadLocalMD(nixlBackendMD *, nixlBackendMD *&output) override {
        return load(call("loadLocalMD"), output);
    }

    nixl_status_t
    prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote,
             const std::string &agent, nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *args) const override {
        const nixl_status_t status = call("prepXfer");
        if (status == NIXL_SUCCESS)
            handle = new ScriptedHandle(op, local, remote, agent, args);
        return status;
    }

    nixl_status_t
    postXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote,
             const std::string &agent, nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *args) const override {
        const std::vector<const void *> places{&op, &local, &remote, &agent, args};
        current->moved += static_cast<ScriptedHandle *>(handle)->places != places;
        current->lastArgs = *args;
        current->lastLocal.assign(local.begin(), local.end());
        current->lastRemote.assign(remote.begin(), remote.end());
        current->lastAgent = agent;
        const_cast<ScriptedEngine *>(this)->addTelemetryEvent(nixl_telemetry_event_type_t::AGENT_XFER_TIME,
                                                              5);
        return call("postXfer");
    }

    nixl_status_t
    checkXfer(nixlBackendReqH *) const override {
        return call("checkXfer");
    }

    nixl_status_t
    releaseReqH(nixlBackendReqH *handle) const override {
        const nixl_status_t status = call("releaseReqH");
        if (status == NIXL_SUCCESS)
            delete handle;
        return status;
    }

    nixl_status_t
    estimateXferCost(const nixl_xfer_op_t &, const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &,
                     const std::string &, nixlBackendReqH *const &handle, std::chrono::microseconds &duration,
                     std::chrono::microseconds &margin, nixl_cost_t &,
                     const nixl_opt_args_t *) const override {
        if (handle == nullptr)
            return NIXL_ERR_INVALID_PARAM;
        duration = std::chrono::microseconds(local[0].len);
        margin = std::chrono::microseconds(7);
        return call("estimateXferCost");
    }

    nixl_status_t
    queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp) const override {
        resp.assign(static_cast<std::size_t>(descs.descCount()), nixl_b_params_t{{"size", "1"}});
        return call("queryMem");
    }

    nixl_status_t
    getNotifs(notif_list_t &list) override {
        if (!list.empty())
            return NIXL_ERR_INVALID_PARAM;
        list.emplace_back("peer", "hello");
        return call("getNotifs");
    }

    nixl_status_t
    genNotif(const std::string &agent, const std::string &message) const override {
        return call("genNotif", agent + "=" + message);
    }

private:
    /// Notes the call and whether another one is under way in this engine.
    nixl_status_t
    call(const char *function, const std::string &detail = "") const {
        if (inside_.exchange(true))
            ++current->overlaps;
        std::this_thread::yield();
        inside_ = false;
        return current->enter(function, detail);
    }

    nixl_status_t
    end(const char *function, nixlBackendMD *meta) {
        const nixl_status_t status = call(function);
        if (status == NIXL_SUCCESS)
            delete meta;
        return status;
    }

    nixl_status_t
    load(nixl_status_t status, nixlBackendMD *&output) {
        if (status == NIXL_SUCCESS)
            output = new ScriptedMD(false);
        return status;
    }

    mutable std::atomic<bool> inside_{false};
};

} // namespace

ScriptedPlugin::ScriptedPlugin() {
    current = this;
}

ScriptedPlugin::~ScriptedPlugin() {
    EXPECT_EQ(liveEngines, 0);
    EXPECT_EQ(liveHandles, 0);
    EXPECT_EQ(liveMetadata, 0);
    EXPECT_EQ(overlaps, 0);
    EXPECT_EQ(moved, 0);
}

void
ScriptedPlugin::answer(const std::string &function, nixl_status_t status) {
    LockGuard lock(mutex_);
    answers_[function] = status;
    throws_[function] = false;
}

void
ScriptedPlugin::throwIn(const std::string &function) {
    LockGuard lock(mutex_);
    throws_[function] = true;
}

std::vector<std::string>
ScriptedPlugin::calls() const {
    LockGuard lock(mutex_);
    return calls_;
}

std::size_t
ScriptedPlugin::count(const std::string &function) const {
    LockGuard lock(mutex_);
    return static_cast<std::size_t>(std::count(calls_.begin(), calls_.end(), function));
}

void
ScriptedPlugin::clearCalls() {
    LockGuard lock(mutex_);
    calls_.clear();
}

nixl_status_t
ScriptedPlugin::enter(const std::string &function, const std::string &detail) {
    LockGuard lock(mutex_);
    calls_.push_back(detail.empty() ? function : function + " " + detail);
    if (throws_[function])
        throw std::runtime_error("scripted");
    const auto found = answers_.find(function);
    return found == answers_.end() ? NIXL_SUCCESS : found->second;
}

nixlBackendPlugin
ScriptedPlugin::description() const {
    return {NIXL_PLUGIN_API_VERSION,
            [](const nixlBackendInitParams *params) -> nixlBackendEngine * {
                current->enter("create_engine");
                return current->nullEngine ? nullptr : new ScriptedEngine(params);
            },
            [](nixlBackendEngine *engine) { delete engine; },
            [] { return "SCRIPTED"; },
            [] { return "2.1"; },
            [] { return nixl_b_params_t{{"key", "default"}}; },
            [] { return nixl_mem_list_t{DRAM_SEG}; }};
}

Result<std::unique_ptr<Engine>>
ScriptedPlugin::tryEngine(const EngineConfig &config) {
    static nixlBackendPlugin plugin;
    plugin = description();
    const Result<std::shared_ptr<EngineFactory>> factory =
        south_bound::makeFactory(nullptr, &plugin, "the plugin");
    if (!factory.ok())
        return factory.status();
    return factory.value()->create(config);
}

std::unique_ptr<Engine>
ScriptedPlugin::makeEngine() {
    EngineConfig config;
    config.agentName = "me";
    config.telemetry = true;
    Result<std::unique_ptr<Engine>> engine = tryEngine(config);
    if (!engine.ok())
        throw std::runtime_error(engine.status().message());
    clearCalls();
    return std::move(engine).value();
}

} // namespace nixl
