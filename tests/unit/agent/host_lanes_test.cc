// Ways inside the host that the program rules out.
#include "unit/agent/joining_fixture.h"

namespace nixl {
namespace {

using ::testing::ElementsAre;

class HostLanes : public Joining {};

TEST_F(HostLanes, ALaneThatIsRuledOutIsRefusedWithTheReason) {
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "TLS has no shared memory"; });
    start({"NET"}, {"NET", "HOST"}); // b offers HOST
    connect();
    const auto why = explain(simpleRequest());
    EXPECT_EQ(why.path, "memory");
    ASSERT_EQ(why.options.size(), 2u);
    EXPECT_EQ(why.options[1].path, "HOST memory");
    EXPECT_EQ(why.options[1].reason, "TLS has no shared memory");
    ASSERT_OK(a->genNotif("b", "x"));
    EXPECT_EQ(callsOfA(host, "notify"), 0u);
    EXPECT_EQ(callsOfA(net, "notify"), 1u);
    EXPECT_THAT(atB(), ElementsAre("x"));
    ASSERT_OK(a->makeConnection("b"));
    EXPECT_EQ(callsOfA(net, "connect"), 1u);
}

TEST_F(HostLanes, AnotherProcessMayBeRuledOutAndTheOwnNot) {
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "no"; });
    host->edit([](FakeScript &s) { s.lane = HostLane::kSameProcess; });
    start({"NET"}, {"NET", "HOST"});
    connect();
    EXPECT_EQ(way(), "NET, HOST memory");
    ASSERT_OK(a->genNotif("b", "x"));
    EXPECT_EQ(callsOfA(host, "notify"), 1u);
}

TEST_F(HostLanes, LoopBackObeysToo) {
    useRegistry();
    const auto loop = [&] {
        backendsOfA = {create(*a, "NET")};
        connect();
        nixlXferReqH *request = nullptr;
        EXPECT_OK(
            a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", request));
        return explain(request).path;
    };
    start({}, {"NET"});
    EXPECT_EQ(loop(), "HOST memory");
    ASSERT_OK(a->genNotif("a", "x"));
    EXPECT_EQ(callsOfA(host, "notify"), 1u);
    net->edit([](FakeScript &s) { s.limits[HostLane::kSameProcess] = "TLS has no self"; });
    a.reset();
    a = std::make_unique<nixlAgent>("a", nixlAgentConfig());
    EXPECT_EQ(loop(), "memory");
    ASSERT_OK(a->genNotif("a", "y"));
    EXPECT_EQ(callsOfA(net, "notify"), 1u);
}

TEST_F(HostLanes, PeersAreNotToldOfALaneThatIsRuledOut) {
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "TLS has no shared memory"; });
    start();
    connect();
    EXPECT_THAT(connections(metadata(*b)), ElementsAre("NET"));
    EXPECT_THAT(sections(metadata(*b)), ElementsAre("NET"));
    nixl_blob_t bytes;
    nixl_opt_args_t args;
    args.includeConnInfo = true;
    ASSERT_OK(b->getLocalPartialMD(regions(memoryB), bytes, &args));
    EXPECT_THAT(connections(decodeMetadata(bytes).value()), ElementsAre("NET"));
    const auto why = explain(simpleRequest());
    ASSERT_EQ(why.options.size(), 2u);
    EXPECT_EQ(why.options[1].reason, "TLS has no shared memory");
    create(*b, "HOST");
    EXPECT_THAT(connections(metadata(*b)), ElementsAre("HOST", "NET")) << "now the program asked for it";
}

TEST_F(HostLanes, AKindOfMemoryMayBeRuledOutAndAnotherNot) {
    net->memories = host->memories = {DRAM_SEG, VRAM_SEG};
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "no"; });
    start();
    nixl_reg_dlist_t vram(VRAM_SEG);
    vram.addDesc(nixlBlobDesc(address(memoryB), 64, 0, ""));
    ASSERT_OK(b->registerMem(vram));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    const MetadataBlob blob = metadata(*b);
    EXPECT_THAT(connections(blob), ElementsAre("HOST", "NET"));
    std::vector<std::string> offered;
    for (const MetadataSection &section : blob.sections)
        offered.push_back(section.backend + (section.descs.getType() == VRAM_SEG ? " VRAM" : " DRAM"));
    EXPECT_THAT(offered, ::testing::UnorderedElementsAre("HOST VRAM", "NET VRAM", "NET DRAM"));
}

TEST_F(HostLanes, IfEverythingIsRuledOutNobodyIsAsked) {
    for (const HostLane lane : {HostLane::kSameProcess, HostLane::kHostMemory, HostLane::kDeviceMemory})
        net->edit([&](FakeScript &s) { s.limits[lane] = "TLS is tcp"; });
    start({"NET"}, {"NET", "HOST"});
    connect();
    const auto why = explain(simpleRequest());
    EXPECT_EQ(why.options.back().path, "HOST");
    EXPECT_EQ(why.options.back().reason, "TLS is tcp");
    EXPECT_OK(a->genNotif("b", "x"));
    EXPECT_EQ(host->count("meet"), 0u);
}

TEST_F(HostLanes, TheNetworkBackendThatRulesOutLeastIsSpokenFor) {
    auto open = addEngine("OPEN");
    open->network = true;
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "no"; });
    start({"NET", "OPEN"}, {"NET", "OPEN"});
    connect();
    EXPECT_EQ(way(), "OPEN, HOST memory");
    const nixl_opt_args_t net_only = only(backendsOfA[0]);
    EXPECT_EQ(way(&net_only), "NET, memory") << "the program named it, with its limits";
}

TEST_F(HostLanes, AreAskedForOnceWithTheParameters) {
    useRegistry();
    nixlAgent agent("a", nixlAgentConfig());
    create(agent, "NET");
    const std::size_t asked = callsOfA(net, "hostLaneLimit");
    EXPECT_EQ(asked, 3u) << "each lane";
    nixl_blob_t blob;
    ASSERT_OK(agent.registerMem(regions(memoryA)));
    ASSERT_OK(agent.getLocalMD(blob));
    EXPECT_EQ(callsOfA(net, "hostLaneLimit"), asked);
}

TEST_F(HostLanes, WhatIsCreatedByNameIsNotRuledOut) {
    net->edit([](FakeScript &s) { s.limits[HostLane::kHostMemory] = "no"; });
    start({"NET", "HOST"}, {"NET", "HOST"});
    connect();
    EXPECT_EQ(way(), "HOST, memory");
    const nixl_opt_args_t net_only = only(backendsOfA[0]);
    EXPECT_EQ(way(&net_only), "NET, memory");
}

} // namespace
} // namespace nixl
