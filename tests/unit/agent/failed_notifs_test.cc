// What the target of a transfer hears if it fails.
#include "unit/agent/agent_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

namespace nixl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FailedNotifs : public AgentTest {
protected:
    ~FailedNotifs() override {
        unsetenv("NIXL_NOTIF_QUEUE_BYTES");
    }

    void
    start() {
        makeAgents();
        connect();
    }

    /// A request of a that brings b a message.
    nixlXferReqH *
    requestWith(const std::string &message) {
        nixl_opt_args_t args;
        args.notif = message;
        return simpleRequest(NIXL_WRITE, &args);
    }

    void
    fail(const std::string &message) {
        nixlXferReqH *request = requestWith(message);
        EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
        EXPECT_OK(a->releaseXferReq(request));
    }

    static std::vector<std::string>
    texts(const std::vector<nixlFailedNotif> &failed) {
        std::vector<std::string> texts;
        for (const nixlFailedNotif &one : failed)
            texts.push_back(one.peer + " " + one.message + ": " + one.why);
        return texts;
    }

    std::vector<std::string>
    atB() {
        std::vector<nixlFailedNotif> failed;
        EXPECT_OK(nixlFailedNotifs(*b, failed));
        return texts(failed);
    }
};

TEST_F(FailedNotifs, TheTargetHearsOfATransferThatFails) {
    start();
    nixlWatch watch;
    ASSERT_OK(nixlWatchActivity(*b, watch));
    watch.clear();
    EXPECT_THAT(atB(), IsEmpty());
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    fail("block 1");
    pollfd waited{watch.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 0), 1) << "who waits is woken";
    script([](FakeScript &s) {
        s.transfer = Status();
        s.post = Status(NIXL_ERR_BACKEND, "nothing can be started");
    });
    fail("block 2");
    std::vector<nixlFailedNotif> failed{{"kept", "", ""}};
    EXPECT_OK(nixlFailedNotifs(*b, failed));
    EXPECT_THAT(texts(failed),
                ElementsAre("kept : ", "a block 1: a bad cable", "a block 2: nothing can be started"))
        << "appended, oldest first";
    EXPECT_THAT(atB(), IsEmpty()) << "given once";
    nixl_notifs_t notifs;
    EXPECT_OK(b->getNotifs(notifs));
    EXPECT_THAT(notifs, IsEmpty()) << "no notification";
    std::vector<nixlFailedNotif> own;
    EXPECT_OK(nixlFailedNotifs(*a, own));
    EXPECT_THAT(own, IsEmpty()) << "the initiator has its error";
}

TEST_F(FailedNotifs, ATransferThatIsCancelledFailsToo) {
    script([](FakeScript &s) { s.completion = FakeCompletion::kHeld; });
    start();
    nixlXferReqH *request = requestWith("block 1");
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_THAT(atB(), IsEmpty());
    EXPECT_OK(nixlCancel(*a, request));
    EXPECT_THAT(atB(), ElementsAre("a block 1: cancelled"));
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG) << "the next run";
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_THAT(atB(), IsEmpty());
    nixl_notifs_t notifs;
    EXPECT_OK(b->getNotifs(notifs));
    EXPECT_THAT(notifs["a"], ElementsAre("block 1"));
}

TEST_F(FailedNotifs, WithoutAMessageNothingIsToldAndAnEmptyOneIsAMessage) {
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    start();
    EXPECT_STATUS(a->postXferReq(simpleRequest()), NIXL_ERR_BACKEND);
    EXPECT_THAT(atB(), IsEmpty());
    fail("");
    EXPECT_THAT(atB(), ElementsAre("a : a bad cable"));
}

TEST_F(FailedNotifs, ATransferWithinTheAgentTellsItself) {
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    start();
    nixl_opt_args_t args;
    args.notif = "to itself";
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", request,
                               &args));
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
    std::vector<nixlFailedNotif> failed;
    EXPECT_OK(nixlFailedNotifs(*a, failed));
    EXPECT_THAT(texts(failed), ElementsAre("a to itself: a bad cable"));
}

TEST_F(FailedNotifs, OfEveryEngine) {
    auto second = addEngine("SECOND");
    start();
    for (const auto &settings : {second, fake})
        settings->edit([&](FakeScript &s) { s.post = Status(NIXL_ERR_BACKEND, settings->name); });
    for (nixlBackendH *backend : backendsOfA) {
        nixl_opt_args_t args;
        args.backends = {backend};
        args.notif = "block";
        EXPECT_STATUS(a->postXferReq(simpleRequest(NIXL_WRITE, &args)), NIXL_ERR_BACKEND);
    }
    EXPECT_THAT(atB(), ::testing::UnorderedElementsAre("a block: FAKE", "a block: SECOND"));
}

TEST_F(FailedNotifs, EnginesWithoutNotificationsHaveNone) {
    fake->remote = false;
    fake->notifications = false;
    makeAgents();
    EXPECT_THAT(atB(), IsEmpty());
    const nixlAgentConfig config;
    nixlAgent bare("bare", config);
    std::vector<nixlFailedNotif> failed;
    EXPECT_OK(nixlFailedNotifs(bare, failed));
    EXPECT_THAT(failed, IsEmpty());
}

TEST_F(FailedNotifs, OfWhatNobodyTakesTheNewestAreKept) {
    setenv("NIXL_NOTIF_QUEUE_BYTES", "1000", 1);
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    start();
    test::LogCapture log;
    for (int i = 0; i < 5; ++i)
        fail(std::string(300, static_cast<char>('0' + i)));
    const auto left = atB();
    ASSERT_EQ(left.size(), 2U);
    EXPECT_EQ(left.back()[2], '4');
    EXPECT_EQ(log.count("nobody takes such words", LogLevel::kWarn), 3U);
}

TEST_F(FailedNotifs, EachIsGivenToOneOfManyCallers) {
    constexpr int kFailures = 500;
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    start();
    const test::LogCapture quiet;
    std::atomic<bool> told{false};
    std::vector<std::vector<nixlFailedNotif>> got(3);
    std::vector<std::thread> threads;
    for (auto &mine : got)
        threads.emplace_back([&] {
            for (bool last = false; !last;) {
                last = told.load();
                EXPECT_OK(nixlFailedNotifs(*b, mine));
            }
        });
    for (int i = 0; i < kFailures; ++i)
        fail(std::to_string(i));
    told.store(true);
    for (std::thread &thread : threads)
        thread.join();
    std::set<std::string> seen;
    std::size_t taken = 0;
    for (const auto &mine : got) {
        int before = -1;
        for (const nixlFailedNotif &failed : mine) {
            EXPECT_GT(std::stoi(failed.message), before) << "in their order";
            before = std::stoi(failed.message);
            seen.insert(failed.message);
            ++taken;
        }
    }
    EXPECT_EQ(taken, static_cast<std::size_t>(kFailures));
    EXPECT_EQ(seen.size(), taken) << "none twice";
}

TEST_F(FailedNotifs, AForkedChildIsRefused) {
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "a bad cable"); });
    start();
    fail("block 1");
    const pid_t child = fork();
    if (child == 0) {
        std::vector<nixlFailedNotif> failed;
        std::vector<nixlPeerEvent> events;
        const bool right = nixlFailedNotifs(*b, failed) == NIXL_ERR_NOT_ALLOWED && failed.empty() &&
                           nixlPeerEvents(*a, events) == NIXL_ERR_NOT_ALLOWED && events.empty();
        _exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(atB(), ElementsAre("a block 1: a bad cable")) << "the parent still has it";
}

} // namespace
} // namespace nixl
