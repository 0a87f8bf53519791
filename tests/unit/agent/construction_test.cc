#include "unit/agent/agent_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace nixl {

// The tests bring their engines themselves.
BuiltinEngines
builtinEngines() {
    return {};
}

namespace {

class Construction : public AgentTest {};

TEST_F(Construction, AnEmptyNameIsRefused) {
    useRegistry();
    EXPECT_THROW(nixlAgent("", nixlAgentConfig()), std::invalid_argument);
    try {
        nixlAgent agent("", nixlAgentConfig());
    } catch (const std::invalid_argument &error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("Agent needs a non-empty name"));
    }
}

TEST_F(Construction, TwoMetadataStoresAreRefused) {
    useRegistry();
    setenv("NIXL_ETCD_ENDPOINTS", "http://127.0.0.1:1", 1);
    setenv("NIXL_TCPSTORE_ENDPOINT", "127.0.0.1:1", 1);
    EXPECT_THROW(nixlAgent("a", nixlAgentConfig()), std::runtime_error);
    unsetenv("NIXL_ETCD_ENDPOINTS");
    unsetenv("NIXL_TCPSTORE_ENDPOINT");
}

TEST_F(Construction, ABadSettingIsRefusedByName) {
    useRegistry();
    setenv("NIXL_TELEMETRY_BUFFER_SIZE", "0", 1);
    try {
        nixlAgent agent("a", nixlAgentConfig());
        ADD_FAILURE() << "accepted";
    } catch (const std::runtime_error &error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("NIXL_TELEMETRY_BUFFER_SIZE"));
    }
    unsetenv("NIXL_TELEMETRY_BUFFER_SIZE");
}

TEST_F(Construction, OneNameMayBeUsedTwice) {
    useRegistry();
    nixlAgent first("same", nixlAgentConfig()), second("same", nixlAgentConfig());
}

TEST_F(Construction, PluginsAndTheirParameters) {
    fake->options = {{"key", "default"}};
    fake->memories = {DRAM_SEG, VRAM_SEG};
    makeAgents();
    std::vector<nixl_backend_t> plugins;
    EXPECT_OK(a->getAvailPlugins(plugins));
    EXPECT_THAT(plugins, ::testing::ElementsAre("FAKE"));
    nixl_mem_list_t mems;
    nixl_b_params_t params;
    EXPECT_OK(a->getPluginParams("FAKE", mems, params));
    EXPECT_THAT(mems, ::testing::ElementsAre(DRAM_SEG, VRAM_SEG));
    EXPECT_EQ(params["key"], "default");
    EXPECT_STATUS(a->getPluginParams("fake", mems, params), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("fake"));
    EXPECT_OK(a->getBackendParams(backendsOfA[0], mems, params));
    EXPECT_TRUE(params.empty()) << "it was created without parameters";
    EXPECT_STATUS(a->getBackendParams(nullptr, mems, params), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->getBackendParams(backendsOfB[0], mems, params), NIXL_ERR_INVALID_PARAM)
        << "another agent's";
}

TEST_F(Construction, CreatingBackends) {
    auto second = addEngine("SECOND"), third = addEngine("THIRD");
    second->exclusiveGroup = third->exclusiveGroup = "files";
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig(true));
    nixlBackendH *backend = nullptr, *untouched = nullptr;
    EXPECT_STATUS(agent.createBackend("MISSING", {}, untouched), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(),
                ::testing::AllOf(::testing::HasSubstr("MISSING"), ::testing::HasSubstr("FAKE")));
    EXPECT_EQ(untouched, nullptr);
    EXPECT_OK(agent.createBackend("FAKE", {{"k", "v"}}, backend));
    EXPECT_NE(backend, nullptr);
    const EngineConfig config = fake->configs().at(0);
    EXPECT_EQ(config.agentName, "a");
    EXPECT_EQ(config.params.at("k"), "v");
    EXPECT_TRUE(config.progressThread);
    EXPECT_NE(config.options, nullptr);
    EXPECT_STATUS(agent.createBackend("FAKE", {}, untouched), NIXL_ERR_INVALID_PARAM);
    EXPECT_OK(agent.createBackend("SECOND", {}, backend));
    EXPECT_STATUS(agent.createBackend("THIRD", {}, untouched), NIXL_ERR_NOT_ALLOWED);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("SECOND"));
}

TEST_F(Construction, AnEngineThatCannotStart) {
    script([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "no device"); });
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("FAKE", {}, backend), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("no device"));
}

TEST_F(Construction, ARemoteEngineNeedsNotificationsAndConnectionInfo) {
    fake->notifications = false;
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("FAKE", {}, backend), NIXL_ERR_BACKEND);
    fake->notifications = true;
    useRegistry();
    nixlAgent other("a", nixlAgentConfig());
    script([](FakeScript &s) { s.connectionInfo = Status(NIXL_ERR_NOT_SUPPORTED, "no address"); });
    EXPECT_STATUS(other.createBackend("FAKE", {}, backend), NIXL_ERR_NOT_SUPPORTED);
}

TEST_F(Construction, AForkedChildIsRefusedAndTheParentGoesOn) {
    makeAgents();
    connect();
    nixlXferReqH *request = simpleRequest();
    const pid_t child = fork();
    if (child == 0) {
        nixl_blob_t blob;
        nixlPathExplanation why;
        bool right = a->getLocalMD(blob) == NIXL_ERR_NOT_ALLOWED &&
                     nixlExplain(*a, request, why) == NIXL_ERR_NOT_ALLOWED &&
                     a->postXferReq(request) == NIXL_ERR_NOT_ALLOWED &&
                     std::strstr(nixl_last_error(), "fork");
        a.reset(); // must neither hang nor touch the parent's engines
        _exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_OK(a->postXferReq(request));
    EXPECT_OK(a->releaseXferReq(request));
}

TEST_F(Construction, TheVersionIsThatOfTheProject) {
    EXPECT_STREQ(nixl_version(), "1.5.1");
}

TEST_F(Construction, LastErrorIsOfThisThreadAndStaysAfterSuccess) {
    makeAgents();
    std::string who;
    EXPECT_STATUS(a->loadRemoteMD("rubbish", who), NIXL_ERR_MISMATCH);
    const std::string text = nixl_last_error();
    EXPECT_FALSE(text.empty());
    nixl_blob_t blob;
    EXPECT_OK(a->getLocalMD(blob));
    EXPECT_EQ(nixl_last_error(), text);
}

} // namespace
} // namespace nixl
