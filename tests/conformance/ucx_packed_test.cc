// Packed blocks: who uses them, who waits for whom, and what another run allocates.
#include <atomic>
#include <filesystem>
#include <thread>

#include "conformance/pair.h"
#include "conformance/watched_ucx.h"
#include "support/counted_new.h"

namespace nixl::conformance {

namespace {

/// One worker over TCP.
EngineTraits
tcpTraits(bool packed = true, const nixl_b_params_t &more = {}) {
    EngineTraits traits;
    traits.name = "UCX_packed";
    traits.makeFactory = makeWatchedUcxFactory;
    traits.params = more;
    traits.params["engine_config"] = "TLS=tcp,NET_DEVICES=lo";
    traits.options.ucxPackedBlocks = packed;
    return traits;
}

std::shared_ptr<Peer>
meet(Side &side, Side &other) {
    return side.engine().loadPeer(other.agent(), other.engine().connectionInfo().value()).value();
}

/// Memory of two agents, and the way from one to the other.
class Route {
public:
    /// `peer`: `to`, as `from` knows it.
    Route(Side &from, Side &to, std::shared_ptr<Peer> peer, std::size_t length)
        : engine_(from.engine()), agent_(to.agent()), near_(from.allocate(length)), far_(to.allocate(length)),
          peer_(std::move(peer)), path_(engine_.path(NIXL_WRITE, DRAM_SEG, DRAM_SEG, peer_.get()).value()),
          region_(
              engine_
                  .loadRegion(*peer_, far_->desc(), DRAM_SEG, to.engine().publicData(far_->region()).value())
                  .value()) {}

    std::unique_ptr<Transfer>
    transfer(nixl_xfer_op_t operation, const std::vector<Piece> &pieces) {
        return std::make_unique<Transfer>(engine_, operation, *near_,
                                          Target{region_.get(), far_->desc(), DRAM_SEG, agent_, peer_.get()},
                                          pieces);
    }

    TestMemory &
    near() {
        return near_->memory();
    }

    TestMemory &
    far() {
        return far_->memory();
    }

    const Path &
    path() const {
        return path_;
    }

private:
    Engine &engine_;
    const std::string agent_;
    const std::unique_ptr<Registered> near_, far_;
    const std::shared_ptr<Peer> peer_;
    const Path path_;
    const std::unique_ptr<RemoteRegion> region_;
};

constexpr nixl_xfer_op_t kOperations[] = {NIXL_WRITE, NIXL_READ};

/// A huge request moves the same memory again and again: more than could be done while small ones run.
constexpr std::size_t kHugeBlock = 1 << 20;
constexpr std::size_t kHugeBlocks = 20000;
constexpr std::size_t kSmall = 10000;
constexpr unsigned kSmallRuns = 30;

/// Small requests end, one after the other, while `count` huge ones are under way, and go on.
void
expectSmallOnesEndFirst(Route &huge, Route &small, std::size_t count = 1) {
    const std::atomic<int> &messages = ucxCalls().requests;
    const auto movesOn = [&] {
        return eventually([&, seen = messages.load()] { return messages.load() > seen + 1000; });
    };
    for (const nixl_xfer_op_t operation : kOperations) {
        SCOPED_TRACE(nixlEnumStrings::xferOpStr(operation));
        std::vector<std::unique_ptr<Transfer>> hugeOnes;
        for (std::size_t i = 0; i < count; ++i)
            hugeOnes.push_back(huge.transfer(operation, std::vector<Piece>(kHugeBlocks, {0, 0, kHugeBlock})));
        const auto smallOne =
            small.transfer(operation, {{0, 0, kSmall / 2}, {kSmall / 2, kSmall / 2, kSmall / 2}});
        for (const auto &one : hugeOnes)
            EXPECT_EQ(one->post().code, NIXL_IN_PROG);
        EXPECT_TRUE(movesOn());
        TestMemory &source = operation == NIXL_WRITE ? small.near() : small.far();
        TestMemory &sink = operation == NIXL_WRITE ? small.far() : small.near();
        for (unsigned run = 0; run < kSmallRuns && !::testing::Test::HasFailure(); ++run) {
            const std::string bytes = pattern(kSmall, run);
            source.store(0, bytes);
            const Progress progress = smallOne->run();
            EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            EXPECT_TRUE(sink.load(0, kSmall) == bytes);
            for (const auto &one : hugeOnes)
                EXPECT_EQ(one->request().check().code, NIXL_IN_PROG) << "it ended before small run " << run;
        }
        EXPECT_TRUE(::testing::Test::HasFailure() || movesOn());
        EXPECT_TRUE(smallOne->request().cancel(kLongEnough));
        for (const auto &one : hugeOnes)
            EXPECT_TRUE(one->request().cancel(kLongEnough));
    }
}

} // namespace

TEST(UcxPacked, ATargetServesItsPeersInTurns) {
    test::ExpectLog log;
    Side target(tcpTraits(), "target"), greedy(tcpTraits(), "greedy"), modest(tcpTraits(), "modest");
    Route huge(greedy, target, meet(greedy, target), kHugeBlock);
    Route small(modest, target, meet(modest, target), kSmall);
    expectSmallOnesEndFirst(huge, small);
}

TEST(UcxPacked, ARequestDoesNotHoldBackThoseToOtherPeers) {
    test::ExpectLog log;
    Side busy(tcpTraits(), "busy"), idle(tcpTraits(), "idle"), initiator(tcpTraits(), "initiator");
    Route huge(initiator, busy, meet(initiator, busy), kHugeBlock);
    Route small(initiator, idle, meet(initiator, idle), kSmall);
    expectSmallOnesEndFirst(huge, small);
}

TEST(UcxPacked, RequestsToOnePeerTakeTurns) {
    test::ExpectLog log;
    Side target(tcpTraits(), "target"), initiator(tcpTraits(), "initiator");
    const std::shared_ptr<Peer> peer = meet(initiator, target);
    Route huge(initiator, target, peer, kHugeBlock), small(initiator, target, peer, kSmall);
    for (const std::size_t count : {1, 8}) {
        SCOPED_TRACE(count);
        expectSmallOnesEndFirst(huge, small, count);
    }
}

// NIXL_UCX_PACKED_BLOCKS is about an agent's own transfers; as a target each takes what comes.
TEST(UcxPacked, WhereOneSideDoesNotPackEachStillReachesTheOther) {
    test::ExpectLog log;
    UcxCalls &calls = ucxCalls();
    for (const bool packs : {true, false}) {
        Side from(tcpTraits(packs), packs ? "packing" : "plain"), to(tcpTraits(!packs), "target");
        Route route(from, to, meet(from, to), kPatternLength);
        EXPECT_EQ(route.path().reason.find("travel packed") != std::string::npos, packs)
            << route.path().reason;
        for (const nixl_xfer_op_t operation : kOperations) {
            for (const auto &[name, pieces] : piecePatterns()) {
                SCOPED_TRACE(
                    concat(name, " ", nixlEnumStrings::xferOpStr(operation), " from ", from.agent()));
                const bool write = operation == NIXL_WRITE;
                const std::string near = pattern(kPatternLength, 1), far = pattern(kPatternLength, 2);
                route.near().store(0, near);
                route.far().store(0, far);
                const auto transfer = route.transfer(operation, pieces);
                calls.puts = calls.gets = calls.requests = 0;
                const Progress progress = transfer->run();
                ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
                EXPECT_TRUE(route.near().load(0, kPatternLength) ==
                            (write ? near : moved(far, near, pieces, operation)));
                EXPECT_TRUE(route.far().load(0, kPatternLength) ==
                            (write ? moved(near, far, pieces, operation) : far));
                const int blocks = packs ? 0 : static_cast<int>(pieces.size());
                EXPECT_EQ(calls.puts, write ? blocks : 0);
                EXPECT_EQ(calls.gets, write ? 0 : blocks);
                EXPECT_EQ(calls.requests > 0, packs);
            }
        }
    }
}

// As after invalidateRemoteMD by one side alone. In error mode `none` nothing tells of broken connections;
// the other half stays open there as well.
TEST(UcxPacked, AnAgentThatForgotAPeerStillServesIt) {
    test::ExpectLog log;
    for (const char *mode : {"peer", "none"}) {
        SCOPED_TRACE(mode);
        const EngineTraits traits = tcpTraits(true, {{"ucx_error_handling_mode", mode}});
        Side one(traits, "one"), two(traits, "two");
        const std::vector<Piece> pieces{{0, 0, kSmall}};
        auto there = std::make_unique<Route>(one, two, meet(one, two), kSmall);
        Route back(two, one, meet(two, one), kSmall);
        EXPECT_EQ(there->transfer(NIXL_WRITE, pieces)->run().code, NIXL_SUCCESS);
        const auto transfer = back.transfer(NIXL_WRITE, pieces);
        EXPECT_EQ(transfer->run().code, NIXL_SUCCESS);
        there.reset();
        EXPECT_EQ(transfer->run().code, NIXL_SUCCESS);
        EXPECT_TRUE(transfer->request().cancel(kLongEnough));
    }
}

std::size_t
openDescriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(UcxPacked, PeersThatAreForgottenAgainAndAgainLeaveNothingOpen) {
    test::ExpectLog log;
    Side one(tcpTraits(), "one"), two(tcpTraits(), "two");
    std::size_t before = 0;
    for (int round = 0; round < 30; ++round) {
        Route route(one, two, meet(one, two), kSmall);
        ASSERT_EQ(route.transfer(NIXL_READ, {{0, 0, kSmall}})->run().code, NIXL_SUCCESS);
        if (round == 2)
            before = openDescriptors();
    }
    EXPECT_EQ(openDescriptors(), before) << "the same connection every time";
}

/// What a peer owes for cancelled runs counts: it drops the requests of somebody who lets too much wait.
TEST(UcxPacked, CancelledRunsTakeNothingFromTheNext) {
    test::ExpectLog log;
    Side one(tcpTraits(), "one"), two(tcpTraits(), "two");
    constexpr std::size_t kLarge = 64 << 20;
    Route route(one, two, meet(one, two), kLarge);
    for (const nixl_xfer_op_t operation : kOperations) {
        for (int round = 0; round < 40; ++round) {
            const auto brief = route.transfer(operation, {{0, 0, kLarge}});
            EXPECT_EQ(brief->post().code, NIXL_IN_PROG);
            EXPECT_TRUE(brief->request().cancel(kLongEnough));
        }
        const auto last = route.transfer(operation, {{0, 0, kLarge}});
        EXPECT_EQ(last->run().code, NIXL_SUCCESS);
        EXPECT_TRUE(last->request().cancel(kLongEnough));
    }
}

/// By force a peer closes its half without a word. Who then forgets it and loads it again starts anew.
TEST(UcxPacked, LoadingAPeerAgainMendsAConnectionThatAnswersNothing) {
    test::ExpectLog log;
    Side one(tcpTraits(), "one"), two(tcpTraits(true, {{"ucx_ep_close_force", "true"}}), "two");
    const std::vector<Piece> pieces{{0, 0, kSmall}};
    auto there = std::make_unique<Route>(one, two, meet(one, two), kSmall);
    auto back = std::make_unique<Route>(two, one, meet(two, one), kSmall);
    EXPECT_EQ(there->transfer(NIXL_WRITE, pieces)->run().code, NIXL_SUCCESS);
    EXPECT_EQ(back->transfer(NIXL_WRITE, pieces)->run().code, NIXL_SUCCESS);
    back.reset();
    auto unanswered = there->transfer(NIXL_WRITE, pieces);
    EXPECT_EQ(unanswered->post().code, NIXL_IN_PROG);
    EXPECT_TRUE(unanswered->request().cancel(kLongEnough));
    unanswered.reset();
    there.reset();
    Route again(one, two, meet(one, two), kSmall);
    const auto transfer = again.transfer(NIXL_WRITE, pieces);
    EXPECT_EQ(transfer->run().code, NIXL_SUCCESS);
    EXPECT_TRUE(transfer->request().cancel(kLongEnough));
}

/// Of this process, whose UCX is C and allocates without operator new; the target is another one.
TEST(UcxPacked, ARepostAllocatesNothing) {
    test::ExpectLog log;
    constexpr std::size_t kBlock = 1000;
    Pair pair({findTraits("UCX_tcp"), true});
    const PeerMemory far = pair.peer->allocate(5000 * kBlock, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(5000 * kBlock);
    Reached reached(pair, far);
    for (const std::size_t blocks : {1, 200, 5000}) { // a message; several; more than may be under way
        std::vector<Piece> pieces;
        for (std::size_t i = 0; i < blocks; ++i)
            pieces.push_back({i * kBlock, (blocks - 1 - i) * kBlock, kBlock - 1});
        for (const nixl_xfer_op_t operation : kOperations) {
            Transfer transfer(pair.side.engine(), operation, *near, reached.target(), pieces);
            ASSERT_EQ(transfer.run().code, NIXL_SUCCESS);
            const std::size_t before = test::allocations.load();
            for (int round = 0; round < 20; ++round) {
                Progress progress = transfer.post();
                while (round % 2 == 0 && progress.code == NIXL_IN_PROG) // odd rounds leave it to the thread
                    progress = transfer.request().check();
                EXPECT_EQ(round % 2 == 0 ? progress.code : transfer.finish().code, NIXL_SUCCESS);
            }
            EXPECT_EQ(test::allocations.load() - before, 0U)
                << blocks << " blocks, " << nixlEnumStrings::xferOpStr(operation);
        }
    }
}

} // namespace nixl::conformance
