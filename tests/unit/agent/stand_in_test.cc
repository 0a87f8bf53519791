// Backends whose own engine cannot start.
#include "unit/agent/joining_fixture.h"

namespace nixl {
namespace {

using test::LogCapture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StandIn : public Joining {
protected:
    void
    lack(nixl_status_t code) {
        net->edit([&](FakeScript &s) { s.create = Status(code, "libnet.so is not installed"); });
    }
};

TEST_F(StandIn, ForANetworkBackendThatCannotStart) {
    for (const nixl_status_t code : {NIXL_ERR_BACKEND, NIXL_ERR_NOT_FOUND}) {
        lack(code);
        net->memories = {DRAM_SEG, VRAM_SEG};
        LogCapture log;
        useRegistry();
        nixlAgent agent("a", nixlAgentConfig());
        nixlBackendH *backend = create(agent, "NET", {{"k", "v"}});
        EXPECT_EQ(log.count("", LogLevel::kWarn), 1u);
        EXPECT_EQ(log.count("libnet.so is not installed", LogLevel::kWarn), 1u);
        EXPECT_EQ(log.count("this host only", LogLevel::kWarn), 1u);
        nixl_mem_list_t mems;
        nixl_b_params_t params;
        ASSERT_OK(agent.getBackendParams(backend, mems, params));
        EXPECT_THAT(mems, ElementsAre(DRAM_SEG));
        EXPECT_EQ(params.at("k"), "v");
        nixlBackendH *again = nullptr;
        EXPECT_STATUS(agent.createBackend("NET", {}, again), NIXL_ERR_INVALID_PARAM);
    }
}

TEST_F(StandIn, WorksUnderTheNameOfTheBackend) {
    lack(NIXL_ERR_BACKEND);
    LogCapture log;
    start();
    connect();
    EXPECT_THAT(connections(metadata(*a)), ElementsAre("HOST"));
    EXPECT_THAT(sections(metadata(*a)), ElementsAre("HOST"));
    nixl_opt_args_t args = only(backendsOfA[0]);
    args.notif = "done";
    nixlXferReqH *request = simpleRequest(NIXL_WRITE, &args);
    nixlBackendH *backend = nullptr;
    ASSERT_OK(a->queryXferBackend(request, backend));
    EXPECT_EQ(backend, backendsOfA[0]);
    EXPECT_EQ(explain(request).backend, "NET");
    EXPECT_EQ(explain(request).path, "HOST memory");
    ASSERT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
    const nixl_opt_args_t of_b = only(backendsOfB[0]);
    EXPECT_THAT(atB(&of_b), ElementsAre("done"));
    EXPECT_OK(a->deregisterMem(regions(memoryA), &args));
    EXPECT_EQ(log.count("", LogLevel::kWarn), 2u) << "one for each agent's backend, and none later";
}

TEST_F(StandIn, ReachesAnAgentWhoseNetworkWorks) {
    lack(NIXL_ERR_BACKEND);
    useRegistry();
    a = std::make_unique<nixlAgent>("a", nixlAgentConfig());
    create(*a, "NET");
    net->edit([](FakeScript &s) { s.create = Status(); });
    b = std::make_unique<nixlAgent>("b", nixlAgentConfig());
    create(*b, "NET");
    connect();
    EXPECT_EQ(way(), "NET, HOST memory");
}

TEST_F(StandIn, NotForMistakesOfTheProgram) {
    lack(NIXL_ERR_INVALID_PARAM);
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("NET", {}, backend), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(backend, nullptr);
    EXPECT_EQ(host->count("create"), 0u);
    EXPECT_STATUS(agent.createBackend("FOO", {}, backend), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(host->count("create"), 0u);
}

TEST_F(StandIn, NotIfItCannotStartEither) {
    lack(NIXL_ERR_BACKEND);
    host->edit([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "switched off"); });
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("NET", {}, backend), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(),
                ::testing::AllOf(HasSubstr("libnet.so is not installed"), HasSubstr("switched off")));
    net->edit([](FakeScript &s) { s.create = Status(); });
    EXPECT_OK(agent.createBackend("NET", {}, backend)) << "nothing was left behind";
}

TEST_F(StandIn, NotForOtherEngines) {
    auto plain = addEngine("PLAIN");
    plain->edit([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "no device"); });
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("PLAIN", {}, backend), NIXL_ERR_BACKEND);
}

TEST_F(StandIn, BesideTheSameEngineByName) {
    lack(NIXL_ERR_BACKEND);
    start({"HOST", "NET"}, {"NET"});
    connect();
    const nixl_opt_args_t net_only = only(backendsOfA[1]);
    EXPECT_EQ(way(), "HOST, memory");
    EXPECT_EQ(way(&net_only), "NET, HOST memory");
    EXPECT_EQ(host->live().engines, 2);
}

} // namespace
} // namespace nixl
