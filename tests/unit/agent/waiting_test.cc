// Waiting for transfers and messages instead of asking again and again.
#include "unit/agent/agent_fixture.h"

#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
#define NIXL_TEST_HAS_LSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NIXL_TEST_HAS_LSAN 1
#endif
#endif
#if NIXL_TEST_HAS_LSAN
#include <sanitizer/lsan_interface.h>
#endif

namespace nixl {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = std::chrono::steady_clock;

/// What is left behind on purpose within its scope is not reported.
#if NIXL_TEST_HAS_LSAN
using MeantLeak = __lsan::ScopedDisabler;
#else
struct MeantLeak {
    MeantLeak() {}
};
#endif

std::chrono::nanoseconds
cpuTime() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

class Waiting : public AgentTest {
protected:
    void
    start(FakeCompletion completion) {
        script([&](FakeScript &s) { s.completion = completion; });
        makeAgents();
        connect();
    }

    nixlXferReqH *
    posted() {
        nixlXferReqH *request = simpleRequest();
        EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
        return request;
    }

    /// A call in another thread that sleeps by the time this returns.
    template<typename Call>
    std::future<nixl_status_t>
    asleep(Call call) {
        const std::size_t before = fake->count("watch");
        auto result = std::async(std::launch::async, call);
        while (fake->count("watch") == before)
            std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(1ms); // from the last question to the sleep
        return result;
    }
};

TEST_F(Waiting, WhatIsNotInProgressIsAnsweredAtOnce) {
    start(FakeCompletion::kInline);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(nixlWait(*a, request), NIXL_ERR_NOT_POSTED);
    EXPECT_OK(a->postXferReq(request));
    EXPECT_OK(nixlWait(*a, request));
    EXPECT_OK(nixlWait(*a, request, 0s));
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "bad block 7"); });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
    EXPECT_STATUS(nixlWait(*a, request), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("bad block 7"));
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_STATUS(nixlWait(*a, request), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(nixlWait(*a, nullptr), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(fake->count("watch"), 0u) << "nobody slept";
}

TEST_F(Waiting, EndsWithTheTransfer) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    auto result = asleep([&] { return nixlWait(*a, request); });
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(result.get());
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
}

TEST_F(Waiting, TheTimeoutIsKept) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    std::size_t which = 99;
    nixl_notifs_t notifs;
    const auto begin = Clock::now();
    EXPECT_STATUS(nixlWait(*a, request, 20ms), NIXL_IN_PROG);
    EXPECT_STATUS(nixlWaitAny(*a, {&request, 1}, which, 20ms), NIXL_IN_PROG);
    EXPECT_STATUS(nixlWaitAll(*a, {&request, 1}, 20ms), NIXL_IN_PROG);
    EXPECT_STATUS(nixlWaitNotifs(*a, notifs, 20ms), NIXL_IN_PROG);
    const auto waited = Clock::now() - begin;
    EXPECT_GE(waited, 80ms);
    EXPECT_LT(waited, 800ms);
    EXPECT_STATUS(nixlWait(*a, request, 0s), NIXL_IN_PROG);
    EXPECT_STATUS(nixlWait(*a, request, -1s), NIXL_IN_PROG);
    EXPECT_EQ(which, 99u);
    EXPECT_THAT(notifs, IsEmpty());
    fake->releaseAll();
}

TEST_F(Waiting, ASleepingThreadUsesNoProcessor) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    std::chrono::nanoseconds used{};
    auto result = asleep([&] {
        const auto before = cpuTime();
        const nixl_status_t status = nixlWait(*a, request, 300ms);
        used = cpuTime() - before;
        return status;
    });
    // What concerns others wakes it, and no more than that.
    nixl_notifs_t notifs;
    for (int i = 0; i < 5; ++i)
        EXPECT_OK(a->genNotif("a", "x"));
    EXPECT_STATUS(result.get(), NIXL_IN_PROG);
    EXPECT_LT(used, 60ms);
    EXPECT_LE(fake->count("watch"), 10u) << "it slept so often";
    fake->releaseAll();
}

TEST_F(Waiting, AFailureIsNewsForTheWaiter) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    std::size_t which = 99;
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "bad block 7"); });
    fake->releaseAll();
    EXPECT_OK(nixlWaitAny(*a, {&request, 1}, which)) << "that it has ended, not how";
    test::LogCapture log;
    EXPECT_STATUS(nixlWait(*a, request), NIXL_ERR_BACKEND);
    EXPECT_EQ(log.count("bad block 7", LogLevel::kError), 1u);
    EXPECT_THAT(nixl_last_error(), HasSubstr("bad block 7"));
}

TEST_F(Waiting, OthersEndTheWait) {
    start(FakeCompletion::kHeld);
    {
        nixlXferReqH *request = posted();
        auto result = asleep([&] { return nixlWait(*a, request); });
        EXPECT_OK(a->releaseXferReq(request));
        const nixl_status_t answer = result.get();
        EXPECT_TRUE(answer == NIXL_ERR_INVALID_PARAM || answer == NIXL_ERR_CANCELED) << name(answer);
    }
    {
        nixlXferReqH *request = posted();
        auto result = asleep([&] { return nixlWait(*a, request); });
        EXPECT_OK(nixlCancel(*a, request));
        EXPECT_STATUS(result.get(), NIXL_ERR_CANCELED);
    }
    {
        nixlXferReqH *request = posted();
        auto result = asleep([&] { return nixlWait(*a, request); });
        EXPECT_OK(a->deregisterMem(regions(memoryA)));
        EXPECT_STATUS(result.get(), NIXL_ERR_CANCELED);
        EXPECT_OK(a->registerMem(regions(memoryA)));
    }
    {
        nixlXferReqH *request = posted();
        auto result = asleep([&] { return nixlWait(*a, request); });
        EXPECT_OK(a->invalidateRemoteMD("b"));
        EXPECT_STATUS(result.get(), NIXL_ERR_NOT_FOUND);
        load();
    }
    {
        nixlXferReqH *request = posted();
        auto result = asleep([&] { return nixlWait(*a, request); });
        script([](FakeScript &s) { s.gone = {"b"}; });
        EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_REMOTE_DISCONNECT);
        EXPECT_LT(result.get(), NIXL_SUCCESS);
        script([](FakeScript &s) { s.gone.clear(); });
    }
}

TEST_F(Waiting, AnyTellsTheFirstThatIsNotInProgress) {
    start(FakeCompletion::kHeld);
    std::vector<nixlXferReqH *> requests{posted(), posted(), posted()};
    std::size_t which = 99;
    EXPECT_STATUS(nixlWaitAny(*a, {}, which), NIXL_ERR_INVALID_PARAM);
    auto result = asleep([&] { return nixlWaitAny(*a, requests, which); });
    EXPECT_OK(nixlCancel(*a, requests[1]));
    EXPECT_OK(result.get());
    EXPECT_EQ(which, 1u);
    requests[1] = simpleRequest();
    EXPECT_OK(nixlWaitAny(*a, requests, which)) << "it was never posted";
    EXPECT_EQ(which, 1u);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(nixlWaitAny(*a, requests, which));
    EXPECT_EQ(which, 0u);
    requests.erase(requests.begin(), requests.begin() + 2);
    EXPECT_OK(a->releaseXferReq(requests[0]));
    EXPECT_OK(nixlWaitAny(*a, requests, which)) << "it was released";
    EXPECT_EQ(which, 0u);
}

TEST_F(Waiting, AllWaitsForTheLastAndTellsTheFirstFailure) {
    start(FakeCompletion::kHeld);
    std::vector<nixlXferReqH *> requests{posted(), posted(), posted()};
    EXPECT_OK(nixlWaitAll(*a, {}));
    auto result = asleep([&] { return nixlWaitAll(*a, requests); });
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_EQ(result.wait_for(20ms), std::future_status::timeout) << "one is left";
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(result.get());

    for (nixlXferReqH *request : requests)
        EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    result = asleep([&] { return nixlWaitAll(*a, requests); });
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_BACKEND, "bad block 7"); });
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_EQ(result.wait_for(20ms), std::future_status::timeout) << "two are left";
    script([](FakeScript &s) { s.transfer = Status(); });
    EXPECT_EQ(fake->releaseAll(), 2u);
    EXPECT_STATUS(result.get(), NIXL_ERR_BACKEND);
    EXPECT_STATUS(nixlWaitAll(*a, requests), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("bad block 7"));
}

TEST_F(Waiting, EndsWithAMessage) {
    start(FakeCompletion::kInline);
    nixl_notifs_t notifs{{"b", {"old"}}};
    auto result = asleep([&] { return nixlWaitNotifs(*b, notifs); });
    EXPECT_OK(a->genNotif("b", ""));
    EXPECT_OK(result.get());
    EXPECT_THAT(notifs["a"], ElementsAre(""));
    EXPECT_THAT(notifs["b"], ElementsAre("old"));

    nixl_opt_args_t args;
    args.notif = "with data";
    result = asleep([&] { return nixlWaitNotifs(*b, notifs); });
    EXPECT_OK(a->postXferReq(simpleRequest(NIXL_WRITE, &args)));
    EXPECT_OK(result.get());
    EXPECT_THAT(notifs["a"], ElementsAre("", "with data")) << "appended, as getNotifs does";

    script([](FakeScript &s) { s.takeNotifications = Status(NIXL_ERR_BACKEND, "broken"); });
    EXPECT_STATUS(nixlWaitNotifs(*b, notifs), NIXL_ERR_BACKEND);
}

TEST_F(Waiting, AnEngineThatTellsNothingIsAsked) {
    script([](FakeScript &s) {
        s.silent = true;
        s.watches = false;
    });
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    auto result = asleep([&] { return nixlWait(*a, request); });
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(result.get());
    nixl_notifs_t notifs;
    result = asleep([&] { return nixlWaitNotifs(*b, notifs); });
    EXPECT_OK(a->genNotif("b", "x"));
    EXPECT_OK(result.get());
    nixlWatch watch;
    EXPECT_STATUS(nixlWatchActivity(*a, watch), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_FALSE(watch);
}

TEST_F(Waiting, TheWaiterDoesWhatCanBeDoneAndThenSleeps) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    std::atomic<int> helped{0};
    script([&](FakeScript &s) {
        s.help = [&] {
            if (++helped == 5)
                script([](FakeScript &inner) { inner.help = nullptr; });
        };
    });
    auto result = asleep([&] { return nixlWait(*a, request); });
    EXPECT_EQ(helped, 5);
    EXPECT_EQ(fake->count("watch"), 1u);
    fake->releaseAll();
    EXPECT_OK(result.get());
}

TEST_F(Waiting, NoEndIsMissedByManyThreadsThatWaitShortly) {
    constexpr int kThreads = 4, kRounds = 500;
    start(FakeCompletion::kWorker);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            nixlXferReqH *request = simpleRequest();
            for (int round = 0; round < kRounds; ++round) {
                const nixl_status_t begun = a->postXferReq(request);
                ASSERT_TRUE(begun == NIXL_IN_PROG || begun == NIXL_SUCCESS);
                ASSERT_OK(nixlWait(*a, request, 60s));
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(Waiting, AWatchIsReadableWhenSomethingHappened) {
    start(FakeCompletion::kHeld);
    nixlWatch none, first, second;
    EXPECT_EQ(none.fd(), -1);
    none.clear();
    ASSERT_OK(nixlWatchActivity(*a, first));
    ASSERT_OK(nixlWatchActivity(*a, second));
    const auto readable = [](const nixlWatch &watch) {
        pollfd waited{watch.fd(), POLLIN, 0};
        return ::poll(&waited, 1, 0) == 1;
    };
    nixlXferReqH *request = posted();
    EXPECT_FALSE(readable(first));
    fake->releaseAll();
    EXPECT_TRUE(readable(first));
    first.clear();
    EXPECT_FALSE(readable(first));
    EXPECT_TRUE(readable(second)) << "each has events of its own";
    EXPECT_OK(a->releaseXferReq(request));
    a.reset();
    first.clear();
    EXPECT_GE(first.fd(), 0) << "it outlives the agent";
}

TEST_F(Waiting, EnginesThatComeLaterAreWatchedToo) {
    useRegistry();
    a = std::make_unique<nixlAgent>("a", nixlAgentConfig());
    nixlWatch watch;
    ASSERT_OK(nixlWatchActivity(*a, watch));
    EXPECT_EQ(fake->count("watch"), 0u);
    nixlBackendH *backend = nullptr;
    ASSERT_OK(a->createBackend("FAKE", {}, backend));
    EXPECT_EQ(fake->count("watch"), 1u);
}

TEST_F(Waiting, AForkedChildIsRefused) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = posted();
    nixlWatch watch;
    ASSERT_OK(nixlWatchActivity(*a, watch));
    EXPECT_OK(a->genNotif("a", "an event"));
    const pid_t child = fork();
    if (child == 0) {
        nixlWatch other;
        nixl_notifs_t notifs;
        std::size_t which = 0;
        const bool right = nixlWait(*a, request) == NIXL_ERR_NOT_ALLOWED &&
                           nixlWaitAny(*a, {&request, 1}, which) == NIXL_ERR_NOT_ALLOWED &&
                           nixlWaitAll(*a, {&request, 1}) == NIXL_ERR_NOT_ALLOWED &&
                           nixlWaitNotifs(*a, notifs) == NIXL_ERR_NOT_ALLOWED &&
                           nixlCancel(*a, request) == NIXL_ERR_NOT_ALLOWED &&
                           nixlWatchActivity(*a, other) == NIXL_ERR_NOT_ALLOWED;
        watch.clear();
        watch = nixlWatch();
        _exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    pollfd waited{watch.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 0), 1) << "the parent's event is there";
    fake->releaseAll();
    EXPECT_OK(nixlWait(*a, request));
}

TEST_F(Waiting, CancelTellsWhenMemoryIsQuiet) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_OK(nixlCancel(*a, request)) << "nothing is in progress";
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_NOT_POSTED);
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.cancelFails = true; });
    EXPECT_STATUS(nixlCancel(*a, request), NIXL_IN_PROG);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.cancelFails = false; });
    EXPECT_OK(nixlCancel(*a, request));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_CANCELED);
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG) << "it can be posted again";
    fake->releaseAll();
    EXPECT_OK(nixlCancel(*a, request));
    EXPECT_OK(a->getXferStatus(request)) << "it had ended";
    EXPECT_STATUS(nixlCancel(*a, nullptr), NIXL_ERR_INVALID_PARAM);
}

TEST_F(Waiting, WhatCannotBeStoppedMaySignalAfterTheEndOfTheAgent) {
    // What is left over is left for ever, so settings of its own, whose counts nobody checks.
    const auto stubborn = std::make_shared<FakeSettings>();
    overrideProcessRegistry(std::make_shared<EngineRegistry>(
        std::vector<std::shared_ptr<EngineFactory>>{std::make_shared<FakeEngineFactory>(stubborn)},
        std::vector<ModuleAdapter>(), std::vector<std::string>()));
    stubborn->edit([](FakeScript &s) {
        s.completion = FakeCompletion::kHeld;
        s.cancelFails = s.cutOffFails = true;
    });
    a = std::make_unique<nixlAgent>("a", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    ASSERT_OK(a->createBackend("FAKE", {}, backend));
    ASSERT_OK(a->registerMem(regions(memoryA)));
    nixlXferReqH *request = nullptr;
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryA, {{8, 8}}), "a", request));
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    nixlWatch watch;
    ASSERT_OK(nixlWatchActivity(*a, watch));
    {
        const MeantLeak leak;
        a.reset();
    }
    EXPECT_EQ(stubborn->releaseAll(), 1u);
    pollfd waited{watch.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 0), 1);
}

} // namespace
} // namespace nixl
