// How often UCX is called, and on which connections.
#include <gtest/gtest.h>

#include "conformance/pair.h"
#include "conformance/watched_ucx.h"

namespace nixl::conformance {

namespace {

EngineTraits
watchedTraits(unsigned workers, bool packed) {
    EngineTraits traits;
    traits.name = "UCX_calls";
    traits.makeFactory = makeWatchedUcxFactory;
    traits.params = {{"num_workers", std::to_string(workers)}, {"engine_config", "TLS=tcp,NET_DEVICES=lo"}};
    traits.options.ucxPackedBlocks = packed;
    return traits;
}

std::size_t
endpointsPutTo() {
    UcxCalls &calls = ucxCalls();
    LockGuard lock(calls.mutex);
    return std::exchange(calls.put, {}).size();
}

/// A request for `customParam` from the first 1000 bytes of one side's memory to the other's.
Progress
write(Pair &pair, Registered &near, const Target &target, const std::string &customParam) {
    const Block block{near.desc().addr, target.desc.addr, 1000, 0, 0};
    const LocalRegionRef local{&near.region(), 0};
    const RemoteRegionRef remote{target.region, 0};
    const TransferSpec spec{NIXL_WRITE,
                            DRAM_SEG,
                            DRAM_SEG,
                            std::span(&block, 1),
                            1000,
                            std::span(&local, 1),
                            std::span(&remote, 1),
                            "target",
                            target.peer,
                            customParam};
    auto request = pair.side.engine().prepare(spec);
    if (!request.ok())
        return Progress::failed(request.status());
    Progress progress = request.value()->post(std::nullopt);
    eventually([&] {
        return progress.code != NIXL_IN_PROG || (progress = request.value()->check()).code != NIXL_IN_PROG;
    });
    return progress;
}

} // namespace

TEST(UcxCalls, KeysAreUnpackedAtFirstUseAndOncePerConnection) {
    test::ExpectLog log;
    Pair pair({watchedTraits(1, false), false});
    const PeerMemory used = pair.peer->allocate(100000, 0), unused = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(100000);
    Reached reached(pair, used), idle(pair, unused);
    ucxCalls().unpacked = 0;
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < 100; ++i)
        pieces.push_back({i * 1000, i * 1000, 500});
    Transfer first(pair.side.engine(), NIXL_WRITE, *near, reached.target(), pieces);
    Transfer second(pair.side.engine(), NIXL_READ, *near, reached.target(), pieces);
    EXPECT_EQ(ucxCalls().unpacked, 0);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(first.run().code, NIXL_SUCCESS);
        EXPECT_EQ(second.run().code, NIXL_SUCCESS);
    }
    EXPECT_EQ(ucxCalls().unpacked, 1);
}

/// Over TCP a key tells nothing apart but kinds of memory.
TEST(UcxCalls, RegionsWithEqualKeysUnpackThemOnce) {
    test::ExpectLog log;
    Pair pair({watchedTraits(1, false), false});
    const PeerMemory first = pair.peer->allocate(1000, 0), second = pair.peer->allocate(1000, 0);
    ASSERT_EQ(ucx::splitMessageKey(first.desc.metaInfo).packedKey,
              ucx::splitMessageKey(second.desc.metaInfo).packedKey);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached two(pair, second);
    ucxCalls().unpacked = 0;
    {
        Reached one(pair, first);
        EXPECT_EQ(write(pair, *near, one.target(), "").code, NIXL_SUCCESS);
        EXPECT_EQ(write(pair, *near, two.target(), "").code, NIXL_SUCCESS);
        EXPECT_EQ(ucxCalls().unpacked, 1);
    }
    EXPECT_EQ(write(pair, *near, two.target(), "").code, NIXL_SUCCESS) << "the key outlives the region";
    EXPECT_EQ(ucxCalls().unpacked, 1);
    const PeerMemory third = pair.peer->allocate(1000, 0);
    Reached three(pair, third);
    EXPECT_EQ(write(pair, *near, three.target(), "").code, NIXL_SUCCESS);
    EXPECT_EQ(ucxCalls().unpacked, 1);
}

TEST(UcxCalls, RequestsAreDealtOutToTheWorkers) {
    test::ExpectLog log;
    Pair pair({watchedTraits(3, true), false});
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached reached(pair, far);
    endpointsPutTo();
    for (int i = 0; i < 6; ++i)
        ASSERT_EQ(write(pair, *near, reached.target(), "").code, NIXL_SUCCESS);
    EXPECT_EQ(endpointsPutTo(), 3u);
    for (int i = 0; i < 6; ++i)
        ASSERT_EQ(write(pair, *near, reached.target(), "worker_id=1").code, NIXL_SUCCESS);
    EXPECT_EQ(endpointsPutTo(), 1u);
    const Progress refused = write(pair, *near, reached.target(), "worker_id=3");
    EXPECT_EQ(refused.code, NIXL_ERR_INVALID_PARAM);
    EXPECT_NE(refused.message.find("worker_id"), std::string::npos) << refused.message;
}

// A message takes 60 KiB of blocks, or 128 of them, whatever their number; each is answered by one.
TEST(UcxCalls, BlocksTravelPacked) {
    test::ExpectLog log;
    constexpr std::size_t kBlocks = 1000;
    Pair pair({watchedTraits(1, true), false});
    const PeerMemory far = pair.peer->allocate(2 * kBlocks * 512, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(2 * kBlocks * 512);
    Reached reached(pair, far);
    UcxCalls &calls = ucxCalls();
    for (const auto &[length, messages] : {std::pair{512, 9}, {64, 8}}) {
        std::vector<Piece> pieces;
        for (std::size_t i = 0; i < kBlocks; ++i)
            pieces.push_back({2 * i * 512, (2 * i + 1) * 512, static_cast<std::size_t>(length)});
        for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
            Transfer transfer(pair.side.engine(), operation, *near, reached.target(), pieces);
            calls.puts = calls.gets = calls.requests = calls.unpacked = 0;
            EXPECT_EQ(transfer.run().code, NIXL_SUCCESS);
            EXPECT_EQ(calls.requests, messages) << length;
            EXPECT_EQ(calls.puts + calls.gets + calls.unpacked, 0);
        }
    }
}

} // namespace nixl::conformance
