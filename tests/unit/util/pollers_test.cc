#include "util/pollers.h"

#include <memory>

#include <gtest/gtest.h>

namespace nixl {

namespace {

using namespace std::chrono_literals;

/// A poll after others that follow each other closely; null if this thread was interrupted all the time.
std::unique_ptr<Pollers::Poll>
spin(Pollers &pollers) {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < limit) {
        auto poll = std::make_unique<Pollers::Poll>(pollers);
        if (pollers.present())
            return poll;
    }
    return nullptr;
}

TEST(Pollers, ArePresentWhileTheySpinAndNotLongAfter) {
    Pollers pollers;
    EXPECT_FALSE(pollers.present());
    auto poll = spin(pollers);
    ASSERT_NE(poll, nullptr);
    EXPECT_TRUE(pollers.present());
    poll.reset();
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (pollers.present() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_FALSE(pollers.present());
}

TEST(Pollers, WhoSleepsBetweenPollsDoesNotSpin) {
    Pollers pollers;
    for (int i = 0; i < 100; ++i) {
        {
            const Pollers::Poll poll(pollers);
            EXPECT_FALSE(pollers.present());
        }
        std::this_thread::sleep_for(100us);
    }
}

TEST(Pollers, KeepAThreadAsideUntilTheyLeaveOrItIsStopped) {
    Pollers pollers;
    std::atomic<bool> stop{false};
    EXPECT_FALSE(pollers.stepAside(stop));
    auto poll = spin(pollers);
    ASSERT_NE(poll, nullptr);
    std::atomic<bool> back{false};
    std::thread thread([&] {
        pollers.stepAside(stop);
        back = true;
    });
    std::this_thread::sleep_for(20ms); // time to be wrong in
    EXPECT_FALSE(back);
    poll.reset();
    thread.join();

    poll = spin(pollers);
    std::thread stopped([&] { pollers.stepAside(stop); });
    stop = true;
    stopped.join();
}

} // namespace

} // namespace nixl
