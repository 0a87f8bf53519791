// The headers for plugin authors: log macros, times, the engine's base class.
#include <gmock/gmock.h>

#include <cerrno>
#include <stdexcept>

#include "backend/backend_plugin.h"
#include "support/log_capture.h"
#include "utils/common/nixl_log.h"
#include "utils/common/nixl_time.h"

namespace {

using nixl::LogLevel;
using nixl::test::LogCapture;

void
logFromHere() {
    NIXL_WARN_FUNC << "inside";
}

class BareEngine : public nixlBackendEngine {
public:
    using nixlBackendEngine::addTelemetryEvent;
    using nixlBackendEngine::getInitParam;
    using nixlBackendEngine::nixlBackendEngine;
    using nixlBackendEngine::setInitParam;

    bool
    supportsRemote() const override {
        return false;
    }

    bool
    supportsLocal() const override {
        return false;
    }

    bool
    supportsNotif() const override {
        return false;
    }

    nixl_mem_list_t
    getSupportedMems() const override {
        return {};
    }

    nixl_status_t
    registerMem(const nixlBlobDesc &, const nixl_mem_t &, nixlBackendMD *&) override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    deregisterMem(nixlBackendMD *) override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    connect(const std::string &) override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    disconnect(const std::string &) override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    unloadMD(nixlBackendMD *) override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    prepXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
             const std::string &, nixlBackendReqH *&, const nixl_opt_b_args_t *) const override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
             const std::string &, nixlBackendReqH *&, const nixl_opt_b_args_t *) const override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    checkXfer(nixlBackendReqH *) const override {
        return NIXL_SUCCESS;
    }

    nixl_status_t
    releaseReqH(nixlBackendReqH *) const override {
        return NIXL_SUCCESS;
    }
};

class ThrowingEngine : public BareEngine {
public:
    explicit ThrowingEngine(const nixlBackendInitParams *params) : BareEngine(params) {
        throw std::runtime_error("no such device");
    }
};

class MadeEngine : public BareEngine {
public:
    explicit MadeEngine(const nixlBackendInitParams *params) : BareEngine(params) {}

    static std::unique_ptr<MadeEngine>
    create(const nixlBackendInitParams &params) {
        auto engine = std::make_unique<MadeEngine>(&params);
        engine->setInitParam("made", "by create");
        return engine;
    }
};

nixlBackendInitParams
someParams(nixl_b_params_t *custom) {
    nixlBackendInitParams params{};
    params.localAgent = "me";
    params.type = "BARE";
    params.customParams = custom;
    params.enableTelemetry_ = true;
    return params;
}

} // namespace

TEST(PluginLog, LinesGoToTheLogOfTheLibrary) {
    LogCapture log;
    NIXL_ERROR << "number " << 7;
    NIXL_TRACE << "quiet";
    logFromHere();
    errno = ENOENT;
    NIXL_PERROR << "open failed";
    EXPECT_EQ(log.count("number 7", LogLevel::kError), 1u);
    EXPECT_EQ(log.count("quiet"), 1u);
    EXPECT_EQ(log.count("quiet", LogLevel::kDebug), 0u);
    EXPECT_EQ(log.count("logFromHere: inside", LogLevel::kWarn), 1u);
    EXPECT_EQ(log.count("open failed: No such file or directory [2]"), 1u);
}

TEST(PluginLog, NothingIsEvaluatedBelowTheLevel) {
    LogCapture log;
    nixl::setLogLevel(LogLevel::kWarn);
    int evaluated = 0;
    NIXL_INFO << ++evaluated;
    if (evaluated == 0)
        NIXL_DEBUG << ++evaluated;
    else
        NIXL_WARN << "the macros fit an if without braces";
    EXPECT_EQ(evaluated, 0);
    EXPECT_TRUE(log.lines().empty());
}

TEST(PluginLog, AssertionsEndTheProcessWithTheirText) {
    NIXL_ASSERT_ALWAYS(true) << "not said";
    EXPECT_DEATH(NIXL_ASSERT_ALWAYS(1 == 2) << "because " << 5, "failed: 1 == 2 because 5");
    EXPECT_DEATH(NIXL_FATAL << "over", "over");
}

TEST(PluginTime, ReadingsAgreeAndGrow) {
    const nixlTime::ns_t ns = nixlTime::getNs();
    const nixlTime::us_t us = nixlTime::getUs();
    const nixlTime::ms_t ms = nixlTime::getMs();
    EXPECT_GE(us, ns / 1000);
    EXPECT_GE(ms, us / 1000);
    EXPECT_LT(ms - ns / 1000000, 10000u);
    EXPECT_GE(nixlTime::getSec(), ms / 1000);
}

TEST(PluginEngineBase, KeepsParametersAndEvents) {
    nixl_b_params_t custom{{"a", "1"}};
    const nixlBackendInitParams params = someParams(&custom);
    BareEngine engine(&params);
    EXPECT_EQ(engine.getType(), "BARE");
    EXPECT_FALSE(engine.getInitErr());
    std::string value = "untouched";
    EXPECT_EQ(engine.getInitParam("b", value), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(value, "untouched");
    EXPECT_EQ(engine.setInitParam("a", "2"), NIXL_ERR_NOT_ALLOWED);
    EXPECT_EQ(engine.setInitParam("b", "2"), NIXL_SUCCESS);
    EXPECT_EQ(engine.getInitParam("b", value), NIXL_SUCCESS);
    EXPECT_EQ(value, "2");
    EXPECT_EQ(custom.size(), 1u) << "the map of the caller stays as it is";
    for (std::uint64_t i = 0; i < 1500; ++i)
        engine.addTelemetryEvent(nixl_telemetry_event_type_t::AGENT_TX_BYTES, i);
    const std::vector<nixlTelemetryEvent> events = engine.getTelemetryEvents();
    ASSERT_EQ(events.size(), 1000u);
    EXPECT_EQ(events[999].value_, 999u);
    EXPECT_TRUE(engine.getTelemetryEvents().empty());
}

TEST(PluginEngineBase, DefaultsSayWhatAnEngineDoesNotHave) {
    const nixlBackendInitParams params = someParams(nullptr);
    BareEngine engine(&params);
    std::string text;
    nixlBackendMD *md = nullptr;
    notif_list_t notifs;
    std::vector<nixl_query_resp_t> answers;
    nixlMemViewH view = nullptr;
    EXPECT_EQ(engine.getConnInfo(text), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.getPublicData(nullptr, text), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.loadRemoteConnInfo("a", "b"), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.loadRemoteMD(nixlBlobDesc(0, 0, 0), DRAM_SEG, "a", md), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.loadLocalMD(nullptr, md), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.getNotifs(notifs), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.genNotif("a", "b"), NIXL_ERR_BACKEND);
    EXPECT_EQ(engine.queryMem(nixl_reg_dlist_t(FILE_SEG), answers), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_EQ(engine.prepMemView(nixl_meta_dlist_t(DRAM_SEG), view), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_EQ(engine.prepMemView(nixl_remote_meta_dlist_t(DRAM_SEG), view), NIXL_ERR_NOT_SUPPORTED);
    engine.releaseMemView(view);
}

TEST(PluginLists, AreWholeLists) {
    nixlBackendMD md(true);
    nixl_meta_dlist_t list(DRAM_SEG);
    list.addDesc(nixlMetaDesc(nixlBasicDesc(0x10, 20, 3), &md));
    list.emplace(0x40, 50, 6);
    EXPECT_EQ(list[0].metadataP, &md);
    EXPECT_EQ(list[1].metadataP, nullptr);
    EXPECT_EQ(list.getIndex(nixlBasicDesc(0x40, 50, 6)), 1);
    EXPECT_EQ(list.trim()[0], nixlBasicDesc(0x10, 20, 3));
    EXPECT_THAT(list.to_string(), ::testing::HasSubstr("0x40"));
    EXPECT_EQ(list.serialize(nullptr), NIXL_ERR_INVALID_PARAM);
    EXPECT_THROW(list.remDesc(2), std::out_of_range);
    nixl_remote_meta_dlist_t remote(DRAM_SEG);
    remote.addDesc(nixlRemoteMetaDesc("peer"));
    EXPECT_FALSE(remote == nixl_remote_meta_dlist_t(DRAM_SEG));
    EXPECT_EQ(remote[0].remoteAgent, "peer");
}

TEST(PluginCreator, DescribesTheEngine) {
    const nixlBackendPlugin *plugin = nixlBackendPluginCreator<BareEngine>::create(
        NIXL_PLUGIN_API_VERSION, "BARE", "3.0", {{"a", "1"}}, {DRAM_SEG, FILE_SEG});
    EXPECT_EQ(plugin->api_version, 1);
    EXPECT_STREQ(plugin->get_plugin_name(), "BARE");
    EXPECT_STREQ(plugin->get_plugin_version(), "3.0");
    EXPECT_EQ(plugin->get_backend_options().at("a"), "1");
    EXPECT_EQ(plugin->get_backend_mems().size(), 2u);
    const nixlBackendInitParams params = someParams(nullptr);
    nixlBackendEngine *engine = plugin->create_engine(&params);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->getType(), "BARE");
    plugin->destroy_engine(engine);
}

TEST(PluginCreator, AnExceptionIsLoggedAndMeansNoEngine) {
    LogCapture log;
    const nixlBackendPlugin *plugin =
        nixlBackendPluginCreator<ThrowingEngine>::create(NIXL_PLUGIN_API_VERSION, "THROWING", "1");
    const nixlBackendInitParams params = someParams(nullptr);
    EXPECT_EQ(plugin->create_engine(&params), nullptr);
    EXPECT_EQ(log.count("no such device", LogLevel::kError), 1u);
}

TEST(PluginCreator, EnginesWithAStaticCreateAreMadeByIt) {
    const nixlBackendPlugin *plugin =
        nixlBackendPluginCreator<MadeEngine>::create(NIXL_PLUGIN_API_VERSION, "MADE", "1");
    const nixlBackendInitParams params = someParams(nullptr);
    nixlBackendEngine *engine = plugin->create_engine(&params);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->getCustomParams().at("made"), "by create");
    plugin->destroy_engine(engine);
}
