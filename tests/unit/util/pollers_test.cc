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
    std::atomic<bool> back{false};
    auto poll = std::make_unique<Pollers::Poll>(pollers);
    std::thread thread([&] {
        pollers.stepAside(stop);
        back = true;
    });
    std::this_thread::sleep_for(20ms); // time to be wrong in
    EXPECT_FALSE(back);
    poll.reset();
    thread.join();

    const Pollers::Poll stays(pollers);
    std::thread stopped([&] { pollers.stepAside(stop); });
    stop = true;
    stopped.join();
}

} // namespace

} // namespace nixl
