#include "unit/agent/agent_fixture.h"

namespace nixl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Notifications : public AgentTest {
protected:
    std::vector<nixl_blob_t>
    atB() {
        nixl_notifs_t notifs;
        EXPECT_OK(b->getNotifs(notifs));
        return notifs["a"];
    }
};

TEST_F(Notifications, NobodyHasThem) {
    fake->remote = false;
    fake->notifications = false;
    makeAgents();
    nixl_notifs_t notifs;
    EXPECT_STATUS(a->getNotifs(notifs), NIXL_ERR_BACKEND);
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_BACKEND);
    ASSERT_OK(a->registerMem(regions(memoryA)));
    nixl_opt_args_t args;
    args.notif = "x";
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a",
                                   request, &args),
                  NIXL_ERR_BACKEND);
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", request));
    EXPECT_STATUS(a->postXferReq(request, &args), NIXL_ERR_BACKEND);
    EXPECT_OK(a->postXferReq(request)) << "a refused notification is not stored";
}

TEST_F(Notifications, ToPeersAndToItself) {
    makeAgents();
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_NOT_FOUND) << "unknown";
    connect();
    EXPECT_OK(a->genNotif("b", ""));
    EXPECT_OK(a->genNotif("b", std::string("a\0b", 3)));
    EXPECT_THAT(atB(), ElementsAre("", std::string("a\0b", 3)));
    EXPECT_THAT(atB(), IsEmpty());
    EXPECT_OK(a->genNotif("a", "self"));
    nixl_notifs_t notifs;
    notifs["a"] = {"kept"};
    EXPECT_OK(a->getNotifs(notifs));
    EXPECT_THAT(notifs["a"], ElementsAre("kept", "self")) << "appended";
}

// C04: which message a post carries.
TEST_F(Notifications, C04_RepostWithAnotherNotification) {
    makeAgents();
    connect();
    nixl_opt_args_t a_args, b_args, old_style, none;
    a_args.notif = "a";
    b_args.notif = "b";
    old_style.notifMsg = "old";
    old_style.hasNotif = true;
    nixlXferReqH *request = simpleRequest(NIXL_WRITE, &a_args);
    EXPECT_OK(a->postXferReq(request));
    EXPECT_THAT(atB(), ElementsAre("a")) << "the stored one";
    EXPECT_OK(a->postXferReq(request, &b_args));
    EXPECT_THAT(atB(), ElementsAre("b"));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_THAT(atB(), ElementsAre("b")) << "stored from then on";
    EXPECT_OK(a->postXferReq(request, &none));
    EXPECT_THAT(atB(), IsEmpty()) << "arguments without one clear it";
    EXPECT_OK(a->postXferReq(request));
    EXPECT_THAT(atB(), IsEmpty()) << "and it stays cleared";
    EXPECT_OK(a->postXferReq(request, &old_style));
    EXPECT_THAT(atB(), ElementsAre("old"));
    old_style.notif = "new";
    EXPECT_OK(a->postXferReq(request, &old_style));
    EXPECT_THAT(atB(), ElementsAre("new")) << "notif wins over notifMsg";
}

TEST_F(Notifications, OfOneEngine) {
    auto second = addEngine("SECOND");
    makeAgents();
    connect();
    nixl_opt_args_t args;
    args.backends = {backendsOfA[1]};
    EXPECT_OK(a->genNotif("b", "by the second", &args));
    EXPECT_EQ(second->count("notify"), 1u);
    nixl_opt_args_t first;
    first.backends = {backendsOfB[0]};
    nixl_notifs_t notifs;
    EXPECT_OK(b->getNotifs(notifs, &first));
    EXPECT_THAT(notifs, IsEmpty());
    EXPECT_THAT(atB(), ElementsAre("by the second"));
}

TEST_F(Notifications, AFailingEngineStillGivesWhatOthersHave) {
    auto second = addEngine("SECOND");
    makeAgents();
    connect();
    nixl_opt_args_t args;
    args.backends = {backendsOfA[1]};
    EXPECT_OK(a->genNotif("b", "x", &args));
    script([](FakeScript &s) { s.takeNotifications = Status(NIXL_ERR_BACKEND, "broken"); });
    nixl_notifs_t notifs;
    EXPECT_STATUS(b->getNotifs(notifs), NIXL_ERR_BACKEND);
    EXPECT_THAT(notifs["a"], ElementsAre("x"));
}

TEST_F(Notifications, ADeadPeerIsForgotten) {
    makeAgents();
    connect();
    script([](FakeScript &s) { s.gone = {"b"}; });
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_NOT_FOUND);
}

} // namespace
} // namespace nixl
