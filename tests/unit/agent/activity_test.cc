// The sleep under every wait, without an agent.
#include "agent/activity.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace nixl {
namespace {

using namespace std::chrono_literals;
using Clock = Activity::Clock;

bool
readable(const ActivityWatch &watch, int timeoutMs = 0) {
    pollfd waited{watch.fd(), POLLIN, 0};
    return ::poll(&waited, 1, timeoutMs) == 1;
}

TEST(ActivityTest, SleepEndsAtOnceIfSomethingHappenedSinceTheCountWasRead) {
    Activity activity;
    const std::uint32_t seen = activity.count();
    activity.signal();
    activity.sleep(seen, std::nullopt); // would last for ever
    EXPECT_NE(activity.count(), seen);
}

TEST(ActivityTest, SleepEndsAtItsLimit) {
    Activity activity;
    const auto limit = Clock::now() + 20ms;
    while (Clock::now() < limit)
        activity.sleep(activity.count(), limit);
    activity.sleep(activity.count(), Clock::time_point()); // long past
    activity.sleep(activity.count(), Clock::now() - 1s);
    EXPECT_LT(Clock::now(), limit + 10s);
}

TEST(ActivityTest, NoSignalIsLostAndEachWakesAllWhoSleep) {
    constexpr std::uint32_t kRounds = 20000;
    Activity activity;
    std::array<std::atomic<std::uint32_t>, 3> at{};
    std::vector<std::thread> threads;
    for (std::atomic<std::uint32_t> &mine : at) {
        threads.emplace_back([&activity, &mine] {
            for (std::uint32_t seen = 0; seen < kRounds; seen = activity.count()) {
                mine.store(seen);
                activity.sleep(seen, std::nullopt);
            }
        });
    }
    // A round begins when a sleeper has seen the last one, so that most signals meet somebody falling asleep.
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        while (at[round % at.size()].load() < round)
            std::this_thread::yield();
        activity.signal();
    }
    for (std::thread &thread : threads)
        thread.join();
}

TEST(ActivityTest, AWatchIsReadableFromASignalUntilItIsCleared) {
    const auto activity = std::make_shared<Activity>();
    activity->signal();
    const auto one = ActivityWatch::create(activity).value();
    const auto other = ActivityWatch::create(activity).value();
    EXPECT_FALSE(readable(*one)) << "it was made after the signal";
    activity->signal();
    activity->signal();
    EXPECT_TRUE(readable(*one));
    one->clear();
    EXPECT_FALSE(readable(*one)) << "many signals are cleared at once";
    EXPECT_TRUE(readable(*other)) << "its events are its own";
    activity->signal();
    EXPECT_TRUE(readable(*one));
}

TEST(ActivityTest, WatchesMissNothingWhileTheyAreCleared) {
    constexpr int kSignals = 20000;
    const auto activity = std::make_shared<Activity>();
    const auto watch = ActivityWatch::create(activity).value();
    std::atomic<int> sent{0};
    std::thread sender([&] {
        for (int i = 0; i < kSignals; ++i) {
            sent.fetch_add(1);
            activity->signal();
        }
    });
    int looked = 0;
    while (looked < kSignals && readable(*watch, 60000)) {
        watch->clear();
        looked = sent.load();
    }
    EXPECT_EQ(looked, kSignals) << "a signal left the descriptor as it was";
    sender.join();
}

TEST(ActivityTest, WatchesComeAndGoWhileOthersSignal) {
    const auto activity = std::make_shared<Activity>();
    std::atomic<bool> stop{false};
    std::thread sender([&] {
        while (!stop.load())
            activity->signal();
    });
    for (int i = 0; i < 200; ++i) {
        const auto watch = ActivityWatch::create(activity).value();
        EXPECT_TRUE(readable(*watch, 60000));
    }
    stop.store(true);
    sender.join();
}

} // namespace
} // namespace nixl
