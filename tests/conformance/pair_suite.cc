// Transfers between two agents, in one process and in two.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "conformance/pair.h"

namespace nixl::conformance {

TEST_P(PairSuite, MovesExactlyTheBlocks) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(kPatternLength, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(kPatternLength);
    Reached reached(pair, far);
    for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
        for (const auto &[name, pieces] : piecePatterns()) {
            SCOPED_TRACE(concat(name, " ", nixlEnumStrings::xferOpStr(operation)));
            const std::string nearBytes = pattern(kPatternLength, 1);
            const std::string farBytes = pattern(kPatternLength, 2);
            near->memory().store(0, nearBytes);
            pair.peer->store(far.id, 0, farBytes);
            Transfer transfer(pair.side.engine(), operation, *near, reached.target(), pieces);
            const Progress progress = transfer.run();
            ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            const bool write = operation == NIXL_WRITE;
            EXPECT_TRUE(near->memory().load(0, kPatternLength) ==
                        (write ? nearBytes : moved(farBytes, nearBytes, pieces, operation)));
            EXPECT_TRUE(pair.peer->load(far.id, 0, kPatternLength) ==
                        (write ? moved(nearBytes, farBytes, pieces, operation) : farBytes));
        }
    }
}

TEST_P(PairSuite, RequestsCanBePostedAgainWithNewBytes) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(kPatternLength, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(kPatternLength);
    Reached reached(pair, far);
    const std::vector<Piece> pieces = piecePatterns().at("touching, in reverse");
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), pieces);
    for (unsigned round = 0; round < 5; ++round) {
        const std::string bytes = pattern(kPatternLength, 10 + round);
        near->memory().store(0, bytes);
        const Progress progress = transfer.run();
        ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
        EXPECT_TRUE(pair.peer->load(far.id, 0, kPatternLength) ==
                    moved(bytes, std::string(kPatternLength, '\0'), pieces, NIXL_WRITE))
            << "round " << round;
    }
}

TEST_P(PairSuite, MemoryThatWasDeregisteredIsNotTouched) {
    if (!GetParam().engine.checksTargets)
        GTEST_SKIP() << "this lane writes where the initiator says";
    Pair pair(GetParam());
    const PeerMemory gone = pair.peer->allocate(10000, 0);
    const PeerMemory stays = pair.peer->allocate(10000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(10000);
    Reached toGone(pair, gone);
    Reached toStays(pair, stays);
    near->memory().store(0, pattern(10000, 7));
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, toGone.target(), {{0, 0, 10000}});
    ASSERT_EQ(transfer.run().code, NIXL_SUCCESS);
    const Status status = pair.peer->deregister(gone.id);
    ASSERT_TRUE(status.ok()) << status.message();
    pair.peer->store(gone.id, 0, std::string(10000, 'm'));
    // Also when it is tried again.
    for (int round = 0; round < 2; ++round) {
        const Progress progress = transfer.run();
        EXPECT_LT(progress.code, 0);
        EXPECT_FALSE(progress.message.empty());
    }
    EXPECT_EQ(pair.peer->load(gone.id, 0, 10000), std::string(10000, 'm'));
    Transfer other(pair.side.engine(), NIXL_WRITE, *near, toStays.target(), {{0, 0, 10000}});
    const Progress progress = other.run();
    EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
    EXPECT_EQ(pair.peer->load(stays.id, 0, 10000), pattern(10000, 7));
}

TEST_P(PairSuite, CancelledRequestsLeaveLocalMemoryAlone) {
    constexpr std::size_t kLength = std::size_t{16} << 20;
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(kLength, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(kLength);
    const std::unique_ptr<Registered> barrier = pair.side.allocate(1000);
    Reached reached(pair, far);
    Transfer after(pair.side.engine(), NIXL_READ, *barrier, reached.target(), {{0, 0, 1000}});
    Transfer transfer(pair.side.engine(), NIXL_READ, *near, reached.target(), {{0, 0, kLength}});
    for (int round = 0; round < 5; ++round) {
        const Progress posted = transfer.post();
        ASSERT_GE(posted.code, NIXL_SUCCESS) << posted.message;
        ASSERT_TRUE(transfer.request().cancel(kLongEnough));
        const std::string mine = pattern(kLength, 8);
        near->memory().store(0, mine);
        EXPECT_EQ(after.run().code, NIXL_SUCCESS);
        EXPECT_TRUE(near->memory().load(0, kLength) == mine);
    }
}

TEST_P(PairSuite, ManyThreadsPostTheirRequests) {
    constexpr std::size_t kThreads = 8;
    constexpr std::size_t kPart = 20000;
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(kThreads * kPart, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(kThreads * kPart);
    Reached reached(pair, far);
    const std::string bytes = pattern(kThreads * kPart, 9);
    near->memory().store(0, bytes);
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 10; ++round) {
                Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(),
                                  {{i * kPart, i * kPart, kPart}});
                failures += transfer.run().code != NIXL_SUCCESS;
                failures += transfer.run().code != NIXL_SUCCESS;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0);
    EXPECT_TRUE(pair.peer->load(far.id, 0, bytes.size()) == bytes);
}

TEST_P(PairSuite, PeersAreForgottenAndLoadedAgain) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    for (unsigned round = 0; round < 5; ++round) {
        {
            Reached reached(pair, far);
            std::vector<std::unique_ptr<Transfer>> idle;
            for (int i = 0; i < 10; ++i)
                idle.push_back(std::make_unique<Transfer>(pair.side.engine(), NIXL_WRITE, *near,
                                                          reached.target(),
                                                          std::vector<Piece>{{0, 0, 1000}}));
            near->memory().store(0, pattern(1000, round));
            const Progress progress = idle.back()->run();
            ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            EXPECT_EQ(pair.peer->load(far.id, 0, 1000), pattern(1000, round));
        }
        pair.loadAgain();
    }
}

TEST_P(PairSuite, LivesOfAPeerDoNotMix) {
    if (!noticesEnd())
        GTEST_SKIP() << "this lane does not notice the end of a peer";
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    near->memory().store(0, pattern(1000, 1));
    auto former = std::make_unique<Reached>(pair, far);
    auto idle = std::make_unique<Transfer>(pair.side.engine(), NIXL_WRITE, *near, former->target(),
                                           std::vector<Piece>{{0, 0, 1000}});
    // The peer comes back under its name while a request of its former life still exists.
    const std::shared_ptr<Peer> formerPeer = pair.known;
    pair.peer->vanish();
    pair.peer = makePeer(GetParam(), "target");
    const PeerMemory fresh = pair.peer->allocate(1000, 0);
    pair.loadAgain();
    Reached reached(pair, fresh);
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), {{0, 0, 1000}});
    const Progress progress = transfer.run();
    EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
    EXPECT_EQ(pair.peer->load(fresh.id, 0, 1000), pattern(1000, 1));
    pair.peer->store(fresh.id, 0, std::string(1000, 'n'));
    EXPECT_LT(idle->run().code, 0);
    EXPECT_EQ(pair.peer->load(fresh.id, 0, 1000), std::string(1000, 'n'));
}

TEST_P(PairSuite, PeersThatVanishAreReported) {
    if (!noticesEnd())
        GTEST_SKIP() << "this lane does not notice the end of a peer";
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached reached(pair, far);
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), {{0, 0, 1000}});
    ASSERT_EQ(transfer.run().code, NIXL_SUCCESS);
    pair.peer->vanish();
    Progress progress;
    EXPECT_TRUE(eventually([&] { return (progress = transfer.run()).code < 0; }));
    EXPECT_EQ(progress.code, NIXL_ERR_REMOTE_DISCONNECT) << progress.message;
    EXPECT_FALSE(progress.message.empty());
    if (pair.side.engine().capabilities().local) {
        Transfer own(pair.side.engine(), NIXL_WRITE, *near, loopbackTarget(pair.side, *near),
                     {{0, 500, 500}});
        EXPECT_EQ(own.run().code, NIXL_SUCCESS);
    }
}

TEST_P(PairSuite, ConnectingIsHarmlessWhenConnected) {
    Pair pair(GetParam());
    for (int i = 0; i < 3; ++i) {
        const Status status = pair.side.engine().connect(*pair.known);
        EXPECT_TRUE(status.ok()) << status.message();
    }
    const nixl_mem_t kind = GetParam().engine.memories[0].kind;
    const Result<Path> path = pair.side.engine().path(NIXL_READ, kind, kind, pair.known.get());
    ASSERT_TRUE(path.ok()) << path.status().message();
    EXPECT_FALSE(path.value().lane.empty());
    EXPECT_FALSE(path.value().reason.empty());
}

} // namespace nixl::conformance
