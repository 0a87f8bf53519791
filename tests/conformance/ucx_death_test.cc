// The peer dies between any two calls into UCX.
//
// UCX 1.22 crashes if a put or get is posted to an endpoint that has failed but has not told so yet.
#include <gmock/gmock.h>

#include "conformance/pair.h"
#include "conformance/watched_ucx.h"

namespace nixl::conformance {

namespace {

struct Lane {
    std::string name;
    nixl_b_params_t params;
    bool packed = false; ///< blocks travel packed
    bool mixed = false;  ///< UCX sends small messages over shared memory, large ones over TCP
};

void
PrintTo(const Lane &lane, std::ostream *out) {
    *out << lane.name;
}

EngineTraits
deathTraits(const Lane &lane) {
    EngineTraits traits;
    traits.name = "UCX_death_" + lane.name;
    traits.makeFactory = makeWatchedUcxFactory;
    traits.params = lane.params;
    traits.options.ucxPackedBlocks = lane.packed;
    return traits;
}

const Lane kLanes[] = {
    {"tcp", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}}, true},
    {"puts", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}}},
    {"threads",
     {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}, {"num_threads", "2"}, {"split_batch_size", "2"}}},
    {"shm",
     {{"engine_config", "TLS=tcp,posix,sysv,self,NET_DEVICES=lo,POSIX_ERROR_HANDLING=y,"
                        "SYSV_ERROR_HANDLING=y,KEEPALIVE_INTERVAL=100ms"}},
     false,
     true},
};

[[maybe_unused]] const bool added = [] {
    for (const Lane &lane : kLanes)
        addTraits(deathTraits(lane));
    return true;
}();

class UcxDeath : public ::testing::TestWithParam<Lane> {
protected:
    test::ExpectLog log_;
};

std::string
laneName(const ::testing::TestParamInfo<Lane> &info) {
    return info.param.name;
}

constexpr std::size_t kBlocks = 6;
constexpr std::size_t kBlock = 3000;

/// Runs a transfer with a message whose peer dies at call number `call`. False if there were fewer calls.
bool
dieAt(const Lane &lane, nixl_xfer_op_t operation, bool connected, int call) {
    const EngineTraits traits = deathTraits(lane);
    Pair pair({traits, true});
    const PeerMemory far = pair.peer->allocate(2 * kBlocks * kBlock, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(2 * kBlocks * kBlock);
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < kBlocks; ++i)
        pieces.push_back({2 * i * kBlock, 2 * i * kBlock, kBlock});
    auto reached = std::make_unique<Reached>(pair, far);
    auto transfer =
        std::make_unique<Transfer>(pair.side.engine(), operation, *near, reached->target(), pieces);
    if (connected) {
        EXPECT_EQ(transfer->run("before").code, NIXL_SUCCESS);
    }
    UcxCalls &calls = ucxCalls();
    calls.atCall = [&] { pair.peer->vanish(); };
    calls.callsLeft.store(call);
    const Progress progress = transfer->run("after");
    const bool died = calls.callsLeft.exchange(-1) < 0;
    if (died) {
        // At the last calls everything may have been handed to the kernel before the death was known.
        EXPECT_TRUE(progress.code == NIXL_ERR_REMOTE_DISCONNECT || progress.code == NIXL_SUCCESS)
            << "call " << call << ": " << nixlEnumStrings::statusStr(progress.code) << " "
            << progress.message;
        Progress again;
        EXPECT_TRUE(eventually([&] { return (again = transfer->run("again")).code < 0; })) << "call " << call;
        EXPECT_EQ(again.code, NIXL_ERR_REMOTE_DISCONNECT) << "call " << call << ": " << again.message;
        EXPECT_FALSE(again.message.empty());
    }
    transfer.reset();
    reached.reset();
    // The survivor serves the next peer.
    Transfer own(pair.side.engine(), NIXL_WRITE, *near, loopbackTarget(pair.side, *near),
                 {{0, kBlock, kBlock}});
    EXPECT_EQ(own.run().code, NIXL_SUCCESS);
    EXPECT_EQ(calls.late.load(), 0) << "calls on endpoints that had failed";
    return died;
}

void
dieAtEvery(const Lane &lane, nixl_xfer_op_t operation, bool connected) {
    int call = 0;
    while (dieAt(lane, operation, connected, call) && !::testing::Test::HasFailure())
        ++call;
    EXPECT_GE(call, lane.packed ? 2 : static_cast<int>(kBlocks) + 1) << "calls were not counted";
}

} // namespace

TEST_P(UcxDeath, DuringAWrite) {
    dieAtEvery(GetParam(), NIXL_WRITE, true);
}

TEST_P(UcxDeath, DuringARead) {
    dieAtEvery(GetParam(), NIXL_READ, true);
}

TEST_P(UcxDeath, DuringTheFirstWrite) {
    dieAtEvery(GetParam(), NIXL_WRITE, false);
}

// A connection that is closed by force leaves the transfers of a living peer waiting for ever.
TEST_P(UcxDeath, AFailureOfThisSideLeavesTheConnectionAlone) {
    const EngineTraits traits = deathTraits(GetParam());
    constexpr std::size_t kLength = std::size_t{32} << 20;
    Side near(traits, "near"), far(traits, "far");
    const auto nearMemory = near.allocate(kLength), farMemory = far.allocate(kLength);
    const auto meet = [](Side &side, Side &other) {
        return side.engine().loadPeer(other.agent(), other.engine().connectionInfo().value()).value();
    };
    const std::shared_ptr<Peer> farPeer = meet(near, far), nearPeer = meet(far, near);
    const auto target = [](Side &side, Peer &peer, Side &owner, Registered &memory) {
        const std::string key = owner.engine().publicData(memory.region()).value();
        return side.engine().loadRegion(peer, memory.desc(), DRAM_SEG, key).value();
    };
    const auto farRegion = target(near, *farPeer, far, *farMemory);
    const auto nearRegion = target(far, *nearPeer, near, *nearMemory);
    Transfer write(near.engine(), NIXL_WRITE, *nearMemory,
                   {farRegion.get(), farMemory->desc(), DRAM_SEG, "far", farPeer.get()}, {{0, 0, 1000}});
    Transfer read(far.engine(), NIXL_READ, *farMemory,
                  {nearRegion.get(), nearMemory->desc(), DRAM_SEG, "near", nearPeer.get()},
                  {{1000, 1000, kLength - 1000}});
    ASSERT_EQ(write.run().code, NIXL_SUCCESS);
    const std::string bytes = pattern(kLength, 3);
    nearMemory->memory().store(0, bytes);
    ASSERT_GE(read.post().code, NIXL_SUCCESS);
    ucxCalls().putFails.store(true);
    const Progress failed = write.run();
    EXPECT_EQ(failed.code, NIXL_ERR_BACKEND);
    EXPECT_THAT(failed.message, ::testing::HasSubstr("memory"));
    EXPECT_EQ(write.run().code, NIXL_SUCCESS);
    EXPECT_EQ(read.finish().code, NIXL_SUCCESS);
    EXPECT_TRUE(farMemory->memory().load(1000, kLength - 1000) == bytes.substr(1000));
}

// The last words of an engine arrive, also over a connection that is only being opened. Where UCX opens a
// second connection for large ones, its sender may close that before the peer has read it.
TEST_P(UcxDeath, MessagesOutliveTheirSender) {
    const EngineTraits traits = deathTraits(GetParam());
    Side far(traits, "far");
    const std::vector<std::string> messages{"first", pattern(GetParam().mixed ? 1000 : 1 << 20, 1), "last"};
    {
        Side near(traits, "near");
        const std::shared_ptr<Peer> peer =
            near.engine().loadPeer("far", far.engine().connectionInfo().value()).value();
        for (const std::string &message : messages)
            ASSERT_TRUE(near.engine().notify(peer.get(), message).ok());
    }
    const std::vector<Notification> taken = takeNotifications(far.engine(), messages.size());
    ASSERT_EQ(taken.size(), messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i)
        EXPECT_TRUE(taken[i].message == messages[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Lanes, UcxDeath, ::testing::ValuesIn(kLanes), laneName);

} // namespace nixl::conformance
