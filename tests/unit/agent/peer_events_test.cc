// What an agent tells about its peers, and what a report of an engine does.
#include "unit/agent/agent_fixture.h"

#include <poll.h>
#include <stdlib.h>

#include <set>
#include <thread>

#include "agent/peer_events.h"

namespace nixl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PeerEventsTest : public AgentTest {
protected:
    ~PeerEventsTest() override {
        unsetenv("NIXL_PEER_EVENTS");
        unsetenv("NIXL_NOTIF_QUEUE_BYTES");
    }

    static std::string
    text(const nixlPeerEvent &event) {
        constexpr const char *kNames[] = {"joined", "updated", "stalled",    "resumed",
                                          "lost",   "left",    "undelivered"};
        EXPECT_TRUE(event.message.empty() || event.kind == nixlPeerEvent::Kind::kUndelivered);
        return event.peer + " " + kNames[static_cast<int>(event.kind)] + ": " + event.why;
    }

    std::vector<nixlPeerEvent>
    take() {
        std::vector<nixlPeerEvent> events;
        EXPECT_OK(nixlPeerEvents(*a, events));
        return events;
    }

    std::vector<std::string>
    taken() {
        std::vector<std::string> texts;
        for (const nixlPeerEvent &event : take())
            texts.push_back(text(event));
        return texts;
    }

    /// From a thread of the engine.
    void
    report(PeerChange change, const std::string &why, const std::string &peer = "b") {
        std::thread([&] { fake->tellPeerChange(peer, change, why); }).join();
    }

    void
    start() {
        makeAgents();
        connect();
        EXPECT_THAT(taken(), ElementsAre("b joined: its metadata was loaded"));
    }

    /// Another agent that a knows.
    std::unique_ptr<nixlAgent>
    meet(const std::string &name) {
        auto agent = std::make_unique<nixlAgent>(name, nixlAgentConfig());
        nixlBackendH *backend = nullptr;
        EXPECT_OK(agent->createBackend("FAKE", {}, backend));
        EXPECT_OK(agent->registerMem(regions(memoryB)));
        nixl_blob_t blob;
        std::string who;
        EXPECT_OK(agent->getLocalMD(blob));
        EXPECT_OK(a->loadRemoteMD(blob, who));
        return agent;
    }

    nixl_status_t
    known(const std::string &peer = "b") {
        return a->checkRemoteMD(peer, nixl_xfer_dlist_t(DRAM_SEG));
    }
};

TEST_F(PeerEventsTest, MetadataTellsOfPeers) {
    start();
    load();
    EXPECT_THAT(taken(), IsEmpty()) << "nothing is new";
    nixl_reg_dlist_t half(DRAM_SEG);
    half.addDesc(nixlBlobDesc(address(memoryB), 64, 0, ""));
    ASSERT_OK(b->registerMem(half));
    load();
    EXPECT_THAT(taken(), ElementsAre("b updated: registrations: 1 new, 0 ended"));
    ASSERT_OK(b->deregisterMem(half));
    load();
    ASSERT_OK(b->deregisterMem(regions(memoryB)));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    load();
    EXPECT_THAT(taken(), ElementsAre("b updated: registrations: 0 new, 1 ended",
                                     "b updated: registrations: 1 new, 1 ended"));
    ASSERT_OK(a->invalidateRemoteMD("b"));
    load();
    EXPECT_THAT(taken(), ElementsAre("b left: the program removed it", "b joined: its metadata was loaded"));
}

TEST_F(PeerEventsTest, AnotherLifeOfAPeerMeansThatTheOldOneIsLost) {
    start();
    b = meet("b");
    EXPECT_THAT(taken(),
                ElementsAre("b lost: replaced by another life of it", "b joined: its metadata was loaded"));
}

TEST_F(PeerEventsTest, EventsHaveTheTimeWhenTheyWereSeen) {
    const auto before = std::chrono::system_clock::now();
    makeAgents();
    connect();
    const auto events = take();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_GE(events[0].when, before);
    EXPECT_LE(events[0].when, std::chrono::system_clock::now());
}

TEST_F(PeerEventsTest, StalledIsNotLost) {
    start();
    nixlXferReqH *request = simpleRequest();
    report(PeerChange::kStalled, "it does not answer");
    report(PeerChange::kStalled, "it does not answer");
    EXPECT_OK(known());
    EXPECT_OK(a->postXferReq(request)) << "nothing of it has ended";
    report(PeerChange::kResumed, "it answers");
    report(PeerChange::kResumed, "it answers");
    EXPECT_THAT(taken(), ElementsAre("b stalled: it does not answer", "b resumed: it answers"));
    EXPECT_OK(known());
}

TEST_F(PeerEventsTest, ALostPeerIsForgottenOnceItIsTold) {
    start();
    const auto c = meet("c");
    (void)taken();
    nixlXferReqH *request = simpleRequest();
    nixlDlistH *remote = nullptr, *local = nullptr;
    ASSERT_OK(a->prepXferDlist("b", blocks(memoryB, {{0, 8}}), remote));
    ASSERT_OK(a->prepXferDlist(blocks(memoryA, {{0, 8}}), local));
    report(PeerChange::kLost, "its process has ended");
    report(PeerChange::kLost, "it is told again");
    report(PeerChange::kStalled, "it does not answer");
    EXPECT_EQ(fake->live().peers, 2) << "nothing is closed on an engine's thread";
    EXPECT_THAT(taken(), ElementsAre("b lost: its process has ended"));
    EXPECT_STATUS(known(), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("'b' that it was made with is lost (its process has ended)"));
    nixlXferReqH *other = nullptr;
    EXPECT_STATUS(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, other), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_NOT_FOUND);
    EXPECT_OK(known("c"));
    EXPECT_OK(a->genNotif("c", "x"));
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_OK(a->releasedDlistH(remote));
    EXPECT_EQ(fake->live().peers, 1);
    load();
    EXPECT_THAT(taken(), ElementsAre("b joined: its metadata was loaded"));
    EXPECT_OK(a->postXferReq(simpleRequest()));
}

/// Each call, in a life of the peer of its own.
TEST_F(PeerEventsTest, TheFirstCallThatTouchesALostPeerSaysSo) {
    start();
    nixlXferReqH *request = nullptr;
    nixlDlistH *remote = nullptr, *local = nullptr;
    ASSERT_OK(a->prepXferDlist(blocks(memoryA, {{0, 8}}), local));
    const std::vector<std::function<nixl_status_t()>> calls{
        [&] { return a->postXferReq(request); },
        [&] { return a->genNotif("b", "x"); },
        [&] { return a->makeConnection("b"); },
        [&] {
            nixlDlistH *list = nullptr;
            return a->prepXferDlist("b", blocks(memoryB, {{0, 8}}), list);
        },
        [&] {
            nixlXferReqH *made = nullptr;
            return a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b",
                                    made);
        },
        [&] {
            nixlXferReqH *made = nullptr;
            return a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, made);
        },
        [&] {
            std::chrono::microseconds duration, margin;
            nixl_cost_t method;
            return a->estimateXferCost(request, duration, margin, method);
        },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
        request = simpleRequest();
        ASSERT_OK(a->prepXferDlist("b", blocks(memoryB, {{0, 8}}), remote));
        report(PeerChange::kLost, "its process has ended");
        EXPECT_STATUS(calls[i](), NIXL_ERR_REMOTE_DISCONNECT) << "call " << i;
        EXPECT_THAT(nixl_last_error(), HasSubstr("'b' is lost: its process has ended"));
        EXPECT_STATUS(calls[i](), NIXL_ERR_NOT_FOUND) << "call " << i;
        EXPECT_THAT(taken(), ElementsAre("b lost: its process has ended"));
        load();
        EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_NOT_FOUND) << "of the old life";
        EXPECT_OK(a->releaseXferReq(request));
        EXPECT_OK(a->releasedDlistH(remote));
        (void)taken();
    }
}

TEST_F(PeerEventsTest, RunsWithALostPeerEndAndOthersGoOn) {
    script([](FakeScript &s) { s.completion = FakeCompletion::kHeld; });
    start();
    const auto c = meet("c");
    (void)taken();
    nixlXferReqH *lost = simpleRequest(), *also = simpleRequest(), *other = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "c", other));
    for (nixlXferReqH *request : {lost, also, other})
        ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    report(PeerChange::kLost, "its process has ended");
    EXPECT_STATUS(a->getXferStatus(lost), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_THAT(nixl_last_error(), HasSubstr("its process has ended"));
    EXPECT_STATUS(known(), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->getXferStatus(also), NIXL_ERR_REMOTE_DISCONNECT)
        << "also if the peer is forgotten by now";
    EXPECT_STATUS(a->getXferStatus(other), NIXL_IN_PROG);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(other));
    EXPECT_STATUS(a->postXferReq(lost), NIXL_ERR_NOT_FOUND);
}

TEST_F(PeerEventsTest, WhatARequestFindsOutIsAnEventToo) {
    start();
    nixlXferReqH *request = simpleRequest();
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_REMOTE_DISCONNECT, "connection reset"); });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REMOTE_DISCONNECT);
    report(PeerChange::kLost, "its process has ended");
    EXPECT_THAT(taken(), ElementsAre("b lost: connection reset")) << "once";
}

TEST_F(PeerEventsTest, MetadataOfALostPeerMakesItAnew) {
    start();
    nixlXferReqH *old = simpleRequest();
    report(PeerChange::kLost, "the network was gone");
    load(); // the same life as far as the agent knows: its process runs on
    EXPECT_THAT(taken(), ElementsAre("b lost: the network was gone", "b joined: its metadata was loaded"));
    EXPECT_OK(known());
    EXPECT_STATUS(a->postXferReq(old), NIXL_ERR_NOT_FOUND);
    EXPECT_OK(a->postXferReq(simpleRequest()));
    report(PeerChange::kLost, "again");
    EXPECT_OK(a->invalidateRemoteMD("b"));
    EXPECT_THAT(taken(), ElementsAre("b lost: again")) << "a life ends once";
}

TEST_F(PeerEventsTest, ReportsOfPeersThatAreGoneMeanNothing) {
    start();
    const EngineConfig engine = fake->configs().front();
    const Peer *old = fake->peer("b");
    ASSERT_OK(a->invalidateRemoteMD("b"));
    ASSERT_EQ(fake->peer("b"), nullptr);
    engine.onPeerChange(old, PeerChange::kLost, "late");
    load(); // may be at the same address
    EXPECT_OK(known());
    EXPECT_OK(a->genNotif("b", "x"));
    EXPECT_THAT(taken(), ElementsAre("b left: the program removed it", "b joined: its metadata was loaded"));
    const Peer *fresh = fake->peer("b");
    a.reset();
    engine.onPeerChange(fresh, PeerChange::kLost, "the agent is gone");
}

TEST_F(PeerEventsTest, NoneIsLostSilently) {
    setenv("NIXL_PEER_EVENTS", "3", 1);
    start();
    for (int i = 0; i < 3; ++i) {
        report(PeerChange::kStalled, std::to_string(i));
        report(PeerChange::kResumed, std::to_string(i));
    }
    report(PeerChange::kLost, "its process has ended");
    const auto events = take();
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(text(events[0]), "b stalled: 2");
    EXPECT_EQ(events[0].dropped, 4U);
    EXPECT_EQ(events[1].dropped + events[2].dropped, 0U);
    load();
    EXPECT_EQ(take().front().dropped, 0U) << "told once";
}

TEST_F(PeerEventsTest, ALostPeerWhoseEventWasDroppedIsForgottenAllTheSame) {
    setenv("NIXL_PEER_EVENTS", "1", 1);
    start();
    report(PeerChange::kLost, "its process has ended");
    const auto c = meet("c");
    EXPECT_THAT(taken(), ElementsAre("c joined: its metadata was loaded"));
    EXPECT_EQ(fake->live().peers, 1);
}

TEST_F(PeerEventsTest, ReportsFromManyThreadsWhileTheProgramWorks) {
    start();
    std::atomic<bool> stop{false};
    std::vector<std::thread> engines;
    for (int i = 0; i < 2; ++i)
        engines.emplace_back([&] {
            while (!stop.load()) {
                fake->tellPeerChange("b", PeerChange::kLost, "gone");
                std::this_thread::yield();
            }
        });
    std::size_t joined = 0, lost = 0;
    const auto count = [&] {
        for (const nixlPeerEvent &event : take()) {
            joined += event.kind == nixlPeerEvent::Kind::kJoined;
            lost += event.kind == nixlPeerEvent::Kind::kLost;
        }
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int i = 0; i < 200 || (lost == 0 && std::chrono::steady_clock::now() < limit); ++i) {
        load();
        (void)a->genNotif("b", "x");
        count();
    }
    stop.store(true);
    for (std::thread &thread : engines)
        thread.join();
    (void)a->invalidateRemoteMD("b");
    count();
    EXPECT_GE(lost, 1U);
    EXPECT_LE(joined, lost + 1) << "every life ends once";
    EXPECT_GE(joined + 1, lost);
}

TEST_F(PeerEventsTest, AMessageThatIsNotDeliveredComesBack) {
    start();
    nixlWatch watch;
    ASSERT_OK(nixlWatchActivity(*a, watch));
    watch.clear();
    const std::string message("bytes\0of it", 11);
    script([](FakeScript &s) { s.undelivered = "the connection broke"; });
    EXPECT_OK(a->genNotif("b", message)) << "the engine had taken it";
    pollfd waited{watch.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 0), 1) << "who waits is woken";
    const auto events = take();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(text(events[0]), "b undelivered: the connection broke");
    EXPECT_EQ(events[0].message, message);
    EXPECT_OK(known()) << "the peer lives on";
    nixl_notifs_t notifs;
    EXPECT_OK(b->getNotifs(notifs));
    EXPECT_THAT(notifs, IsEmpty());
    script([](FakeScript &s) { s.undelivered.reset(); });
    EXPECT_OK(a->genNotif("b", "x"));
    EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(PeerEventsTest, MessagesOfLivesThatAreOverComeBackToo) {
    start();
    const EngineConfig engine = fake->configs().front();
    ASSERT_EQ(engine.agentName, "a");
    report(PeerChange::kLost, "its process has ended");
    fake->tellUndelivered("a", "b", "before its event is taken", "the peer is gone");
    EXPECT_THAT(taken(), ElementsAre("b lost: its process has ended", "b undelivered: the peer is gone"));
    fake->tellUndelivered("a", "b", "after", "the peer is gone");
    EXPECT_THAT(taken(), ElementsAre("b undelivered: the peer is gone"));
    EXPECT_STATUS(known(), NIXL_ERR_NOT_FOUND);
    load();
    EXPECT_THAT(taken(), ElementsAre("b joined: its metadata was loaded")) << "no life of it has begun";
    ASSERT_OK(a->invalidateRemoteMD("b"));
    fake->tellUndelivered("a", "b", "m", "given up");
    fake->tellUndelivered("a", "nobody", "m", "given up");
    EXPECT_THAT(taken(), ElementsAre("b left: the program removed it", "b undelivered: given up",
                                     "nobody undelivered: given up"));
    a.reset();
    engine.onUndelivered("b", "m", "the agent is gone");
}

TEST_F(PeerEventsTest, TheNewestMessagesAreKept) {
    setenv("NIXL_PEER_EVENTS", "2", 1);
    start();
    for (const char *message : {"1", "2", "3", "4"})
        fake->tellUndelivered("a", "b", message, "why");
    auto events = take();
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].message, "3");
    EXPECT_EQ(events[0].dropped, 2U);
    EXPECT_EQ(events[1].message, "4");
    EXPECT_EQ(events[1].dropped, 0U);
}

TEST_F(PeerEventsTest, TheBytesOfMessagesAreBounded) {
    setenv("NIXL_NOTIF_QUEUE_BYTES", "100", 1);
    start();
    for (int i = 0; i < 3; ++i)
        fake->tellUndelivered("a", "b", std::string(50, static_cast<char>('0' + i)), "why");
    auto events = take();
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].message.front(), '1');
    EXPECT_EQ(events[0].dropped, 1U);
    for (int i = 0; i < 2; ++i) { // what was taken counts no more
        fake->tellUndelivered("a", "b", std::string(50, 'x'), "why");
        fake->tellUndelivered("a", "b", std::string(101, 'y'), "why");
        events = take();
        ASSERT_EQ(events.size(), 1U) << "the newest stays, however long";
        EXPECT_EQ(events[0].message.front(), 'y');
        EXPECT_EQ(events[0].dropped, 1U);
    }
}

TEST_F(PeerEventsTest, EachMessageIsGivenToOneOfManyCallers) {
    constexpr int kMessages = 1000;
    start();
    std::atomic<bool> told{false};
    std::vector<std::vector<nixlPeerEvent>> got(3);
    std::vector<std::thread> threads;
    for (auto &mine : got)
        threads.emplace_back([&] {
            for (bool last = false; !last;) {
                last = told.load();
                EXPECT_OK(nixlPeerEvents(*a, mine));
            }
        });
    for (int i = 0; i < kMessages; ++i)
        fake->tellUndelivered("a", "b", std::to_string(i), "why");
    told.store(true);
    for (std::thread &thread : threads)
        thread.join();
    std::set<std::string> seen;
    std::size_t taken = 0, dropped = 0;
    for (const auto &mine : got) {
        int before = -1;
        for (const nixlPeerEvent &event : mine) {
            EXPECT_GT(std::stoi(event.message), before) << "in their order";
            before = std::stoi(event.message);
            seen.insert(event.message);
            dropped += event.dropped;
            ++taken;
        }
    }
    EXPECT_EQ(seen.size(), taken) << "none twice";
    EXPECT_EQ(taken + dropped, static_cast<std::size_t>(kMessages));
}

struct SomePeer : Peer {};

TEST(PeerEvents, EngineBySeveralOfWhichAPeerIsReachedStallItOnce) {
    int signals = 0;
    PeerEvents events(8, 1024, [&] { ++signals; });
    const SomePeer first, second;
    const auto life = std::make_shared<PeerLife>("b");
    events.watch(first, life);
    events.watch(second, life);
    events.report(&first, PeerChange::kStalled, "first");
    events.report(&second, PeerChange::kStalled, "second");
    events.report(&first, PeerChange::kResumed, "first");
    EXPECT_EQ(signals, 1);
    events.report(&second, PeerChange::kResumed, "second");
    EXPECT_EQ(signals, 2);
    events.forget(first);
    events.report(&first, PeerChange::kLost, "not watched");
    EXPECT_FALSE(life->lost());
    events.report(&second, PeerChange::kLost, "second");
    EXPECT_TRUE(life->lost());
    EXPECT_EQ(life->why(), "second");
    events.left(*life, "after its end");
    std::vector<nixlPeerEvent> out;
    events.take(out);
    EXPECT_EQ(out.size(), 3U);
    EXPECT_EQ(signals, 3) << "one for each event";
}

} // namespace
} // namespace nixl
