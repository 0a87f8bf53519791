#include "util/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace nixl {

namespace {

using namespace std::chrono_literals;

TEST(EventLoop, RunsPostsInOrderOnItsThread) {
    auto loop = EventLoop::create("test").value();
    std::vector<int> seen;
    for (int i = 0; i < 1000; ++i)
        loop->post([&seen, &loop, i] { seen.push_back(loop->onLoop() ? i : -1); });
    loop->call([] {});
    ASSERT_EQ(seen.size(), 1000U);
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
    EXPECT_FALSE(loop->onLoop());
}

TEST(EventLoop, CallOnTheLoopRunsAtOnce) {
    auto loop = EventLoop::create("test").value();
    bool ran = false;
    loop->call([&] { loop->call([&] { ran = true; }); });
    EXPECT_TRUE(ran);
}

TEST(EventLoop, TheEndRunsWhatWasPosted) {
    std::atomic<int> count{0};
    auto loop = EventLoop::create("test").value();
    for (int i = 0; i < 100; ++i)
        loop->post([&] { ++count; });
    loop.reset();
    EXPECT_EQ(count, 100);
}

TEST(EventLoop, TellsReadyDescriptorsUntilForgotten) {
    auto loop = EventLoop::create("test").value();
    const ScopedFd fd(eventfd(0, EFD_NONBLOCK));
    std::promise<std::uint32_t> first;
    std::atomic<int> count{0};
    loop->call([&] {
        EXPECT_TRUE(loop->watchFromLoop(fd.get(), EPOLLIN,
                                        [&](std::uint32_t events) {
                                            eventfd_t value;
                                            eventfd_read(fd.get(), &value);
                                            if (++count == 1)
                                                first.set_value(events);
                                        })
                        .ok());
    });
    eventfd_write(fd.get(), 1);
    EXPECT_EQ(first.get_future().get(), static_cast<std::uint32_t>(EPOLLIN));
    loop->call([&] { loop->changeFromLoop(fd.get(), 0); });
    eventfd_write(fd.get(), 1);
    loop->call([] {});
    loop->call([] {});
    EXPECT_EQ(count, 1);
    loop->call([&] { loop->forgetFromLoop(fd.get()); });
    eventfd_write(fd.get(), 1);
    loop->call([] {});
    EXPECT_EQ(count, 1);
}

TEST(EventLoop, AHandlerMayForgetOthersThatAreReadyToo) {
    auto loop = EventLoop::create("test").value();
    const ScopedFd one(eventfd(1, EFD_NONBLOCK));
    const ScopedFd two(eventfd(1, EFD_NONBLOCK));
    int count = 0;
    const auto handler = [&](std::uint32_t) {
        ++count;
        loop->forgetFromLoop(one.get());
        loop->forgetFromLoop(two.get());
    };
    loop->call([&] { // both are ready when the loop looks next
        EXPECT_TRUE(loop->watchFromLoop(one.get(), EPOLLIN, handler).ok());
        EXPECT_TRUE(loop->watchFromLoop(two.get(), EPOLLIN, handler).ok());
    });
    loop->call([] {});
    loop->call([] {});
    loop->call([&] { EXPECT_EQ(count, 1); });
}

TEST(EventLoop, TimersRunInTheirOrderAndCanBeCanceled) {
    auto loop = EventLoop::create("test").value();
    std::string order;
    std::promise<void> last;
    loop->call([&] {
        loop->afterFromLoop(30ms, [&] {
            order += "c";
            last.set_value();
        });
        loop->afterFromLoop(1ms, [&] { order += "a"; });
        const auto canceled = loop->afterFromLoop(5ms, [&] { order += "x"; });
        loop->afterFromLoop(10ms, [&] { order += "b"; });
        loop->cancelFromLoop(canceled);
    });
    last.get_future().get();
    loop->call([&] { EXPECT_EQ(order, "abc"); });
}

TEST(EventLoop, ABadDescriptorIsAnError) {
    auto loop = EventLoop::create("test").value();
    loop->call([&] { EXPECT_FALSE(loop->watchFromLoop(-1, EPOLLIN, [](std::uint32_t) {}).ok()); });
}

TEST(Worker, IsNotJoinedInAForkedChild) {
    std::promise<void> end;
    Worker worker;
    worker.start("test", [&] { end.get_future().wait(); });
    const pid_t pid = fork();
    if (pid == 0) {
        worker.join(); // returns, although the body has not ended
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    end.set_value();
    worker.join();
}

TEST(Worker, BlocksSignals) {
    sigset_t mask;
    sigemptyset(&mask);
    Worker worker;
    worker.start("a name that is too long", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
    worker.join();
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
    sigset_t own;
    pthread_sigmask(SIG_SETMASK, nullptr, &own);
    EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

/// Posts `work` and drives, until it ran in a drive of this thread; the loop's own may be faster now and
/// then.
void
runByDriving(EventLoop &loop, const std::function<void()> &work) {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    std::atomic<bool> mine{false};
    while (!mine && std::chrono::steady_clock::now() < limit) {
        std::atomic<bool> ran{false};
        loop.post([&, caller = std::this_thread::get_id()] {
            mine = std::this_thread::get_id() == caller;
            if (mine)
                work();
            ran = true;
        });
        while (!ran)
            loop.drive();
    }
    ASSERT_TRUE(mine);
}

TEST(EventLoop, WhoDrivesRunsWhatIsReady) {
    auto loop = EventLoop::create("test").value();
    bool onLoop = false;
    bool nested = false;
    runByDriving(*loop, [&] {
        onLoop = loop->onLoop();
        loop->call([&] { nested = true; });
        loop->drive(); // harmless from within
    });
    EXPECT_TRUE(onLoop);
    EXPECT_TRUE(nested);
    EXPECT_FALSE(loop->onLoop());
}

TEST(EventLoop, DriversAndTheThreadRunOneHandlerAtATime) {
    auto loop = EventLoop::create("test").value();
    const ScopedFd fd(eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE));
    std::atomic<int> inside{0};
    std::atomic<bool> overlap{false};
    int handled = 0; // of the loop: a second one at the same time would be a race
    loop->call([&] {
        ASSERT_TRUE(loop->watchFromLoop(fd.get(), EPOLLIN,
                                        [&](std::uint32_t) {
                                            overlap = overlap || ++inside > 1;
                                            eventfd_t value;
                                            handled += eventfd_read(fd.get(), &value) == 0 ? 1 : 0;
                                            --inside;
                                        })
                        .ok());
    });
    constexpr int kDrivers = 3;
    constexpr int kEach = 2000;
    std::vector<std::thread> drivers;
    for (int i = 0; i < kDrivers; ++i)
        drivers.emplace_back([&] {
            for (int n = 0; n < kEach; ++n) {
                eventfd_write(fd.get(), 1);
                loop->drive();
            }
        });
    for (auto &driver : drivers)
        driver.join();
    int seen = 0;
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (seen < kDrivers * kEach && std::chrono::steady_clock::now() < limit)
        loop->call([&] { seen = handled; });
    EXPECT_EQ(seen, kDrivers * kEach);
    EXPECT_FALSE(overlap);
}

TEST(EventLoop, ATimerOfADriverIsKeptWhenNobodyDrives) {
    auto loop = EventLoop::create("test").value();
    std::promise<void> rang;
    runByDriving(*loop, [&] { loop->afterFromLoop(1ms, [&] { rang.set_value(); }); });
    EXPECT_EQ(rang.get_future().wait_for(30s), std::future_status::ready);
}

TEST(EventLoop, PostedWorkIsDoneAfterDriversLeave) {
    auto loop = EventLoop::create("test").value();
    for (int i = 0; i < 50; ++i) {
        loop->drive();
        std::promise<void> done;
        loop->post([&] { done.set_value(); });
        ASSERT_EQ(done.get_future().wait_for(30s), std::future_status::ready);
    }
}

} // namespace

} // namespace nixl
