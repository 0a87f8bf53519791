// Who reaches a peer: the engine that joins, or the network.
#include "unit/agent/joining_fixture.h"

namespace nixl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Meeting : public Joining {};

TEST_F(Meeting, MessagesAndTransfersShareALane) {
    start();
    connect();
    nixl_opt_args_t args;
    args.notif = "2";
    ASSERT_OK(a->genNotif("b", "1"));
    ASSERT_OK(a->postXferReq(simpleRequest(NIXL_WRITE, &args)));
    ASSERT_OK(a->genNotif("b", "3"));
    EXPECT_THAT(atB(), ElementsAre("1", "2", "3"));
    EXPECT_EQ(callsOfA(net, "notify") + callsOfA(net, "post"), 0u);
}

TEST_F(Meeting, APeerThatItDoesNotReachIsLeftToTheNetwork) {
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_BACKEND, "it runs as user 7"); });
    start();
    connect();
    ASSERT_OK(a->genNotif("b", "1"));
    host->edit([](FakeScript &s) { s.meet = Status(); });
    nixl_opt_args_t args;
    args.notif = "2";
    nixlXferReqH *request = simpleRequest(NIXL_WRITE, &args);
    const auto why = explain(request);
    EXPECT_EQ(why.path, "memory");
    EXPECT_EQ(why.options.back().path, "HOST");
    EXPECT_EQ(why.options.back().reason, "it runs as user 7");
    ASSERT_OK(a->postXferReq(request));
    ASSERT_OK(a->genNotif("b", "3"));
    EXPECT_THAT(atB(), ElementsAre("1", "2", "3"));
    EXPECT_EQ(callsOfA(host, "meet"), 1u) << "decided once";
    EXPECT_EQ(callsOfA(host, "notify"), 0u);

    ASSERT_OK(a->invalidateRemoteMD("b"));
    load();
    EXPECT_EQ(way(), "NET, HOST memory") << "a peer that is loaded anew is met anew";
}

TEST_F(Meeting, WithoutAnotherWayItIsAskedAgain) {
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_BACKEND, "process 7 is stopped"); });
    start();
    ASSERT_OK(a->registerMem(regions(memoryA)));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    std::string who;
    ASSERT_OK(a->loadRemoteMD(onlyOf(*b, "HOST"), who));
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("process 7 is stopped"));
    host->edit([](FakeScript &s) { s.meet = Status(); });
    EXPECT_OK(a->genNotif("b", "x"));
}

TEST_F(Meeting, OneThatNeverMetThePeerOnlySuspectsItsEnd) {
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_REMOTE_DISCONNECT, "nobody listens"); });
    start();
    connect();
    EXPECT_EQ(way(), "NET, memory");
    EXPECT_EQ(callsOfA(net, "connect"), 1u) << "asked at once";
    EXPECT_TRUE(knowsB());
    EXPECT_OK(a->genNotif("b", "x"));
    EXPECT_EQ(callsOfA(net, "connect"), 1u);
}

TEST_F(Meeting, IfTheNetworkAgreesThePeerIsGone) {
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_REMOTE_DISCONNECT, "nobody listens"); });
    net->edit([](FakeScript &s) { s.gone = {"b"}; });
    start();
    const auto make = [&] {
        nixlXferReqH *request = nullptr;
        return a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b",
                                request);
    };
    connect();
    EXPECT_STATUS(make(), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
    load();
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
    load();
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
}

TEST_F(Meeting, ANetworkThatCannotTellDoesNotAgree) {
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_REMOTE_DISCONNECT, "nobody listens"); });
    net->edit([](FakeScript &s) {
        s.connect = s.notify = s.pathRefused = Status(NIXL_ERR_BACKEND, "no transport in common");
    });
    start();
    connect();
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::AllOf(HasSubstr("NET: no transport in common"),
                                                    HasSubstr("NET, HOST: nobody listens")));
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_BACKEND);
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_BACKEND);
    EXPECT_TRUE(knowsB());
}

TEST_F(Meeting, OneThatHasMetThePeerKnowsItsEnd) {
    start();
    connect();
    ASSERT_OK(a->genNotif("b", "x"));
    host->edit([](FakeScript &s) { s.gone = {"b"}; });
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
    EXPECT_EQ(callsOfA(net, "connect"), 0u) << "nobody else has to be asked";
}

TEST_F(Meeting, ATransferOfItThatLosesThePeerDropsIt) {
    start();
    connect();
    nixlXferReqH *request = simpleRequest();
    host->edit([](FakeScript &s) { s.gone = {"b"}; });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
}

TEST_F(Meeting, ConnectingTakesTheLanesThatWillBeUsed) {
    start();
    connect();
    ASSERT_OK(a->makeConnection("b"));
    EXPECT_EQ(callsOfA(host, "meet"), 1u);
    EXPECT_EQ(callsOfA(net, "connect"), 0u) << "HOST takes all that NET takes";
}

TEST_F(Meeting, ConnectingNeedsOneLaneThatWorks) {
    net->memories = {DRAM_SEG, VRAM_SEG};
    net->edit([](FakeScript &s) { s.connect = Status(NIXL_ERR_BACKEND, "no route"); });
    start();
    connect();
    EXPECT_OK(a->makeConnection("b"));
    EXPECT_EQ(callsOfA(net, "connect"), 1u) << "for device memory";
    host->edit([](FakeScript &s) { s.meet = Status(NIXL_ERR_BACKEND, "other user"); });
    ASSERT_OK(a->invalidateRemoteMD("b"));
    load();
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_BACKEND);
    net->edit([](FakeScript &s) { s.connect = Status(); });
    EXPECT_OK(a->makeConnection("b"));
}

TEST_F(Meeting, PeersWithOneOfTheEngines) {
    start();
    fill();
    ASSERT_OK(a->registerMem(regions(memoryA)));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    std::string who;
    ASSERT_OK(a->loadRemoteMD(onlyOf(*b, "NET"), who)); // a plain NIXL agent
    EXPECT_EQ(way(), "NET, memory");
    ASSERT_OK(a->genNotif("b", "net"));
    ASSERT_OK(a->invalidateRemoteMD("b"));
    ASSERT_OK(a->loadRemoteMD(onlyOf(*b, "HOST"), who)); // one for which HOST stands in
    EXPECT_EQ(way(), "NET, HOST memory");
    ASSERT_OK(a->genNotif("b", "host"));
    EXPECT_EQ(callsOfA(net, "notify"), 1u);
    EXPECT_EQ(callsOfA(host, "notify"), 1u);
    MetadataBlob neither = metadata(*b);
    neither.connections = {{"ELSE", "x"}};
    neither.sections.clear();
    neither.extension.reset();
    EXPECT_STATUS(a->loadRemoteMD(encodeMetadata(neither), who), NIXL_ERR_BACKEND);
}

} // namespace
} // namespace nixl
