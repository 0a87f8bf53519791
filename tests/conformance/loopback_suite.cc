// Transfers of an agent with itself.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "conformance/suite_support.h"

namespace nixl::conformance {

namespace {

/// Two memories of one agent.
struct Loopback {
    explicit Loopback(const EngineTraits &traits, std::size_t length = kPatternLength)
        : side(traits, "agent"), near(side.allocate(length)), far(side.allocate(length)) {}

    Target
    target() {
        return loopbackTarget(side, *far);
    }

    Side side;
    std::unique_ptr<Registered> near;
    std::unique_ptr<Registered> far;
};

} // namespace

#define SKIP_UNLESS_LOCAL(engine)                                                                            \
    if (!(engine).capabilities().local)                                                                      \
    GTEST_SKIP() << GetParam().name << " has no local transfers"

TEST_P(EngineSuite, LoopbackMovesExactlyTheBlocks) {
    const EngineTraits &traits = GetParam();
    Side side(traits, "agent");
    SKIP_UNLESS_LOCAL(side.engine());
    std::size_t pairsTried = 0;
    for (std::size_t i = 0; i < traits.memories.size(); ++i) {
        for (std::size_t j = 0; j < traits.memories.size(); ++j) {
            if (!side.engine()
                     .path(NIXL_WRITE, traits.memories[i].kind, traits.memories[j].kind, nullptr)
                     .ok())
                continue;
            ++pairsTried;
            const std::unique_ptr<Registered> near = side.allocate(kPatternLength, i);
            const std::unique_ptr<Registered> far = side.allocate(kPatternLength, j);
            for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
                for (const auto &[name, pieces] : piecePatterns()) {
                    SCOPED_TRACE(
                        concat(name, " ", nixlEnumStrings::xferOpStr(operation), " memory ", i, " ", j));
                    const std::string nearBytes = pattern(kPatternLength, 1);
                    const std::string farBytes = pattern(kPatternLength, 2);
                    near->memory().store(0, nearBytes);
                    far->memory().store(0, farBytes);
                    Transfer transfer(side.engine(), operation, *near, loopbackTarget(side, *far), pieces);
                    const Progress progress = transfer.run();
                    ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
                    const bool write = operation == NIXL_WRITE;
                    EXPECT_TRUE(near->memory().load(0, kPatternLength) ==
                                (write ? nearBytes : moved(farBytes, nearBytes, pieces, operation)));
                    EXPECT_TRUE(far->memory().load(0, kPatternLength) ==
                                (write ? moved(nearBytes, farBytes, pieces, operation) : farBytes));
                }
            }
        }
    }
    EXPECT_GT(pairsTried, 0u);
}

TEST_P(EngineSuite, RequestsCanBePostedAgainWithNewBytes) {
    Loopback loopback(GetParam());
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    const std::vector<Piece> pieces = piecePatterns().at("many with gaps");
    Transfer transfer(loopback.side.engine(), NIXL_WRITE, *loopback.near, loopback.target(), pieces);
    for (unsigned round = 0; round < 10; ++round) {
        const std::string bytes = pattern(kPatternLength, round);
        loopback.near->memory().store(0, bytes);
        loopback.far->memory().store(0, std::string(kPatternLength, 'x'));
        const Progress progress = transfer.run();
        ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
        EXPECT_TRUE(loopback.far->memory().load(0, kPatternLength) ==
                    moved(bytes, std::string(kPatternLength, 'x'), pieces, NIXL_WRITE))
            << "round " << round;
    }
}

TEST_P(EngineSuite, AgentsNotifyThemselves) {
    Loopback loopback(GetParam());
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    Engine &engine = loopback.side.engine();
    if (!engine.capabilities().notifications)
        GTEST_SKIP() << GetParam().name << " has no notifications";
    const Status status = engine.notify(nullptr, "alone");
    ASSERT_TRUE(status.ok()) << status.message();
    Transfer transfer(engine, NIXL_WRITE, *loopback.near, loopback.target(), {{0, 0, 1000}});
    EXPECT_EQ(transfer.run("with data").code, NIXL_SUCCESS);
    const std::vector<Notification> taken = takeNotifications(engine, 2);
    ASSERT_EQ(taken.size(), 2u);
    for (const Notification &notification : taken)
        EXPECT_EQ(notification.agent, "agent");
    EXPECT_THAT((std::vector<std::string>{taken[0].message, taken[1].message}),
                ::testing::UnorderedElementsAre("alone", "with data"));
}

TEST_P(EngineSuite, ManyThreadsPostTheirRequests) {
    constexpr std::size_t kThreads = 8;
    constexpr std::size_t kPart = 20000;
    Loopback loopback(GetParam(), kThreads * kPart);
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    const Target target = loopback.target();
    const std::string bytes = pattern(kThreads * kPart, 3);
    loopback.near->memory().store(0, bytes);
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) {
                Transfer transfer(loopback.side.engine(), NIXL_WRITE, *loopback.near, target,
                                  {{i * kPart, i * kPart, kPart / 2},
                                   {i * kPart + kPart / 2, i * kPart + kPart / 2, kPart / 2}});
                failures += transfer.run().code != NIXL_SUCCESS;
                failures += transfer.run().code != NIXL_SUCCESS;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0);
    EXPECT_TRUE(loopback.far->memory().load(0, bytes.size()) == bytes);
}

TEST_P(EngineSuite, DeregistersWhileOtherRequestsRun) {
    Loopback loopback(GetParam());
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    const Target target = loopback.target();
    loopback.near->memory().store(0, pattern(kPatternLength, 4));
    std::atomic<bool> stop{false};
    std::atomic<int> failures{0};
    std::thread poster([&] {
        Transfer transfer(loopback.side.engine(), NIXL_WRITE, *loopback.near, target,
                          {{0, 0, kPatternLength}});
        do
            failures += transfer.run().code != NIXL_SUCCESS;
        while (!stop);
    });
    for (int round = 0; round < 50; ++round) {
        const std::unique_ptr<Registered> other = loopback.side.allocate(5000);
        {
            Transfer transfer(loopback.side.engine(), NIXL_WRITE, *other,
                              loopbackTarget(loopback.side, *other), {{0, 2500, 2500}});
            EXPECT_EQ(transfer.run().code, NIXL_SUCCESS);
        }
        const Status status = other->deregister();
        EXPECT_TRUE(status.ok()) << status.message();
    }
    stop = true;
    poster.join();
    EXPECT_EQ(failures, 0);
    EXPECT_TRUE(loopback.far->memory().load(0, kPatternLength) == pattern(kPatternLength, 4));
}

TEST_P(EngineSuite, CancelledRequestsLeaveLocalMemoryAlone) {
    constexpr std::size_t kLength = std::size_t{16} << 20;
    Loopback loopback(GetParam(), kLength);
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    loopback.far->memory().store(0, pattern(kLength, 5));
    const std::unique_ptr<Registered> barrier = loopback.side.allocate(1000);
    Transfer after(loopback.side.engine(), NIXL_WRITE, *barrier, loopbackTarget(loopback.side, *barrier),
                   {{0, 500, 500}});
    Transfer transfer(loopback.side.engine(), NIXL_READ, *loopback.near, loopback.target(),
                      {{0, 0, kLength}});
    for (int round = 0; round < 5; ++round) {
        const Progress posted = transfer.post();
        ASSERT_GE(posted.code, NIXL_SUCCESS) << posted.message;
        ASSERT_TRUE(transfer.request().cancel(kLongEnough));
        const nixl_status_t code = transfer.request().check().code;
        EXPECT_TRUE(code == NIXL_SUCCESS || code == NIXL_ERR_CANCELED) << nixlEnumStrings::statusStr(code);
        const std::string mine = pattern(kLength, 6);
        loopback.near->memory().store(0, mine);
        // Whatever the engine still had to do is done before this.
        EXPECT_EQ(after.run().code, NIXL_SUCCESS);
        EXPECT_TRUE(loopback.near->memory().load(0, kLength) == mine);
    }
    // A request that was cancelled can be posted again.
    const Progress progress = transfer.run();
    EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
    EXPECT_TRUE(loopback.near->memory().load(0, kLength) == pattern(kLength, 5));
}

TEST_P(EngineSuite, RequestsThatWereNeverPostedJustEnd) {
    Loopback loopback(GetParam());
    SKIP_UNLESS_LOCAL(loopback.side.engine());
    for (int i = 0; i < 100; ++i) {
        Transfer transfer(loopback.side.engine(), NIXL_WRITE, *loopback.near, loopback.target(),
                          {{0, 0, 10}});
        EXPECT_TRUE(transfer.request().cancel(std::chrono::milliseconds(0)));
    }
    EXPECT_EQ(loopback.far->memory().load(0, 10), std::string(10, '\0'));
}

} // namespace nixl::conformance
