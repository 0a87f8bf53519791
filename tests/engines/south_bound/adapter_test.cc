// What a plugin says about itself, and how its engine is made.
#include <gmock/gmock.h>

#include <limits>

#include "engines/south_bound/plugin.h"
#include "engines/south_bound/scripted_plugin.h"
#include "support/expect_log.h"

namespace nixl {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class SouthBoundAdapter : public ::testing::Test {
protected:
    Result<std::shared_ptr<EngineFactory>>
    open(const nixlBackendPlugin &description) {
        description_ = description;
        return south_bound::makeFactory(nullptr, &description_, "libplugin_SCRIPTED.so");
    }

    Status
    createStatus() {
        EngineConfig config;
        config.agentName = "me";
        return plugin_.tryEngine(config).status();
    }

    test::ExpectLog log_;
    ScriptedPlugin plugin_;
    nixlBackendPlugin description_{};
};

} // namespace

TEST_F(SouthBoundAdapter, TellsWhatThePluginSays) {
    const auto factory = open(plugin_.description());
    ASSERT_TRUE(factory.ok()) << factory.status().message();
    const EngineInfo &info = factory.value()->info();
    EXPECT_EQ(info.name, "SCRIPTED");
    EXPECT_EQ(info.version, "2.1");
    EXPECT_THAT(info.memories, ElementsAre(DRAM_SEG));
    EXPECT_THAT(info.options, ElementsAre(Pair("key", "default")));
}

TEST_F(SouthBoundAdapter, ToleratesFunctionsThatAreMissingForGoodReason) {
    nixlBackendPlugin description = plugin_.description();
    description.get_backend_mems = nullptr;
    description.get_backend_options = nullptr;
    description.get_plugin_version = nullptr;
    const auto factory = open(description);
    ASSERT_TRUE(factory.ok()) << factory.status().message();
    EXPECT_TRUE(factory.value()->info().memories.empty());
    const auto engine = factory.value()->create({});
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_THAT(engine.value()->capabilities().memories, ElementsAre(DRAM_SEG));
}

TEST_F(SouthBoundAdapter, RefusesADescriptionThatCannotBeUsed) {
    const auto refusal = [&](auto change) {
        nixlBackendPlugin description = plugin_.description();
        change(description);
        const auto factory = open(description);
        EXPECT_FALSE(factory.ok());
        EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
        return factory.status().message();
    };
    EXPECT_THAT(refusal([](auto &d) { d.api_version = 2; }), HasSubstr("version 2"));
    EXPECT_THAT(refusal([](auto &d) { d.create_engine = nullptr; }), HasSubstr("create_engine"));
    EXPECT_THAT(refusal([](auto &d) { d.destroy_engine = nullptr; }), HasSubstr("destroy_engine"));
    EXPECT_THAT(refusal([](auto &d) { d.get_plugin_name = nullptr; }), HasSubstr("get_plugin_name"));
    EXPECT_THAT(refusal([](auto &d) { d.get_plugin_name = []() -> const char * { return nullptr; }; }),
                HasSubstr("no name"));
    EXPECT_THAT(refusal([](auto &d) {
                    d.get_backend_options = []() -> nixl_b_params_t { throw std::runtime_error("scripted"); };
                }),
                HasSubstr("scripted"));
}

TEST_F(SouthBoundAdapter, TellsTheEngineWhatTheProgramAskedFor) {
    EngineConfig config;
    config.agentName = "me";
    config.params = {{"key", "value"}, {"unknown", "kept"}};
    config.progressThread = true;
    config.progressDelay = std::chrono::microseconds(42);
    config.syncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_RW;
    config.telemetry = true;
    const auto engine = plugin_.tryEngine(config);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_EQ(plugin_.initParams.localAgent, "me");
    EXPECT_EQ(plugin_.initParams.type, "SCRIPTED");
    EXPECT_EQ(plugin_.customParams, config.params);
    EXPECT_EQ(*plugin_.initParams.customParams, config.params) << "must live as long as the engine";
    EXPECT_TRUE(plugin_.initParams.enableProgTh);
    EXPECT_EQ(plugin_.initParams.pthrDelay, 42u);
    EXPECT_EQ(plugin_.initParams.syncMode, nixl_thread_sync_t::NIXL_THREAD_SYNC_RW);
    EXPECT_TRUE(plugin_.initParams.enableTelemetry_);
    EXPECT_THAT(plugin_.calls(), ElementsAre("create_engine", "getConnInfo", "connect me"));
}

TEST_F(SouthBoundAdapter, RefusesEnginesThatCannotStart) {
    plugin_.nullEngine = true;
    EXPECT_EQ(createStatus().code(), NIXL_ERR_BACKEND);
    plugin_.nullEngine = false;

    plugin_.throwIn("create_engine");
    EXPECT_EQ(createStatus().code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(createStatus().message(), HasSubstr("scripted"));
    plugin_.answer("create_engine", NIXL_SUCCESS);

    plugin_.initErr = true;
    EXPECT_EQ(createStatus().code(), NIXL_ERR_BACKEND);
    plugin_.initErr = false;

    plugin_.notif = false;
    EXPECT_EQ(createStatus().code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(createStatus().message(), HasSubstr("notifications"));
    plugin_.notif = true;

    plugin_.answer("getConnInfo", NIXL_ERR_NOT_ALLOWED);
    EXPECT_EQ(createStatus().code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_THAT(createStatus().message(), HasSubstr("getConnInfo"));
    plugin_.answer("getConnInfo", NIXL_SUCCESS);

    plugin_.answer("connect", NIXL_ERR_UNKNOWN);
    EXPECT_EQ(createStatus().code(), NIXL_ERR_UNKNOWN);
    plugin_.local = false;
    EXPECT_TRUE(createStatus().ok()) << "an engine without local transfers is not connected to itself";
    EXPECT_EQ(plugin_.liveEngines, 0);
}

TEST_F(SouthBoundAdapter, WhatAPluginAnswersOrThrowsBecomesAStatus) {
    const std::unique_ptr<Engine> engine = plugin_.makeEngine();
    const nixlBlobDesc desc(0x1000, 64, 0);
    plugin_.answer("registerMem", NIXL_ERR_NOT_ALLOWED);
    Status status = engine->registerRegion(desc, DRAM_SEG).status();
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_THAT(status.message(), HasSubstr("plugin SCRIPTED: registerMem answered NIXL_ERR_NOT_ALLOWED"));
    plugin_.answer("registerMem", NIXL_IN_PROG);
    EXPECT_EQ(engine->registerRegion(desc, DRAM_SEG).status().code(), NIXL_ERR_BACKEND);
    plugin_.answer("registerMem", static_cast<nixl_status_t>(3));
    status = engine->registerRegion(desc, DRAM_SEG).status();
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(status.message(), HasSubstr("no status"));
    plugin_.throwIn("registerMem");
    status = engine->registerRegion(desc, DRAM_SEG).status();
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(status.message(), HasSubstr("threw: scripted"));
    EXPECT_EQ(engine->registerRegion(desc, VRAM_SEG).status().code(), NIXL_ERR_NOT_SUPPORTED);
}

TEST_F(SouthBoundAdapter, PassesQueriesAndMessages) {
    const std::unique_ptr<Engine> engine = plugin_.makeEngine();
    nixl_reg_dlist_t descs(FILE_SEG);
    descs.addDesc(nixlBlobDesc(0, 0, 1, "a"));
    descs.addDesc(nixlBlobDesc(0, 0, 2, "b"));
    const auto answers = engine->queryMemory(descs);
    ASSERT_TRUE(answers.ok());
    EXPECT_EQ(answers.value().size(), 2u);
    EXPECT_TRUE(engine->notify(nullptr, "to myself").ok());
    EXPECT_THAT(plugin_.calls(), Contains("genNotif me=to myself"));
    std::vector<Notification> taken;
    plugin_.answer("getNotifs", NIXL_ERR_BACKEND);
    EXPECT_EQ(engine->takeNotifications(taken).code(), NIXL_ERR_BACKEND);
    ASSERT_EQ(taken.size(), 1u) << "what arrived before an error is kept";
    EXPECT_EQ(taken[0].agent, "peer");
    EXPECT_EQ(taken[0].message, "hello");
}

} // namespace nixl
