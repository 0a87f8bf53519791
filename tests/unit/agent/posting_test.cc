// The life of a request: post, status, re-post, failure, cancellation, release.
#include "unit/agent/agent_fixture.h"

#include <atomic>
#include <future>
#include <thread>

#include "support/temp_dir.h"

namespace nixl {
namespace {

using ::testing::HasSubstr;

class Posting : public AgentTest {
protected:
    void
    start(FakeCompletion completion = FakeCompletion::kInline,
          const nixlAgentConfig &config = nixlAgentConfig()) {
        script([&](FakeScript &s) { s.completion = completion; });
        makeAgents(config);
        connect();
    }
};

TEST_F(Posting, WriteAndReadMoveTheBytes) {
    start();
    nixlXferReqH *write = simpleRequest(NIXL_WRITE);
    EXPECT_STATUS(a->getXferStatus(write), NIXL_ERR_NOT_POSTED);
    EXPECT_OK(a->postXferReq(write));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
    EXPECT_OK(a->getXferStatus(write));
    fill();
    nixlXferReqH *read = simpleRequest(NIXL_READ);
    EXPECT_OK(a->postXferReq(read));
    EXPECT_EQ(memoryA.substr(0, 64), memoryB.substr(0, 64));
    memoryB.assign(memoryB.size(), '!');
    EXPECT_OK(a->postXferReq(read)) << "again and again";
    EXPECT_EQ(memoryA.substr(0, 64), std::string(64, '!'));
    nixlBackendH *backend = nullptr;
    EXPECT_OK(a->queryXferBackend(read, backend));
    EXPECT_EQ(backend, backendsOfA[0]);
}

TEST_F(Posting, ASecondPostWhileTheFirstRuns) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REPOST_ACTIVE);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG) << "the refused post changed nothing";
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG) << "done meanwhile, so it starts again";
    EXPECT_TRUE(fake->releaseOne());
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_OK(a->releaseXferReq(request));
}

TEST_F(Posting, WhoeverHelpsKeepsNobodyFromReleasing) {
    start(FakeCompletion::kHeld);
    for (const bool deregister : {false, true}) {
        nixlXferReqH *request = simpleRequest();
        std::promise<void> entered, leave;
        std::atomic<int> helped{0};
        script([&](FakeScript &s) {
            s.help = [&] {
                if (helped++ > 0)
                    return;
                entered.set_value();
                leave.get_future().wait();
            };
        });
        EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
        std::future<nixl_status_t> asked =
            std::async(std::launch::async, [&] { return a->getXferStatus(request); });
        entered.get_future().wait();
        if (deregister) {
            EXPECT_OK(a->deregisterMem(regions(memoryA)));
            EXPECT_LT(a->getXferStatus(request), NIXL_SUCCESS);
        }
        EXPECT_OK(a->releaseXferReq(request));
        leave.set_value();
        EXPECT_LT(asked.get(), NIXL_SUCCESS) << "the request is gone";
        EXPECT_EQ(helped, 1) << "only who asks for the state helps";
    }
}

TEST_F(Posting, FailuresAreReportedWithTheirCauseAndCanBePostedAgain) {
    start();
    nixlXferReqH *request = simpleRequest();
    script([](FakeScript &s) { s.post = Status(NIXL_ERR_BACKEND, "queue full"); });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("queue full"));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_BACKEND) << "the state is kept";
    script([](FakeScript &s) {
        s.post = Status();
        s.transfer = Status(NIXL_ERR_BACKEND, "bad address in block 7");
    });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("block 7"));
    script([](FakeScript &s) { s.transfer = Status(); });
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
}

TEST_F(Posting, ADisconnectedPeerIsForgotten) {
    start();
    nixlXferReqH *request = simpleRequest(), *other = simpleRequest();
    script([](FakeScript &s) { s.gone = {"b"}; });
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_STATUS(a->postXferReq(other), NIXL_ERR_NOT_FOUND) << "requests to it are stale";
    EXPECT_STATUS(a->genNotif("b", "x"), NIXL_ERR_NOT_FOUND);
    script([](FakeScript &s) { s.gone.clear(); });
    load();
    EXPECT_STATUS(a->postXferReq(other), NIXL_ERR_NOT_FOUND);
    EXPECT_OK(a->postXferReq(simpleRequest()));
}

TEST_F(Posting, ADisconnectSeenWhileItRuns) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_REMOTE_DISCONNECT, "peer died"); });
    fake->releaseAll();
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_REMOTE_DISCONNECT) << "the re-post sees it";
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
}

TEST_F(Posting, AnInvalidatedPeerEndsWhatRuns) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest(), *finished = simpleRequest();
    EXPECT_STATUS(a->postXferReq(finished), NIXL_IN_PROG);
    fake->releaseAll();
    EXPECT_OK(a->getXferStatus(finished));
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    ASSERT_OK(a->invalidateRemoteMD("b"));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(fake->held(), 0u) << "it was cancelled";
    EXPECT_OK(a->getXferStatus(finished)) << "a finished state survives";
}

TEST_F(Posting, ReleaseCancels) {
    start(FakeCompletion::kHeld);
    const std::string before = memoryB;
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_EQ(fake->held(), 0u);
    EXPECT_EQ(memoryB, before);
    EXPECT_EQ(fake->live().requests, 0);
    // The handle is gone for every call.
    nixl_xfer_telem_t times;
    nixlBackendH *backend = nullptr;
    nixlPathExplanation explanation;
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->releaseXferReq(request), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->queryXferBackend(request, backend), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(nixlExplain(*a, request, explanation), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->getXferTelemetry(request, times), NIXL_ERR_NO_TELEMETRY) << "looked at first";
    EXPECT_STATUS(a->postXferReq(nullptr), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->getXferStatus(nullptr), NIXL_ERR_INVALID_PARAM);
}

TEST_F(Posting, ReleaseRefusesWhileMemoryIsNotQuietAndTheHandleLives) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.cancelFails = true; });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_STATUS(a->releaseXferReq(request), NIXL_ERR_REPOST_ACTIVE);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG);
    fake->releaseAll();
    EXPECT_OK(a->getXferStatus(request));
    EXPECT_OK(a->releaseXferReq(request));
}

TEST_F(Posting, DeregistrationEndsTransfersThatUseTheMemory) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_OK(a->deregisterMem(regions(memoryA)));
    EXPECT_EQ(fake->held(), 0u);
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_CANCELED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("deregistered"));
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_NOT_FOUND);
}

TEST_F(Posting, DeregistrationFailsWhileATransferCannotBeStopped) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.cancelFails = s.cutOffFails = true; });
    EXPECT_STATUS(a->deregisterMem(regions(memoryA)), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("'b'"));
    fake->releaseAll();
    EXPECT_OK(a->deregisterMem(regions(memoryA)));
    EXPECT_OK(a->getXferStatus(request));
}

TEST_F(Posting, AnAgentMayEndWithTransfersUnderWay) {
    start(FakeCompletion::kHeld);
    for (int i = 0; i < 10; ++i)
        EXPECT_STATUS(a->postXferReq(simpleRequest()), NIXL_IN_PROG);
    a.reset();
    EXPECT_EQ(fake->held(), 0u);
}

TEST_F(Posting, Telemetry) {
    start(FakeCompletion::kHeld,
          nixlAgentConfig(false, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE, 1, 0, 0, true));
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}, {8, 8}, {32, 8}}),
                               blocks(memoryB, {{0, 8}, {8, 8}, {64, 8}}), "b", request));
    nixl_xfer_telem_t times;
    EXPECT_STATUS(a->getXferTelemetry(request, times), NIXL_ERR_NOT_POSTED);
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    EXPECT_STATUS(a->getXferTelemetry(request, times), NIXL_IN_PROG);
    fake->releaseAll();
    EXPECT_OK(a->getXferTelemetry(request, times));
    EXPECT_EQ(times.totalBytes, 24u);
    EXPECT_EQ(times.descCount, 2u) << "after merging";
    EXPECT_GT(times.startTime.count(), 0);
    EXPECT_GE(times.xferDuration, times.postDuration);
}

TEST_F(Posting, WithoutTelemetryThereIsNone) {
    start();
    nixlXferReqH *request = simpleRequest();
    ASSERT_OK(a->postXferReq(request));
    nixl_xfer_telem_t times;
    EXPECT_STATUS(a->getXferTelemetry(request, times), NIXL_ERR_NO_TELEMETRY);
}

TEST_F(Posting, CostEstimates) {
    start();
    nixlXferReqH *request = simpleRequest();
    std::chrono::microseconds duration{}, margin{};
    nixl_cost_t method{};
    EXPECT_STATUS(a->estimateXferCost(request, duration, margin, method), NIXL_ERR_NOT_SUPPORTED);
    script([](FakeScript &s) { s.estimate = {std::chrono::microseconds(12), std::chrono::microseconds(3)}; });
    EXPECT_OK(a->estimateXferCost(request, duration, margin, method));
    EXPECT_EQ(duration.count(), 12);
    EXPECT_EQ(margin.count(), 3);
    EXPECT_EQ(method, nixl_cost_t::ANALYTICAL_BACKEND);
    EXPECT_STATUS(a->estimateXferCost(nullptr, duration, margin, method), NIXL_ERR_INVALID_PARAM);
}

// C12, the core's part: nothing is left of requests and lists, made well or not.
TEST_F(Posting, C12_NothingIsLeftOfManyRequests) {
    start();
    const int rounds = std::getenv("TEST_FULL") ? 1000000 : 20000;
    test::LogCapture quiet;
    for (int i = 0; i < rounds; ++i) {
        nixlXferReqH *request = simpleRequest();
        ASSERT_EQ(a->postXferReq(request), NIXL_SUCCESS);
        ASSERT_EQ(a->releaseXferReq(request), NIXL_SUCCESS);
        if (i % 10 == 0) {
            nixlDlistH *list = nullptr;
            ASSERT_EQ(a->prepXferDlist(blocks(memoryB, {{0, 8}}), list), NIXL_ERR_NOT_FOUND);
            if (i % 1000 == 0)
                fake->clearCalls();
        }
    }
    EXPECT_EQ(fake->live().requests, 0);
}

TEST_F(Posting, ManyThreadsUseOneAgent) {
    start(FakeCompletion::kWorker);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) {
                nixlXferReqH *request = nullptr;
                const std::size_t at = static_cast<std::size_t>(t) * 64;
                const nixl_status_t made = a->createXferReq(NIXL_WRITE, blocks(memoryA, {{at, 64}}),
                                                            blocks(memoryB, {{at, 64}}), "b", request);
                if (made != NIXL_SUCCESS) {
                    EXPECT_EQ(name(made), name(NIXL_ERR_NOT_FOUND)) << "only while b is invalidated";
                    continue;
                }
                nixl_status_t status = a->postXferReq(request);
                while (status == NIXL_IN_PROG)
                    status = a->getXferStatus(request);
                EXPECT_TRUE(status == NIXL_SUCCESS || status == NIXL_ERR_NOT_FOUND) << name(status);
                EXPECT_EQ(a->releaseXferReq(request), NIXL_SUCCESS);
            }
        });
    }
    threads.emplace_back([&] {
        std::string other(128, 'o');
        while (!stop) {
            EXPECT_EQ(a->registerMem(regions(other)), NIXL_SUCCESS);
            EXPECT_EQ(a->deregisterMem(regions(other)), NIXL_SUCCESS);
        }
    });
    threads.emplace_back([&] {
        nixl_blob_t blob;
        std::string who;
        while (!stop) {
            EXPECT_EQ(a->invalidateRemoteMD("b"), NIXL_SUCCESS);
            EXPECT_EQ(b->getLocalMD(blob), NIXL_SUCCESS);
            EXPECT_EQ(a->loadRemoteMD(blob, who), NIXL_SUCCESS);
        }
    });
    threads.emplace_back([&] {
        nixl_notifs_t notifs;
        while (!stop) {
            (void)a->genNotif("b", "hello");
            EXPECT_EQ(b->getNotifs(notifs), NIXL_SUCCESS);
        }
    });
    test::LogCapture quiet;
    for (int t = 0; t < 3; ++t)
        threads[static_cast<std::size_t>(t)].join();
    stop = true;
    for (std::size_t t = 3; t < threads.size(); ++t)
        threads[t].join();
    nixlXferReqH *request = simpleRequest();
    nixl_status_t status = a->postXferReq(request);
    while (status == NIXL_IN_PROG)
        status = a->getXferStatus(request);
    EXPECT_OK(status);
    EXPECT_EQ(memoryB.substr(0, 64), memoryA.substr(0, 64));
}

TEST_F(Posting, AFailureIsLoggedAndCountedOnce) {
    start();
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_NOT_POSTED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("never posted"));
    script([](FakeScript &s) { s.post = Status(NIXL_ERR_BACKEND, "queue full"); });
    test::LogCapture log;
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_BACKEND);
    std::string who;
    (void)a->loadRemoteMD("rubbish", who);
    for (int i = 0; i < 5; ++i) {
        EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_BACKEND);
        EXPECT_THAT(nixl_last_error(), HasSubstr("queue full"))
            << "the text of this failure, not of the last one";
    }
    EXPECT_EQ(log.count("queue full"), 1u);
}

TEST_F(Posting, OperationsAreReadOrWrite) {
    start();
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(a->createXferReq(static_cast<nixl_xfer_op_t>(7), blocks(memoryA, {{0, 8}}),
                                   blocks(memoryB, {{0, 8}}), "b", request),
                  NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), HasSubstr("operation 7"));
}

TEST_F(Posting, ATransferThatEndsAfterItsPeerWasForgottenIsStale) {
    start(FakeCompletion::kHeld);
    nixlXferReqH *request = simpleRequest();
    EXPECT_STATUS(a->postXferReq(request), NIXL_IN_PROG);
    script([](FakeScript &s) { s.cancelFails = true; });
    ASSERT_OK(a->invalidateRemoteMD("b"));
    EXPECT_STATUS(a->getXferStatus(request), NIXL_IN_PROG) << "memory is not quiet yet";
    script([](FakeScript &s) { s.transfer = Status(NIXL_ERR_CANCELED, "cancelled at last"); });
    fake->releaseAll();
    EXPECT_STATUS(a->getXferStatus(request), NIXL_ERR_NOT_FOUND);
}

// One handle in two hands: whoever comes after the release is refused, and nothing is destroyed under a
// transfer.
TEST_F(Posting, OneHandlePostedAndReleasedAtTheSameTime) {
    start(FakeCompletion::kWorker);
    test::LogCapture quiet;
    for (int round = 0; round < 500; ++round) {
        nixlXferReqH *request = simpleRequest();
        std::vector<std::thread> posters;
        for (int i = 0; i < 3; ++i) {
            posters.emplace_back([&] {
                nixl_status_t status = NIXL_SUCCESS;
                while (status >= 0 || status == NIXL_ERR_REPOST_ACTIVE)
                    status = a->postXferReq(request);
                EXPECT_EQ(name(status), name(NIXL_ERR_INVALID_PARAM));
            });
        }
        nixl_status_t status = NIXL_ERR_REPOST_ACTIVE;
        while (status == NIXL_ERR_REPOST_ACTIVE)
            status = a->releaseXferReq(request);
        EXPECT_EQ(name(status), name(NIXL_SUCCESS));
        for (std::thread &poster : posters)
            poster.join();
    }
    EXPECT_EQ(fake->live().requests, 0);
}

TEST_F(Posting, OneRegistrationIsEndedByOneOfTwoCalls) {
    start();
    std::promise<void> inside, leave;
    script([&](FakeScript &s) {
        s.onDeregister = [&] {
            inside.set_value();
            leave.get_future().wait();
        };
    });
    std::thread first([&] { EXPECT_OK(a->deregisterMem(regions(memoryA))); });
    inside.get_future().wait();
    script([](FakeScript &s) { s.onDeregister = nullptr; });
    EXPECT_STATUS(a->deregisterMem(regions(memoryA)), NIXL_ERR_NOT_FOUND) << "the other call is ending it";
    EXPECT_OK(a->registerMem(regions(memoryA))) << "a new registration is one of its own";
    leave.set_value();
    first.join();
    EXPECT_OK(a->deregisterMem(regions(memoryA)));
    EXPECT_EQ(fake->count("deregisterRegion"), 2u);
}

} // namespace
} // namespace nixl
