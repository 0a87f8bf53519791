#include "util/pollers.h"

#include <memory>

#include <gtest/gtest.h>

namespace nixl {

namespace {

using namespace std::chrono_literals;

TEST(Pollers, ArePresentWhileTheyPollAndNotLongAfter) {
    Pollers pollers;
    EXPECT_FALSE(pollers.present());
    {
        const Pollers::Poll poll(pollers);
        EXPECT_TRUE(pollers.present());
    }
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (pollers.present() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_FALSE(pollers.present());
}

TEST(Pollers, KeepAThreadAsideUntilTheyLeaveOrItIsStopped) {
    Pollers pollers;
    std::atomic<bool> stop{false};
    EXPECT_FALSE(pollers.stepAside(stop));
    std::atomic<bool> aside{true};
    auto poll = std::make_unique<Pollers::Poll>(pollers);
    std::thread left([&] {
        EXPECT_TRUE(pollers.stepAside(stop));
        aside = false;
    });
    EXPECT_TRUE(aside);
    poll.reset();
    left.join();

    const Pollers::Poll stays(pollers);
    std::thread stopped([&] { pollers.stepAside(stop); });
    stop = true;
    stopped.join();
}

} // namespace

} // namespace nixl
