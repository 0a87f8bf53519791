// How runs end before they are done: cancel, deadline, force.
#include "unit/agent/agent_fixture.h"

#include <stdlib.h>

#include <thread>

#include "agent/transfer_life.h"

namespace nixl {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

using Clock = std::chrono::steady_clock;

TEST(TransferLife, OnlyARunKeepsMemoryBusyAndOnlyQuietRequestsArePostedOrReleased) {
    for (std::size_t i = 0; i < kLives; ++i) {
        const auto life = static_cast<Life>(i);
        EXPECT_EQ(after(life, LifeEvent::kPost).has_value(), quiet(life) && life != Life::kReleased);
        EXPECT_EQ(after(life, LifeEvent::kRelease).has_value(), quiet(life) && life != Life::kReleased);
        EXPECT_EQ(after(life, LifeEvent::kSuccess).has_value(), !quiet(life));
        EXPECT_EQ(after(life, LifeEvent::kFailure).has_value(), !quiet(life));
        if (const auto cancelled = after(life, LifeEvent::kCancel); cancelled) {
            EXPECT_EQ(quiet(*cancelled), quiet(life)) << "a cancel makes nothing quiet by itself";
        }
    }
}

class Ending : public AgentTest {
protected:
    void
    SetUp() override {
        script([](FakeScript &s) { s.completion = FakeCompletion::kHeld; });
    }

    void
    TearDown() override {
        unsetenv("NIXL_TRANSFER_TIMEOUT_MS");
        unsetenv("NIXL_CUT_OFF_TIMEOUT_MS");
    }

    void
    start() {
        makeAgents();
        connect();
        before_ = memoryB;
    }

    void
    cancelsFail(bool fail) {
        script([&](FakeScript &s) { s.cancelFails = fail; });
    }

    bool
    isQuiet(const nixlXferReqH *request) {
        bool quiet = false;
        EXPECT_OK(nixlIsQuiet(*a, request, quiet));
        return quiet;
    }

    /// Asks until it is terminal.
    nixl_status_t
    outcome(nixlXferReqH *request) {
        const auto limit = Clock::now() + 20s;
        nixl_status_t status = a->getXferStatus(request);
        while (status == NIXL_IN_PROG && Clock::now() < limit) {
            std::this_thread::sleep_for(1ms);
            status = a->getXferStatus(request);
        }
        return status;
    }

    std::string before_; ///< memory of b
};

TEST_F(Ending, CancelEndsARunAndTheRequestCanBePostedAgain) {
    start();
    nixlXferReqH *request = simpleRequest();
    EXPECT_TRUE(isQuiet(request));
    EXPECT_OK(nixlCancel(*a, request)) << "nothing runs";
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_NOT_POSTED);
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_FALSE(isQuiet(request));
    EXPECT_OK(nixlCancel(*a, request));
    EXPECT_TRUE(isQuiet(request));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_CANCELED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("cancelled by the program"));
    EXPECT_EQ(memoryB, before_);
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_OK(nixlCancel(*a, request)) << "it is done, and stays so";
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_STATUS(nixlCancel(*a, request), NIXL_ERR_INVALID_PARAM);
}

TEST_F(Ending, ACancelledRunStaysInProgressUntilMemoryIsQuiet) {
    start();
    cancelsFail(true);
    nixlXferReqH *request = simpleRequest();
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(nixlCancel(*a, request), NIXL_IN_PROG);
    EXPECT_FALSE(isQuiet(request));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REPOST_ACTIVE);
    EXPECT_THAT(nixl_last_error(), HasSubstr("being cancelled"));
    cancelsFail(false);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_CANCELED);
    EXPECT_EQ(fake->count("cutOff"), 0U);
}

TEST_F(Ending, ARunThatIsDoneBeforeTheCancelTakesHoldIsDone) {
    start();
    cancelsFail(true);
    nixlXferReqH *request = simpleRequest();
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(nixlCancel(*a, request), NIXL_IN_PROG);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
}

TEST_F(Ending, WhatDoesNotEndIsCutOffAndIsStillCancelled) {
    setenv("NIXL_CUT_OFF_TIMEOUT_MS", "20", 1);
    start();
    cancelsFail(true);
    nixlXferReqH *request = simpleRequest();
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(nixlCancel(*a, request), NIXL_IN_PROG);
    EXPECT_STATUS(outcome(request), NIXL_ERR_CANCELED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("cancelled by the program"));
    EXPECT_EQ(fake->count("cutOff"), 1U);
    EXPECT_EQ(memoryB, before_);
    cancelsFail(false);
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG) << "the peer was not forgotten";
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
}

TEST_F(Ending, ADeadlineEndsARun) {
    start();
    nixlXferReqH *request = simpleRequest();
    const auto begin = Clock::now();
    ASSERT_STATUS(nixlPost(*a, request, 30ms), NIXL_IN_PROG);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    EXPECT_STATUS(outcome(request), NIXL_ERR_CANCELED);
    EXPECT_GE(Clock::now() - begin, 30ms);
    EXPECT_LT(Clock::now() - begin, 10 * (30ms + 500ms));
    EXPECT_THAT(nixl_last_error(), HasSubstr("not done after 30 ms"));
    EXPECT_THAT(nixl_last_error(), HasSubstr("'b'"));
    EXPECT_EQ(memoryB, before_);
    // The next run has no limit unless it is given one.
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    std::this_thread::sleep_for(60ms);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_STATUS(nixlPost(*a, request, -1ms), NIXL_ERR_INVALID_PARAM);
}

TEST_F(Ending, TheDeadlineOfTheOptionIsThatOfRunsWithoutOne) {
    setenv("NIXL_TRANSFER_TIMEOUT_MS", "30", 1);
    start();
    nixlXferReqH *request = simpleRequest();
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(outcome(request), NIXL_ERR_CANCELED);
    ASSERT_STATUS(nixlPost(*a, request, 0ms), NIXL_IN_PROG) << "no limit";
    std::this_thread::sleep_for(60ms);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
}

TEST_F(Ending, ReleaseSaysWhenItCannotAndCutsOffLater) {
    setenv("NIXL_CUT_OFF_TIMEOUT_MS", "150", 1);
    start();
    cancelsFail(true);
    nixlXferReqH *request = simpleRequest();
    ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(a->releaseXferReq(request), NIXL_ERR_REPOST_ACTIVE);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG) << "the handle can be asked";
    EXPECT_STATUS(outcome(request), NIXL_ERR_CANCELED);
    EXPECT_EQ(fake->count("cutOff"), 1U);
    EXPECT_OK(a->releaseXferReq(request));
}

TEST_F(Ending, AnAgentEndsAllItsRunsInTheTimeOfOne) {
    start();
    cancelsFail(true);
    for (int i = 0; i < 100; ++i)
        ASSERT_STATUS(a->postXferReq(simpleRequest()), NIXL_IN_PROG);
    const auto begin = Clock::now();
    a.reset();
    EXPECT_LT(Clock::now() - begin, 10 * 5s);
    EXPECT_EQ(fake->count("cutOff"), 100U);
    EXPECT_EQ(memoryB, before_);
}

TEST_F(Ending, DrainWaitsAndThenCancels) {
    setenv("NIXL_LOCAL_QUIESCE_TIMEOUT_MS", "100", 1);
    start();
    EXPECT_OK(nixlDrain(*a, 0ms)) << "there is nothing";
    std::vector<nixlXferReqH *> requests{simpleRequest(), simpleRequest(), simpleRequest()};
    for (std::size_t i = 0; i < 2; ++i)
        ASSERT_STATUS(a->postXferReq(requests[i]), NIXL_IN_PROG);
    std::thread engine([&] {
        std::this_thread::sleep_for(50ms);
        fake->releaseAll();
    });
    EXPECT_OK(nixlDrain(*a, 60s)) << "they ended by themselves";
    engine.join();
    EXPECT_EQ(fake->count("cancel"), 0U);
    for (std::size_t i = 0; i < 2; ++i)
        EXPECT_OK(a->getXferStatus(requests[i]));
    EXPECT_STATUS(a->getXferStatus(requests[2]), NIXL_ERR_NOT_POSTED);

    for (nixlXferReqH *request : requests)
        ASSERT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_OK(nixlDrain(*a, 0ms));
    for (nixlXferReqH *request : requests) {
        EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_CANCELED);
        EXPECT_THAT(nixl_last_error(), HasSubstr("waited long enough"));
        EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG) << "requests stay";
    }
    cancelsFail(true);
    EXPECT_STATUS(nixlDrain(*a, 0ms), NIXL_IN_PROG) << "local memory is not quiet";
    cancelsFail(false);
    EXPECT_OK(nixlDrain(*a, 0ms));
    unsetenv("NIXL_LOCAL_QUIESCE_TIMEOUT_MS");
}

} // namespace
} // namespace nixl
