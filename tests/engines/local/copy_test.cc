// Bytes between processes and within one.
#include "local_fixture.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "engines/local/host_copy.h"
#include "engines/local/region_table.h"

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

enum class Where { kSameProcess, kOtherProcess, kMapped };
constexpr const char *kNames[] = {"SameProcess", "OtherProcess", "Mapped"};
constexpr const char *kLanes[] = {"same process", "process_vm", "shared mapping"};

/// Both ends in this process, or the target in another one, with or without memory that can be mapped.
class CopyTest : public ::testing::TestWithParam<Where> {
protected:
    void
    start(std::size_t bytes) {
        if (GetParam() != Where::kSameProcess) {
            const Kind kind = GetParam() == Where::kMapped ? Kind::kSealed : Kind::kPrivate;
            target_ = std::make_unique<TargetProcess>(bytes, Options(), [] {}, kind);
            node_ = std::make_unique<Node>("initiator", bytes);
            remote_ = &node_->load("target", target_->card());
        } else {
            node_ = std::make_unique<Node>("initiator", bytes);
            near_ = std::make_unique<Node>("target", bytes);
            remote_ = &node_->load("target", near_->card());
        }
    }

    std::string
    remoteBytes() {
        if (target_)
            return target_->ask(concat("m 0 ", node_->size()));
        return std::string(near_->memory(), near_->size());
    }

    void
    fillRemote(std::uint32_t seed) {
        if (target_)
            target_->ask(concat("f ", seed));
        else
            fillPattern(near_->memory(), near_->size(), seed);
    }

    /// Moves the pieces in both directions and compares every byte of both buffers.
    void
    moveAndCompare(const std::vector<Piece> &pieces) {
        const std::size_t bytes = node_->size();
        std::string local(bytes, '\0');
        std::string remote(bytes, '\0');
        for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
            fillPattern(local.data(), bytes, 11 + operation);
            fillPattern(remote.data(), bytes, 77 + operation);
            fillPattern(node_->memory(), bytes, 11 + operation);
            fillRemote(77 + operation);
            for (const Piece &piece : pieces) {
                if (operation == NIXL_WRITE)
                    remote.replace(piece.remote, piece.length, local, piece.local, piece.length);
                else
                    local.replace(piece.local, piece.length, remote, piece.remote, piece.length);
            }
            Move move(*node_, *remote_, operation, pieces);
            EXPECT_EQ(move.path().lane, kLanes[static_cast<std::size_t>(GetParam())]);
            const Progress progress = move.run();
            ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            EXPECT_TRUE(remote == remoteBytes());
            EXPECT_TRUE(local == std::string(node_->memory(), bytes));
        }
    }

    std::unique_ptr<TargetProcess> target_;
    std::unique_ptr<Node> near_;
    std::unique_ptr<Node> node_;
    Node::Remote *remote_ = nullptr;
};

/// Blocks of one size at random places, none next to its neighbour.
std::vector<Piece>
scattered(std::size_t count, std::size_t length, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> from(count);
    std::vector<std::uint64_t> to(count);
    std::iota(from.begin(), from.end(), 0);
    std::iota(to.begin(), to.end(), 0);
    std::shuffle(from.begin(), from.end(), random);
    std::shuffle(to.begin(), to.end(), random);
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < count; ++i)
        pieces.push_back({from[i] * length, to[i] * length, length});
    return pieces;
}

TEST_P(CopyTest, OddLengths) {
    start(kMiB);
    moveAndCompare(
        {{0, 3, 1}, {17, 4000, 4097}, {65536, 100'001, 33'333}, {5000, 9000, 7}, {200'000, 300'000, 0}});
}

TEST_P(CopyTest, ThousandsOfScatteredBlocks) {
    start(32 * kMiB);
    moveAndCompare(scattered(8192, 4096, 1));
}

TEST_P(CopyTest, BlocksOfOneByte) {
    start(16384);
    moveAndCompare(scattered(16384, 1, 2));
}

TEST_P(CopyTest, BlocksLargerThanABatch) {
    start(16 * kMiB);
    moveAndCompare(
        {{1, 5, 3 * kMiB + 17}, {4 * kMiB, 5 * kMiB, kMiB}, {6 * kMiB + 3, 7 * kMiB, 8 * kMiB + 1}});
}

TEST_P(CopyTest, ManyRunsOfOneRequest) {
    start(4 * kMiB);
    Move move(*node_, *remote_, NIXL_WRITE, scattered(1024, 4096, 3));
    for (std::uint32_t round = 0; round < 50; ++round) {
        fillPattern(node_->memory(), 4 * kMiB, round);
        ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    }
    Move back(*node_, *remote_, NIXL_READ, {{0, 0, 4 * kMiB}});
    ASSERT_EQ(back.run().code, NIXL_SUCCESS);
    EXPECT_TRUE(remoteBytes() == std::string(node_->memory(), 4 * kMiB));
}

TEST_P(CopyTest, SeveralThreadsAtATime) {
    start(8 * kMiB);
    fillPattern(node_->memory(), 8 * kMiB, 5);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) {
                Move small(*node_, *remote_, NIXL_WRITE, {{i * kMiB, i * kMiB, 4096}});
                EXPECT_EQ(small.run().code, NIXL_SUCCESS);
                Move large(*node_, *remote_, NIXL_WRITE, {{i * kMiB, i * kMiB, kMiB}});
                EXPECT_EQ(large.run().code, NIXL_SUCCESS);
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_TRUE(remoteBytes() == std::string(node_->memory(), 8 * kMiB));
}

TEST_P(CopyTest, CancelLeavesMemoryQuiet) {
    start(16 * kMiB);
    for (int round = 0; round < 5; ++round) {
        Move move(*node_, *remote_, NIXL_READ, {{0, 0, 16 * kMiB}});
        ASSERT_NE(move.post().code, NIXL_ERR_BACKEND);
        ASSERT_TRUE(move.cancel(10s));
        const Progress progress = move.check();
        EXPECT_TRUE(progress.code == NIXL_ERR_CANCELED || progress.code == NIXL_SUCCESS) << progress.message;
        std::memset(node_->memory(), 7, 16 * kMiB);
        fillRemote(static_cast<std::uint32_t>(round));
        EXPECT_EQ(std::count(node_->memory(), node_->memory() + 16 * kMiB, 7), std::ptrdiff_t{16 * kMiB});
        ASSERT_EQ(move.run().code, NIXL_SUCCESS); // and it can be posted again
        EXPECT_TRUE(remoteBytes() == std::string(node_->memory(), 16 * kMiB));
    }
}

INSTANTIATE_TEST_SUITE_P(, CopyTest,
                         ::testing::Values(Where::kSameProcess, Where::kOtherProcess, Where::kMapped),
                         [](const ::testing::TestParamInfo<Where> &test) {
                             return std::string(kNames[static_cast<std::size_t>(test.param)]);
                         });

TEST(Batching, FewSystemCallsForManyBlocks) {
    TargetProcess target(32 * kMiB);
    Node node("initiator", 32 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.engine().connect(*remote.peer).ok());
    Move move(node, remote, NIXL_WRITE, scattered(8192, 4096, 4));
    const std::uint64_t before = processVmCalls();
    ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    EXPECT_EQ(processVmCalls() - before, 128U); // batches of 64 blocks
}

TEST(Batching, AbsurdSumsAreRefused) {
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("initiator", node.card());
    const std::vector<LocalRegionRef> local{{&node.region(), 0}};
    const std::vector<RemoteRegionRef> far{{remote.region.get(), 0}};
    const std::vector<Block> blocks(3, {node.address(), node.address(), std::uint64_t{1} << 62, 0, 0});
    const auto request = node.engine().prepare(
        {NIXL_WRITE, DRAM_SEG, DRAM_SEG, blocks, 0, local, far, "initiator", nullptr, {}});
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(request.status().message(),
              "block 0 of 4611686018427387904 bytes makes the transfer longer than "
              "4294967296 batches of 524288 bytes");
}

/// The status of registering a range.
Status
registering(Node &node, std::uint64_t address, std::uint64_t length) {
    return node.engine().registerRegion(nixlBlobDesc(address, length, 0), DRAM_SEG).status();
}

TEST(Registration, MemoryThatIsNotMappedIsRefused) {
    Node node("agent", 16384);
    const Status nothing = registering(node, 0x1000, 8192);
    EXPECT_EQ(nothing.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(nothing.message(), "the memory of 8192 bytes at 0x1000 cannot be registered: address 0x1000 is "
                                 "unmapped or protected");
    munmap(node.memory() + 12288, 4096);
    const Status tail = registering(node, node.address(), 12289);
    EXPECT_EQ(tail.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(tail.message(),
              concat("the memory of 12289 bytes at ", Hex{node.address()}, " cannot be registered: address ",
                     Hex{node.address() + 12288}, " is unmapped or protected"));
    EXPECT_TRUE(registering(node, node.address(), 12288).ok());
    EXPECT_EQ(registering(node, node.address(), std::uint64_t{1} << 62).code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(registering(node, node.address(), ~std::uint64_t{0}).code(), NIXL_ERR_BACKEND);
}

TEST(Registration, ReadOnlyMemoryIsASource) {
    constexpr char kText[] = "a constant";
    TargetProcess target(4096);
    Node node("initiator", 4096);
    std::memcpy(node.memory(), kText, sizeof kText);
    ASSERT_EQ(mprotect(node.memory(), 4096, PROT_READ), 0);
    ASSERT_TRUE(node.leave().ok());
    node.enter();
    Move move(node, node.load("target", target.card()), NIXL_WRITE, {{0, 0, sizeof kText}});
    ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    EXPECT_EQ(target.ask(concat("m 0 ", sizeof kText)), std::string(kText, sizeof kText));
}

TEST(Registration, ReasonWhenTheTableIsFull) {
    RegionTable table = RegionTable::create().value();
    for (std::uint32_t i = 0; i < TableLayout::kSlots; ++i)
        ASSERT_TRUE(table.add({i, 1}).ok());
    const auto more = table.add({7, 1});
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.status().code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(more.status().message(), "1048576 regions are registered; the table has no room for more");
}

TEST(Registration, BlocksBeyondIt) {
    for (const bool within : {true, false}) {
        auto process = within ? nullptr : std::make_unique<TargetProcess>(8192);
        Node small("initiator", 4096);
        Node big("big", 8192);
        auto near = within ? std::make_unique<Node>("target", 8192) : nullptr;
        const std::string card = within ? near->card() : process->card();
        const std::string name =
            within ? "agent 'target'" : concat("agent 'target' (process ", process->child().pid(), ")");
        Node::Remote &fromBig = big.load("target", card);
        Move beyondRemote(big, fromBig, NIXL_WRITE, {{0, 0, 8}, {8, 8185, 8}});
        const Progress remote = beyondRemote.run();
        EXPECT_EQ(remote.code, NIXL_ERR_NOT_FOUND);
        EXPECT_EQ(remote.message, concat("block 1: the memory at ", Hex{fromBig.address + 8185}, " of ", name,
                                         " reaches beyond its registration"));
        Move beyondLocal(small, small.load("target", card), NIXL_READ, {{4090, 0, 7}});
        const Progress local = beyondLocal.run();
        EXPECT_EQ(local.code, NIXL_ERR_NOT_FOUND);
        EXPECT_EQ(local.message, concat("block 0: the local memory at ", Hex{small.address() + 4090},
                                        " reaches beyond its registration"));
    }
}

TEST(Times, TheEndIsNotTheTimeOfTheQuestion) {
    Node node("initiator", 4096);
    Node target("target", 4096);
    Move move(node, node.load("target", target.card()), NIXL_WRITE, {{0, 0, 4096}});
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    const auto after = std::chrono::steady_clock::now();
    const Progress later = move.check();
    ASSERT_TRUE(later.ended.has_value());
    EXPECT_GE(*later.ended, before);
    EXPECT_LE(*later.ended, after);
    EXPECT_EQ(move.check().ended, later.ended);
}

TEST(Faults, UnmappedTargetMemoryNamesTheBlock) {
    TargetProcess target(4 * kMiB);
    Node node("initiator", 4 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    target.ask(concat("u ", kMiB + 8192, " 4096"));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < 512; ++i)
        pieces.push_back({i * 8192, i * 8192, 4096});
    for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
        Move move(node, remote, operation, pieces);
        const Progress progress = move.run();
        EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
        EXPECT_EQ(progress.message, concat("block 129: remote address ", Hex{remote.address + kMiB + 8192},
                                           " of agent 'target' (process ", target.child().pid(),
                                           ") cannot be ", operation == NIXL_WRITE ? "written" : "read",
                                           ": it is unmapped or protected there"));
    }
    Move good(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    EXPECT_EQ(good.run().code, NIXL_SUCCESS);
}

TEST(Faults, HoleInTheMiddleOfALargeBlock) {
    TargetProcess target(8 * kMiB);
    Node node("initiator", 8 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    target.ask(concat("u ", 5 * kMiB + 4096, " 4096"));
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8 * kMiB}});
    const Progress progress = move.run();
    EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
    EXPECT_EQ(
        progress.message.find(concat("block 0: remote address ", Hex{remote.address + 5 * kMiB + 4096})), 0U)
        << progress.message;
}

TEST(Faults, ReadOnlyTargetMemory) {
    TargetProcess target(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target.card());
    target.ask("p 4096 4096");
    Move write(node, remote, NIXL_WRITE, {{0, 0, 16384}});
    const Progress progress = write.run();
    EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
    EXPECT_NE(progress.message.find(concat(Hex{remote.address + 4096})), std::string::npos)
        << progress.message;
    Move read(node, remote, NIXL_READ, {{0, 0, 16384}});
    EXPECT_EQ(read.run().code, NIXL_SUCCESS);
}

TEST(Faults, UnmappedLocalMemory) {
    TargetProcess target(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target.card());
    munmap(node.memory() + 8192, 4096);
    for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
        Move move(node, remote, operation, {{0, 0, 4096}, {4096, 4096, 16384}});
        const Progress progress = move.run();
        EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
        EXPECT_EQ(progress.message,
                  concat("block 1: local address ", Hex{node.address() + 8192}, " cannot be ",
                         operation == NIXL_WRITE ? "read" : "written", ": it is unmapped or protected"));
    }
}

TEST(Faults, MemoryThatGoesAwayDuringATransfer) {
    TargetProcess target(256 * kMiB);
    Node node("initiator", 256 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 256 * kMiB}});
    const Progress posted = move.post();
    target.ask(concat("u ", 255 * kMiB, " ", kMiB));
    ASSERT_TRUE(posted.code == NIXL_IN_PROG || posted.code == NIXL_SUCCESS) << posted.message;
    ASSERT_TRUE(eventually([&] { return move.check().code != NIXL_IN_PROG; }));
    const Progress progress = move.check();
    if (progress.code != NIXL_SUCCESS) { // the copy may have been faster
        EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
        EXPECT_EQ(progress.message.find("block 0: remote address "), 0U) << progress.message;
    }
}

} // namespace

} // namespace nixl::local
