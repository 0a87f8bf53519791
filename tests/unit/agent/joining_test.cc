// When the engine that joins comes, and what the program sees of it.
#include "unit/agent/joining_fixture.h"

namespace nixl {
namespace {

using test::LogCapture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- Coming along ----

TEST_F(Joining, TheFirstNetworkBackendBringsTheEngine) {
    auto other = addEngine("OTHER");
    other->network = true;
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    create(agent, "NET", {{"devices", "x"}});
    EXPECT_EQ(host->live().engines, 1);
    EXPECT_THAT(host->configs().at(0).params, IsEmpty()) << "parameters are for the engine that was named";
    create(agent, "OTHER");
    EXPECT_EQ(host->live().engines, 1) << "once per agent";
}

TEST_F(Joining, WithoutANetworkBackendNobodyJoins) {
    auto plain = addEngine("PLAIN");
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    create(agent, "PLAIN");
    EXPECT_EQ(host->live().engines, 0);
}

TEST_F(Joining, MemoryAndMetadataAreOfBothEngines) {
    start();
    const nixl_opt_args_t args = only(backendsOfA[0]);
    ASSERT_OK(a->registerMem(regions(memoryA), &args)) << "also if the call names the network backend only";
    EXPECT_EQ(net->live().localRegions, 1);
    EXPECT_EQ(host->live().localRegions, 1);
    EXPECT_THAT(connections(metadata(*a)), ElementsAre("HOST", "NET"));
    EXPECT_THAT(sections(metadata(*a)), ::testing::UnorderedElementsAre("HOST", "NET"));
    nixl_opt_args_t partial = args;
    partial.includeConnInfo = true;
    nixl_blob_t bytes;
    ASSERT_OK(a->getLocalPartialMD(regions(memoryA), bytes, &partial));
    EXPECT_THAT(connections(decodeMetadata(bytes).value()), ElementsAre("HOST", "NET"));
    EXPECT_OK(a->deregisterMem(regions(memoryA), &args));
    EXPECT_EQ(net->live().localRegions + host->live().localRegions, 0);
}

TEST_F(Joining, CreatedByNameAfterwardsItIsABackendAsWell) {
    start();
    nixlBackendH *byName = create(*a, "HOST");
    EXPECT_NE(byName, backendsOfA[0]);
    EXPECT_EQ(host->live().engines, 2) << "one per agent";
    connect();
    const nixl_opt_args_t net_only = only(backendsOfA[0]), host_only = only(byName);
    EXPECT_EQ(way(), "HOST, memory") << "in its own name";
    EXPECT_EQ(way(&net_only), "NET, HOST memory");
    EXPECT_EQ(way(&host_only), "HOST, memory");
    nixlBackendH *again = nullptr;
    EXPECT_STATUS(a->createBackend("HOST", {}, again), NIXL_ERR_INVALID_PARAM);
}

TEST_F(Joining, CreatedByNameBeforeItServesTheNetworkBackendToo) {
    start({"HOST", "NET"}, {"NET", "HOST"});
    EXPECT_EQ(host->live().engines, 2);
    connect();
    const nixl_opt_args_t net_only = only(backendsOfA[1]);
    EXPECT_EQ(way(), "HOST, memory");
    EXPECT_EQ(way(&net_only), "NET, HOST memory");
}

TEST_F(Joining, WhyItIsMissingIsExplainedWithoutAWarning) {
    host->edit([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "switched off"); });
    LogCapture log;
    start();
    connect();
    nixlXferReqH *request = simpleRequest();
    EXPECT_EQ(log.count("", LogLevel::kWarn), 0u);
    const auto why = explain(request);
    EXPECT_EQ(why.backend, "NET");
    EXPECT_EQ(why.path, "memory");
    ASSERT_EQ(why.options.size(), 2u);
    EXPECT_EQ(why.options[1].backend, "NET");
    EXPECT_EQ(why.options[1].path, "HOST");
    EXPECT_THAT(why.options[1].reason, HasSubstr("switched off"));
    host->edit([](FakeScript &s) { s.create = Status(); });
    create(*a, "HOST");
    EXPECT_EQ(explain(simpleRequest()).options.size(), 2u);
    EXPECT_THAT(explain(simpleRequest()).toString(), ::testing::Not(HasSubstr("switched off")));
}

// ---- What the program sees ----

TEST_F(Joining, TheProgramSeesItsBackend) {
    start();
    connect();
    nixl_opt_args_t args = only(backendsOfA[0]);
    args.notif = "done";
    nixlXferReqH *request = simpleRequest(NIXL_WRITE, &args);
    nixlBackendH *backend = nullptr;
    ASSERT_OK(a->queryXferBackend(request, backend));
    EXPECT_EQ(backend, backendsOfA[0]);
    const auto why = explain(request);
    EXPECT_EQ(why.backend, "NET");
    EXPECT_EQ(why.path, "HOST memory");
    ASSERT_EQ(why.options.size(), 2u);
    EXPECT_TRUE(why.options[0].chosen);
    EXPECT_FALSE(why.options[1].chosen) << "one of two lanes of the same backend";
    EXPECT_THAT(why.options[1].reason, HasSubstr("not needed: HOST serves this host"));
    ASSERT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
    EXPECT_EQ(callsOfA(host, "post"), 1u);
    EXPECT_EQ(callsOfA(net, "post"), 0u);
    const nixl_opt_args_t of_net = only(backendsOfB[0]);
    EXPECT_THAT(atB(&of_net), ElementsAre("done"));
}

TEST_F(Joining, PreparedListsOfTheBackendHaveItsLanes) {
    start();
    connect();
    const nixl_opt_args_t args = only(backendsOfA[0]);
    nixlDlistH *local = nullptr, *remote = nullptr;
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->prepXferDlist(blocks(memoryA, {{0, 64}}), local, &args));
    ASSERT_OK(a->prepXferDlist("b", blocks(memoryB, {{64, 64}}), remote, &args));
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request, &args));
    EXPECT_EQ(explain(request).path, "HOST memory");
    ASSERT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(64, 64), memoryA.substr(0, 64));
}

TEST_F(Joining, WithinTheHostTheNetworkIsNotAskedWhateverItWouldCost) {
    net->edit([](FakeScript &s) { s.path.latencyUs = 0.1; });
    start();
    connect();
    EXPECT_EQ(way(), "NET, HOST memory");
    EXPECT_EQ(callsOfA(net, "path"), 0u);
    host->edit([](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_BACKEND, "no"); });
    EXPECT_EQ(way(), "NET, memory");
}

TEST_F(Joining, MemoryThatTheNetworkRefusesIsWarnedAboutOnce) {
    start();
    net->edit([](FakeScript &s) { s.failRegistrationAfter = 0; });
    {
        LogCapture log;
        ASSERT_OK(a->registerMem(regions(memoryA)));
        EXPECT_EQ(log.count("this host only", LogLevel::kWarn), 1u);
        EXPECT_EQ(log.count("scripted registration failure"), 1u) << "one line";
    }
    ASSERT_OK(b->registerMem(regions(memoryB)));
    fill();
    load();
    EXPECT_EQ(way(), "NET, HOST memory");
    const nixl_opt_args_t args = only(backendsOfA[0]);
    EXPECT_OK(a->deregisterMem(regions(memoryA), &args)) << "the backend has it, in one of its engines";
    EXPECT_EQ(host->live().localRegions, 1);
    EXPECT_STATUS(a->deregisterMem(regions(memoryA), &args), NIXL_ERR_NOT_FOUND);
}

TEST_F(Joining, MemoryThatOnlyTheNetworkTakesIsAllRight) {
    start();
    host->edit([](FakeScript &s) { s.failRegistrationAfter = 0; });
    LogCapture log;
    ASSERT_OK(a->registerMem(regions(memoryA)));
    EXPECT_EQ(log.count("", LogLevel::kWarn), 0u);
    ASSERT_OK(b->registerMem(regions(memoryB)));
    fill();
    load();
    EXPECT_EQ(way(), "NET, memory");
    EXPECT_OK(a->deregisterMem(regions(memoryA)));
}

TEST_F(Joining, KindsThatItDoesNotTakeAreNotItsBusiness) {
    net->memories = {DRAM_SEG, VRAM_SEG};
    start();
    nixl_reg_dlist_t vram(VRAM_SEG);
    vram.addDesc(nixlBlobDesc(address(memoryA), 64, 0, ""));
    LogCapture log;
    const nixl_opt_args_t args = only(backendsOfA[0]);
    ASSERT_OK(a->registerMem(vram, &args));
    EXPECT_EQ(log.count("", LogLevel::kWarn), 0u);
    EXPECT_EQ(log.count("does not take"), 0u);
    EXPECT_EQ(host->count("registerRegion"), 0u);
    EXPECT_OK(a->deregisterMem(vram, &args));
}

} // namespace
} // namespace nixl
