#include "telemetry/staging_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace nixl {
namespace {

std::vector<nixlTelemetryEvent>
events(std::size_t count, std::uint64_t value) {
    return std::vector<nixlTelemetryEvent>(count, {nixl_telemetry_event_type_t::AGENT_TX_BYTES, value});
}

std::vector<std::uint64_t>
values(const StagingQueue::Drained &drained) {
    std::vector<std::uint64_t> out;
    for (const nixlTelemetryEvent &event : drained.events)
        out.push_back(event.value_);
    return out;
}

TEST(StagingQueueTest, KeepsOrderAndStartsAnew) {
    StagingQueue queue(8);
    queue.push(events(2, 1));
    queue.push(events(1, 2));
    EXPECT_EQ((std::vector<std::uint64_t>{1, 1, 2}), values(queue.drain({})));
    queue.push(events(1, 3));
    EXPECT_EQ((std::vector<std::uint64_t>{3}), values(queue.drain(events(5, 9))));
    EXPECT_TRUE(queue.drain({}).events.empty());
}

TEST(StagingQueueTest, TakesAGroupWholeOrNotAtAll) {
    StagingQueue queue(6);
    queue.push(events(4, 1));
    queue.push(events(4, 2));
    queue.push(events(2, 3));
    queue.push(events(1, 4));
    const StagingQueue::Drained drained = queue.drain({});
    EXPECT_EQ((std::vector<std::uint64_t>{1, 1, 1, 1, 3, 3}), values(drained));
    EXPECT_EQ(5u, drained.dropped);
    EXPECT_EQ(0u, queue.drain({}).dropped);
}

TEST(StagingQueueTest, WakesTheConsumerOncePerDrain) {
    StagingQueue queue(2);
    EXPECT_FALSE(queue.push({}));
    EXPECT_TRUE(queue.push(events(1, 1)));
    EXPECT_FALSE(queue.push(events(1, 2)));
    EXPECT_FALSE(queue.push(events(1, 3)));
    queue.drain({});
    // Drops alone are news too.
    EXPECT_TRUE(queue.push(events(3, 4)));
    EXPECT_FALSE(queue.push(events(1, 5)));
}

TEST(StagingQueueTest, NothingIsLostOrDoubledBetweenThreads) {
    constexpr std::uint64_t kThreads = 4;
    constexpr std::uint64_t kPushes = 5000;
    StagingQueue queue(64);
    std::atomic<std::uint64_t> running{kThreads};
    std::vector<std::thread> producers;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        producers.emplace_back([&, thread] {
            for (std::uint64_t i = 0; i < kPushes; ++i)
                queue.push(events(2, thread * kPushes + i));
            --running;
        });
    }
    std::vector<std::uint64_t> last(kThreads, 0);
    std::uint64_t taken = 0;
    std::uint64_t dropped = 0;
    bool over = false;
    while (!over) {
        over = running == 0; // read before the drain, so that the last drain sees everything
        const StagingQueue::Drained drained = queue.drain({});
        dropped += drained.dropped;
        taken += drained.events.size();
        ASSERT_LE(drained.events.size(), 64u);
        for (std::size_t i = 0; i + 1 < drained.events.size(); i += 2) {
            const std::uint64_t value = drained.events[i].value_;
            ASSERT_EQ(value, drained.events[i + 1].value_);
            ASSERT_GE(value % kPushes, last[value / kPushes]);
            last[value / kPushes] = value % kPushes;
        }
    }
    for (std::thread &producer : producers)
        producer.join();
    EXPECT_EQ(kThreads * kPushes * 2, taken + dropped);
}

} // namespace
} // namespace nixl
