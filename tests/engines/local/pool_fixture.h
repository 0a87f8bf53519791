// Jobs for tests of the pool, and a pool whose threads have something else to do.
#pragma once

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engines/local/copy_pool.h"

namespace nixl::local {

/// So many allocations by operator new were made in this program, by any thread.
std::size_t allocationsSoFar();

/// Calls a function for each of its batches.
class FunctionJob : public CopyJob {
public:
    FunctionJob(std::size_t batches, std::function<void(std::size_t)> run)
        : batches_(batches), run_(std::move(run)) {}

    std::optional<Claim>
    claim() override {
        const std::size_t batch = next_.fetch_add(1);
        if (batch >= batches_)
            return std::nullopt;
        return Claim{batch, batches_ - batch - 1};
    }

    void
    run(std::size_t batch) override {
        run_(batch);
    }

    /// Has all its batches again.
    void
    rewind() {
        next_ = 0;
    }

private:
    const std::size_t batches_;
    const std::function<void(std::size_t)> run_;
    std::atomic<std::size_t> next_{0};
};

/// While it lives, the only thread of a pool is at work for it. REQUIRES: the pool has one thread.
class BusyPool {
public:
    explicit BusyPool(CopyPool &pool)
        : job_(std::make_shared<FunctionJob>(1, [state = state_](std::size_t) {
              state->begun.count_down();
              state->end.wait();
          })) {
        if (!pool.add(job_))
            throw std::runtime_error("the pool has no thread");
        state_->begun.wait();
    }

    ~BusyPool() {
        state_->end.count_down();
    }

    BusyPool(const BusyPool &) = delete;
    BusyPool &operator=(const BusyPool &) = delete;

private:
    struct State {
        std::latch begun{1};
        std::latch end{1};
    };

    const std::shared_ptr<State> state_ = std::make_shared<State>();
    const std::shared_ptr<FunctionJob> job_;
};

} // namespace nixl::local
