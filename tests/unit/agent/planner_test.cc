// Which engine carries a transfer, and what explain says about it.
#include "unit/agent/agent_fixture.h"

namespace nixl {
namespace {

using ::testing::HasSubstr;

class Planner : public AgentTest {
protected:
    void
    start() {
        makeAgents();
        connect();
    }

    nixlPathExplanation
    explain(const nixlXferReqH *request) {
        nixlPathExplanation explanation;
        EXPECT_OK(nixlExplain(*a, request, explanation));
        return explanation;
    }

    static void
    cost(const std::shared_ptr<FakeSettings> &engine, double latencyUs, double bytesPerUs) {
        engine->edit([&](FakeScript &s) {
            s.path.latencyUs = latencyUs;
            s.path.bytesPerUs = bytesPerUs;
            s.path.perBlockUs = 0;
        });
    }

    /// The option of an engine, which must be there.
    static nixlPathOption
    option(const nixlPathExplanation &explanation, const std::string &backend) {
        for (const nixlPathOption &candidate : explanation.options) {
            if (candidate.backend == backend)
                return candidate;
        }
        ADD_FAILURE() << backend << " is not explained";
        return {};
    }
};

TEST_F(Planner, TheCheapestForTheSizeWins) {
    auto second = addEngine("SECOND");
    cost(fake, 100, 10000); // slow to start, fast
    cost(second, 1, 10);
    start();
    nixlXferReqH *small = nullptr, *large = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", small));
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 4096}}), blocks(memoryB, {{0, 4096}}), "b", large));
    EXPECT_EQ(explain(small).backend, "SECOND");
    EXPECT_EQ(explain(large).backend, "FAKE");
    const auto why = explain(large);
    EXPECT_EQ(why.options.at(0).backend, "FAKE") << "fastest first";
    EXPECT_TRUE(why.options.at(0).chosen);
    EXPECT_THAT(option(why, "SECOND").reason, HasSubstr("not less than FAKE"));
    EXPECT_FALSE(option(why, "SECOND").chosen);
}

TEST_F(Planner, OfEqualCostsTheFirstCreatedWinsAlways) {
    auto second = addEngine("SECOND");
    start();
    for (int i = 0; i < 20; ++i) {
        nixlXferReqH *request = simpleRequest();
        EXPECT_EQ(explain(request).backend, "FAKE");
        EXPECT_OK(a->releaseXferReq(request));
    }
}

TEST_F(Planner, ARefusedLaneIsPassedOverWithItsReason) {
    auto second = addEngine("SECOND");
    fake->edit(
        [](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_NOT_ALLOWED, "the peer runs as another user"); });
    second->edit([](FakeScript &s) { s.path.refused = {{"mapping", "not sealed"}}; });
    start();
    nixlXferReqH *request = simpleRequest();
    const auto why = explain(request);
    EXPECT_EQ(why.backend, "SECOND");
    EXPECT_EQ(why.path, "memory");
    EXPECT_THAT(option(why, "FAKE").reason, HasSubstr("another user"));
    EXPECT_THAT(why.toString(), ::testing::AllOf(HasSubstr("mapping"), HasSubstr("not sealed"),
                                                 HasSubstr("64 bytes"), HasSubstr("1 block,")));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
}

TEST_F(Planner, TheHintOfTheCallIsObeyed) {
    auto second = addEngine("SECOND");
    cost(second, 1000, 1);
    start();
    nixl_opt_args_t args;
    args.backends = {backendsOfA[1]};
    nixlXferReqH *request = simpleRequest(NIXL_WRITE, &args);
    EXPECT_EQ(explain(request).backend, "SECOND");
    EXPECT_THAT(option(explain(request), "FAKE").reason, HasSubstr("did not name it"));
}

TEST_F(Planner, EnginesWithoutTheMemoryAreExplained) {
    auto second = addEngine("SECOND");
    makeAgents();
    fill();
    nixl_opt_args_t onlyFirst;
    onlyFirst.backends = {backendsOfA[0]};
    ASSERT_OK(a->registerMem(regions(memoryA), &onlyFirst));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    load();
    nixlXferReqH *request = simpleRequest();
    EXPECT_THAT(option(explain(request), "SECOND").reason, HasSubstr("local side"));
    nixlDlistH *local = nullptr, *remote = nullptr;
    ASSERT_OK(a->prepXferDlist(blocks(memoryA, {{0, 8}}), local));
    ASSERT_OK(a->prepXferDlist("b", blocks(memoryB, {{0, 8}}), remote));
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request));
    EXPECT_THAT(option(explain(request), "SECOND").reason, HasSubstr("no list of the local side"));
    nixl_opt_args_t onlySecond;
    onlySecond.backends = {backendsOfA[1]};
    EXPECT_STATUS(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request, &onlySecond),
                  NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), ::testing::AllOf(HasSubstr("FAKE"), HasSubstr("SECOND")));
}

TEST_F(Planner, ANotificationNeedsAnEngineThatHasThem) {
    auto mute = addEngine("MUTE");
    mute->remote = false;
    mute->notifications = false;
    cost(fake, 1000, 1);
    start();
    nixl_opt_args_t args;
    args.notif = "x";
    nixlXferReqH *quiet = nullptr, *loud = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", quiet));
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", loud, &args));
    EXPECT_EQ(explain(quiet).backend, "MUTE");
    EXPECT_EQ(explain(loud).backend, "FAKE");
    EXPECT_THAT(option(explain(loud), "MUTE").reason, HasSubstr("no notifications"));
}

TEST_F(Planner, NoPathAtAll) {
    auto second = addEngine("SECOND");
    start();
    nixlXferReqH *request = nullptr;
    for (const auto &engine : {fake, second})
        engine->edit(
            [&](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_NOT_ALLOWED, engine->name + " says no"); });
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::AllOf(HasSubstr("FAKE says no"), HasSubstr("SECOND says no")));
}

TEST_F(Planner, NoPathNamesTheEnginesThatWereNoCandidates) {
    auto lonely = addEngine("LONELY");
    lonely->remote = false;
    lonely->notifications = false;
    start();
    script([](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_NOT_ALLOWED, "FAKE says no"); });
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_NOT_ALLOWED)
        << "the code of the only candidate";
    EXPECT_THAT(nixl_last_error(), ::testing::AllOf(HasSubstr("FAKE says no"),
                                                    HasSubstr("LONELY: the peer has no connection for it")));
}

TEST_F(Planner, ADeadPeerIsSeenWhenTheRequestIsMade) {
    start();
    script([](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_REMOTE_DISCONNECT, "process 7 is gone"); });
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
}

TEST_F(Planner, EnginesWithoutAConnectionOrLoopBackAreExplained) {
    auto lonely = addEngine("LONELY");
    lonely->remote = false;
    lonely->notifications = false;
    auto far = addEngine("FAR");
    far->local = false;
    start();
    EXPECT_THAT(option(explain(simpleRequest()), "LONELY").reason, HasSubstr("no connection for it"));
    nixlXferReqH *loop = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", loop));
    EXPECT_THAT(option(explain(loop), "FAR").reason, HasSubstr("does not move data within an agent"));
}

TEST_F(Planner, APathInWhichThePeerTakesPartSaysSo) {
    fake->edit([](FakeScript &s) { s.path.peerTakesPart = true; });
    start();
    EXPECT_THAT(option(explain(simpleRequest()), "FAKE").reason, HasSubstr("takes part"));
}

TEST_F(Planner, APeerThatIsGoneForAllEnginesIsGone) {
    auto second = addEngine("SECOND");
    start();
    for (const auto &engine : {fake, second})
        engine->edit([](FakeScript &s) { s.pathRefused = Status(NIXL_ERR_REMOTE_DISCONNECT, "gone"); });
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
}

} // namespace
} // namespace nixl
