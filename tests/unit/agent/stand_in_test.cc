// Backends whose own engine cannot start.
#include "unit/agent/joining_fixture.h"

namespace nixl {
namespace {

using test::LogCapture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StandIn : public Joining {
protected:
    /// Each time for another reason, since a process warns of each but once.
    void
    lack(nixl_status_t code) {
        static int count = 0;
        reason = concat("libnet.so is not installed (", ++count, ")");
        net->edit([&](FakeScript &s) { s.create = Status(code, reason); });
    }

    void
    ruleOut(std::initializer_list<HostLane> lanes, const std::string &why) {
        net->edit([&](FakeScript &s) {
            for (const HostLane lane : lanes)
                s.limits[lane] = why;
        });
    }

    std::string reason; ///< why NET does not start
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
        EXPECT_EQ(log.count(reason, LogLevel::kWarn), 1u);
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
    EXPECT_EQ(log.count("", LogLevel::kWarn), 1u) << "one for both agents, and none later";
}

TEST_F(StandIn, IsWarnedOfOncePerReason) {
    LogCapture log;
    useRegistry();
    const auto start = [](const std::string &name) {
        nixlAgent agent(name, nixlAgentConfig());
        create(agent, "NET");
    };
    lack(NIXL_ERR_BACKEND);
    start("a");
    start("b");
    EXPECT_EQ(log.count(reason, LogLevel::kWarn), 1u);
    EXPECT_EQ(log.count("agent 'b': NET cannot start: " + reason, LogLevel::kInfo), 1u);
    lack(NIXL_ERR_BACKEND);
    start("c");
    EXPECT_EQ(log.count(reason, LogLevel::kWarn), 1u);
}

TEST_F(StandIn, IsExplained) {
    lack(NIXL_ERR_BACKEND);
    start();
    connect();
    const auto why = explain(simpleRequest());
    EXPECT_EQ(why.path, "HOST memory");
    ASSERT_EQ(why.options.size(), 2u);
    EXPECT_EQ(why.options[1].backend, "NET");
    EXPECT_EQ(why.options[1].path, "");
    EXPECT_FALSE(why.options[1].chosen);
    EXPECT_EQ(why.options[1].reason, reason);
}

TEST_F(StandIn, ErrorsSayWhatIsMissing) {
    net->memories = {DRAM_SEG, VRAM_SEG};
    start({}, {"NET"});
    const nixl_blob_t plain = onlyOf(*b, "NET");
    lack(NIXL_ERR_BACKEND);
    create(*a, "NET");
    std::string who;
    EXPECT_STATUS(a->loadRemoteMD(plain, who), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(),
                AllOf(HasSubstr("the peer has NET, this agent has HOST"), HasSubstr(reason)));
    nixl_reg_dlist_t vram(VRAM_SEG), object(OBJ_SEG);
    vram.addDesc(nixlBlobDesc(address(memoryA), 64, 0, ""));
    object.addDesc(nixlBlobDesc(0, 64, 1, "key"));
    EXPECT_STATUS(a->registerMem(vram), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("takes VRAM_SEG: NET: " + reason));
    EXPECT_STATUS(a->registerMem(object), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::Not(HasSubstr(reason))) << "NET would not take it either";
}

// ---- What the program rules out ----

TEST_F(StandIn, KeepsToTheLanesThatTheProgramLeaves) {
    lack(NIXL_ERR_BACKEND);
    ruleOut({HostLane::kHostMemory, HostLane::kDeviceMemory}, "TLS is self");
    LogCapture log;
    start({"NET"}, {"HOST"});
    EXPECT_EQ(log.count("HOST stands in for it and reaches agents of this process only, since TLS is self",
                        LogLevel::kWarn),
              1u);
    connect();
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), AllOf(HasSubstr("TLS is self"), HasSubstr("NET: " + reason)));
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_BACKEND);
    EXPECT_EQ(callsOfA(host, "notify"), 0u);
    nixl_blob_t blob;
    EXPECT_STATUS(a->getLocalMD(blob), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), HasSubstr("TLS is self"));
    EXPECT_STATUS(a->getLocalPartialMD(regions(memoryA), blob), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(),
                HasSubstr("with this memory reaches other agents; HOST may not: TLS is self"));
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", request));
    EXPECT_EQ(explain(request).path, "HOST memory") << "within the agent it may";
}

TEST_F(StandIn, NotIfTheProgramLeavesItNoLane) {
    lack(NIXL_ERR_BACKEND);
    ruleOut({HostLane::kSameProcess, HostLane::kHostMemory}, "TLS is tcp"); // HOST takes no device memory
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent.createBackend("NET", {}, backend), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), AllOf(HasSubstr(reason), HasSubstr("TLS is tcp")));
    EXPECT_EQ(backend, nullptr);
    EXPECT_EQ(host->live().engines, 0) << "nothing was left behind";
    create(agent, "HOST");
    EXPECT_STATUS(agent.createBackend("NET", {}, backend), NIXL_ERR_BACKEND);
}

TEST_F(StandIn, DeviceMemoryMayBeTheLaneThatIsLeft) {
    lack(NIXL_ERR_BACKEND);
    host->memories = {DRAM_SEG, VRAM_SEG};
    ruleOut({HostLane::kSameProcess, HostLane::kHostMemory}, "TLS is cuda_ipc");
    useRegistry();
    LogCapture log;
    nixlAgent agent("a", nixlAgentConfig());
    create(agent, "NET");
    EXPECT_EQ(host->live().engines, 1);
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
