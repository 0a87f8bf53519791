// Who asks for the state of a transfer does some of it.
#include "local_fixture.h"

#include <pthread.h>

#include "engines/local/host_copy.h"
#include "engines/local/host_process.h"
#include "engines/local/transfer.h"
#include "pool_fixture.h"

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kBatches = 8;
constexpr std::size_t kBytes = kBatches * kBatchBytes;

Options
oneThread() {
    Options options;
    options.localThreads = 1;
    return options;
}

/// A target in another process. The thread of the pool is busy from stopThreads() on.
class HelpingTest : public ::testing::Test {
protected:
    void
    start(std::size_t bytes = kBytes) {
        target_ = std::make_unique<TargetProcess>(bytes);
        node_ = std::make_unique<Node>("initiator", bytes, oneThread());
        remote_ = &node_->load("target", target_->card());
        fillPattern(node_->memory(), bytes, 1);
        ASSERT_TRUE(node_->engine().connect(*remote_->peer).ok());
    }

    void
    stopThreads() {
        busy_ = std::make_unique<BusyPool>(HostProcess::get().value()->pool());
    }

    void
    TearDown() override {
        busy_.reset();
    }

    /// Asks once; how many batches that did.
    std::uint64_t
    batchesOfAQuestion(Move &move) {
        const std::uint64_t before = processVmCalls();
        progress_ = move.check();
        return processVmCalls() - before;
    }

    std::unique_ptr<TargetProcess> target_;
    std::unique_ptr<Node> node_;
    Node::Remote *remote_ = nullptr;
    std::unique_ptr<BusyPool> busy_;
    Progress progress_;
};

TEST_F(HelpingTest, OneBatchPerQuestion) {
    start();
    Move move(*node_, *remote_, NIXL_WRITE, {{0, 0, kBytes}});
    stopThreads();
    for (int round = 0; round < 2; ++round) {
        fillPattern(node_->memory(), kBytes, 40 + static_cast<std::uint32_t>(round));
        const std::uint64_t before = processVmCalls();
        ASSERT_EQ(move.post().code, NIXL_IN_PROG);
        EXPECT_EQ(processVmCalls(), before) << "the post must not copy";
        for (std::size_t i = 0; i < kBatches; ++i) {
            EXPECT_EQ(batchesOfAQuestion(move), 1U);
            EXPECT_EQ(progress_.code, i + 1 < kBatches ? NIXL_IN_PROG : NIXL_SUCCESS) << i;
        }
        EXPECT_EQ(batchesOfAQuestion(move), 0U);
        EXPECT_EQ(progress_.code, NIXL_SUCCESS);
        EXPECT_TRUE(target_->ask(concat("m 0 ", kBytes)) == std::string(node_->memory(), kBytes));
    }
}

TEST_F(HelpingTest, TheMessageFollowsTheLastBatch) {
    start();
    Move move(*node_, *remote_, NIXL_WRITE, {{0, 0, kBytes}});
    stopThreads();
    EXPECT_EQ(move.run("done").code, NIXL_SUCCESS);
    EXPECT_EQ(target_->ask("n 1"), "initiator\n4\ndone");
}

TEST_F(HelpingTest, FaultsNameTheBlock) {
    start();
    target_->ask(concat("u ", 3 * kBatchBytes + 4096, " 4096"));
    Move move(*node_, *remote_, NIXL_WRITE, {{0, 0, 8}, {8192, 8192, kBytes - 8192}});
    stopThreads();
    const Progress progress = move.run();
    EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
    EXPECT_EQ(progress.message,
              concat("block 1: remote address ", Hex{remote_->address + 3 * kBatchBytes + 4096},
                     " of agent 'target' (process ", target_->child().pid(),
                     ") cannot be written: it is unmapped or protected there"));
    EXPECT_EQ(batchesOfAQuestion(move), 0U);
    EXPECT_EQ(progress_.code, NIXL_ERR_BACKEND);
}

TEST_F(HelpingTest, ACanceledTransferIsLeftAlone) {
    start();
    Move move(*node_, *remote_, NIXL_WRITE, {{0, 0, kBytes}});
    stopThreads();
    ASSERT_EQ(move.post().code, NIXL_IN_PROG);
    EXPECT_EQ(batchesOfAQuestion(move), 1U);
    EXPECT_TRUE(move.cancel(0ms));
    EXPECT_EQ(batchesOfAQuestion(move), 0U);
    EXPECT_EQ(progress_.code, NIXL_ERR_CANCELED);
    EXPECT_EQ(move.run().code, NIXL_SUCCESS);
}

TEST_F(HelpingTest, AnEndedRegistrationIsLeftAlone) {
    start();
    Move move(*node_, *remote_, NIXL_WRITE, {{0, 0, kBytes}});
    stopThreads();
    ASSERT_EQ(move.post().code, NIXL_IN_PROG);
    EXPECT_EQ(batchesOfAQuestion(move), 1U);
    EXPECT_EQ(target_->ask("d"), "0 ");
    EXPECT_EQ(batchesOfAQuestion(move), 0U);
    EXPECT_EQ(progress_.code, NIXL_ERR_NOT_FOUND);
    EXPECT_NE(progress_.message.find("is not registered any more"), std::string::npos) << progress_.message;
}

/// Many questions at a time while threads copy: every byte arrives, and each transfer ends once.
TEST_F(HelpingTest, TogetherWithTheThreads) {
    start(16 * kMiB);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            Move move(*node_, *remote_, NIXL_WRITE, {{i * 4 * kMiB, i * 4 * kMiB, 4 * kMiB}});
            for (int round = 0; round < 10; ++round) {
                Progress progress = move.post();
                while (progress.code == NIXL_IN_PROG)
                    progress = move.check();
                EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_TRUE(target_->ask(concat("m 0 ", 16 * kMiB)) == std::string(node_->memory(), 16 * kMiB));
}

TEST_F(HelpingTest, ManyBlocksAreNotPostedOneByOne) {
    constexpr std::size_t kBlocks = 100'000;
    start(kBlocks * 16);
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < kBlocks; ++i)
        pieces.push_back({i * 16, (kBlocks - 1 - i) * 16, 16});
    Move move(*node_, *remote_, NIXL_WRITE, pieces);
    stopThreads();
    const std::uint64_t calls = processVmCalls();
    const std::size_t allocated = allocationsSoFar();
    ASSERT_EQ(move.post().code, NIXL_IN_PROG);
    EXPECT_EQ(processVmCalls(), calls);
    EXPECT_EQ(allocationsSoFar(), allocated);
    EXPECT_TRUE(move.cancel(0ms));
}

TEST(NoThreads, ThePostDoesItAll) {
    ChildProcess child([](Line &line) {
        Node node("initiator", kBytes, oneThread());
        Node near("near", kBytes);
        Move move(node, node.load("near", near.card()), NIXL_WRITE, {{0, 0, kBytes}});
        fillPattern(node.memory(), kBytes, 9);
        pthread_attr_t attributes; // of threads with stacks that no address space holds
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{1} << 62);
        pthread_setattr_default_np(&attributes);
        const Progress progress = move.post();
        const bool same = std::memcmp(node.memory(), near.memory(), kBytes) == 0;
        line.send(concat(static_cast<int>(progress.code), same ? " same" : " different"));
    });
    EXPECT_EQ(child.line().receive(), "0 same");
}

TEST(Reposting, AllocatesNothing) {
    for (const Kind kind : {Kind::kPrivate, Kind::kSealed}) {
        TargetProcess target(kBytes, Options(), [] {}, kind);
        Node node("initiator", kBytes, oneThread());
        Node near("near", kBytes);
        for (Node::Remote *remote : {&node.load("target", target.card()), &node.load("near", near.card())}) {
            Move move(node, *remote, NIXL_WRITE, {{0, 0, kBytes}});
            EXPECT_EQ(move.run().code, NIXL_SUCCESS);
            const std::size_t before = allocationsSoFar();
            for (int round = 0; round < 20; ++round) {
                Progress progress = move.post();
                for (int asked = 0; progress.code == NIXL_IN_PROG; ++asked) {
                    if (round % 2 == 0 || asked > 0)
                        std::this_thread::yield();
                    progress = move.check();
                }
                EXPECT_EQ(progress.code, NIXL_SUCCESS);
            }
            EXPECT_EQ(allocationsSoFar() - before, 0U);
        }
    }
}

} // namespace

} // namespace nixl::local
