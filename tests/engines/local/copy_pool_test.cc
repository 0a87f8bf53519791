// The threads that copy: turns, how many of them, and what adding work costs.
#include "engines/local/copy_pool.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "pool_fixture.h"
#include "support/counted_new.h"
#include "util/concat.h"

namespace nixl::local {

std::size_t
allocationsSoFar() {
    return test::allocations.load(std::memory_order_relaxed);
}

namespace {

TEST(CopyPoolTest, JobsTakeTurns) {
    CopyPool pool;
    std::string order;
    std::latch all(6);
    const auto job = [&](char name) {
        return std::make_shared<FunctionJob>(3, [&, name](std::size_t batch) {
            order += concat(name, batch, ' ');
            all.count_down();
        });
    };
    {
        BusyPool busy(pool);
        ASSERT_TRUE(pool.add(job('a')));
        ASSERT_TRUE(pool.add(job('b')));
    }
    all.wait();
    EXPECT_EQ(order, "a0 b0 a1 b1 a2 b2 ");
}

TEST(CopyPoolTest, ThreadsAreNotBoundToTheCoreOfWhoStartsThem) {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        GTEST_SKIP() << "one core only";
    CopyPool pool;
    pool.allowThreads(1);
    cpu_set_t seen;
    CPU_ZERO(&seen);
    std::latch done(1);
    std::thread poster([&] {
        int first = 0;
        while (!CPU_ISSET(first, &all))
            ++first;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        ASSERT_TRUE(pool.add(std::make_shared<FunctionJob>(1, [&](std::size_t) {
            sched_getaffinity(0, sizeof seen, &seen);
            done.count_down();
        })));
    });
    poster.join();
    done.wait();
    EXPECT_TRUE(CPU_EQUAL(&seen, &all));
}

TEST(CopyPoolTest, AJobThatWaitsIsAddedOnce) {
    CopyPool pool;
    std::vector<std::size_t> done;
    std::latch all(4);
    const auto job = std::make_shared<FunctionJob>(4, [&](std::size_t batch) {
        done.push_back(batch);
        all.count_down();
    });
    std::latch others(2);
    const auto other = [&] {
        return std::make_shared<FunctionJob>(1, [&](std::size_t) { others.count_down(); });
    };
    {
        BusyPool busy(pool);
        ASSERT_TRUE(pool.add(job));
        ASSERT_TRUE(pool.add(other()));
        ASSERT_TRUE(pool.add(job));
        ASSERT_TRUE(pool.add(other()));
    }
    all.wait();
    others.wait();
    EXPECT_EQ(done, (std::vector<std::size_t>{0, 1, 2, 3}));
}

/// A second thread would get one of the batches sooner or later.
TEST(CopyPoolTest, AJobOfTwoBatchesIsWorthOneThread) {
    for (int round = 0; round < 50; ++round) {
        CopyPool pool;
        pool.allowThreads(8);
        std::latch all(2);
        std::array<std::thread::id, 2> by;
        const auto job = std::make_shared<FunctionJob>(2, [&](std::size_t batch) {
            by[batch] = std::this_thread::get_id();
            for (int i = 0; i < 50; ++i)
                std::this_thread::yield();
            all.count_down();
        });
        ASSERT_TRUE(pool.add(job));
        all.wait();
        EXPECT_EQ(by[0], by[1]);
    }
}

/// Every batch waits until four are under way.
TEST(CopyPoolTest, ALargeJobGetsAllThreads) {
    CopyPool pool;
    pool.allowThreads(4);
    std::latch together(4);
    std::latch all(8);
    const auto job = std::make_shared<FunctionJob>(8, [&](std::size_t batch) {
        if (batch < 4)
            together.arrive_and_wait();
        all.count_down();
    });
    ASSERT_TRUE(pool.add(job));
    all.wait();
}

TEST(CopyPoolTest, SleepingThreadsAreWoken) {
    CopyPool pool;
    pool.allowThreads(3);
    for (int round = 0; round < 200; ++round) {
        std::latch together(3);
        std::latch all(6);
        const auto job = std::make_shared<FunctionJob>(6, [&](std::size_t batch) {
            if (batch < 3)
                together.arrive_and_wait();
            all.count_down();
        });
        ASSERT_TRUE(pool.add(job));
        all.wait();
    }
}

TEST(CopyPoolTest, AddingAllocatesNothing) {
    CopyPool pool;
    std::atomic<std::size_t> done{0};
    std::vector<std::shared_ptr<FunctionJob>> jobs;
    for (int i = 0; i < 100; ++i)
        jobs.push_back(std::make_shared<FunctionJob>(3, [&](std::size_t) {
            done.fetch_add(1);
            done.notify_one();
        }));
    const auto doAll = [&](std::size_t until) {
        for (const auto &job : jobs) {
            job->rewind();
            ASSERT_TRUE(pool.add(job));
        }
        for (std::size_t seen = done; seen < until; seen = done)
            done.wait(seen);
    };
    doAll(300);
    const std::size_t before = allocationsSoFar();
    doAll(600);
    EXPECT_EQ(allocationsSoFar() - before, 0U);
}

TEST(CopyPoolTest, TheEndLetsGoOfJobs) {
    auto job = std::make_shared<FunctionJob>(0, [](std::size_t) {});
    const std::weak_ptr<FunctionJob> left = job;
    std::latch end(1);
    CopyPool pool;
    auto last = std::make_shared<FunctionJob>(1, [&](std::size_t) { end.wait(); });
    ASSERT_TRUE(pool.add(std::move(last)));
    ASSERT_TRUE(pool.add(std::move(job)));
    end.count_down();
    pool.stop();
    EXPECT_TRUE(left.expired());
}

} // namespace

} // namespace nixl::local
