// Who polls, drives; and the thread that would do the work stays out of the way meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace nixl {

/// Threads of the program that do the work of one of ours when they ask for its result, and whether they
/// spin, so that ours need not: a thread that is woken beside a poller fights with it for a lock, and on a
/// full machine takes the core from somebody.
///
/// If nobody polls any more, the thread goes on within kLongest.
class Pollers {
public:
    using Clock = std::chrono::steady_clock;

    /// A poll, from its construction to its end.
    class Poll {
    public:
        explicit Poll(Pollers &pollers) : pollers_(pollers) {
            pollers_.inside_.fetch_add(1, std::memory_order_relaxed);
            pollers_.count();
        }

        ~Poll() {
            pollers_.last_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
            pollers_.inside_.fetch_sub(1, std::memory_order_release);
        }

        Poll(const Poll &) = delete;
        Poll &operator=(const Poll &) = delete;

    private:
        Pollers &pollers_;
    };

    /// Whether somebody spins.
    bool
    present() const {
        if (close_.load(std::memory_order_relaxed) < kSpinning)
            return false;
        return inside_.load(std::memory_order_acquire) > 0 || sinceLast() < kRecent;
    }

    /// For the thread that pollers do the work of: sleeps while they are present. True if it slept.
    bool
    stepAside(const std::atomic<bool> &stop) const {
        bool slept = false;
        for (auto pause = kShortest; present() && !stop.load(std::memory_order_relaxed);
             pause = std::min(2 * pause, kLongest)) {
            std::this_thread::sleep_for(pause);
            slept = true;
        }
        return slept;
    }

    /// Whoever polled is going to sleep: its polls say nothing about the next ones.
    void
    leave() {
        close_.store(0, std::memory_order_relaxed);
    }

private:
    /// So many polls, each so soon after the one before, are somebody who spins; one that sleeps or does
    /// other work between its polls counts on the thread.
    static constexpr int kSpinning = 8;
    static constexpr std::chrono::microseconds kClose{20};
    static constexpr std::chrono::microseconds kRecent{50};
    static constexpr std::chrono::microseconds kShortest{100};
    static constexpr std::chrono::microseconds kLongest{1000};

    Clock::duration
    sinceLast() const {
        return Clock::now().time_since_epoch() - Clock::duration(last_.load(std::memory_order_relaxed));
    }

    void
    count() {
        const bool close = sinceLast() < kClose;
        const int before = close_.load(std::memory_order_relaxed);
        close_.store(close ? std::min(before + 1, kSpinning) : 0, std::memory_order_relaxed);
    }

    std::atomic<int> inside_{0};
    std::atomic<int> close_{0}; ///< polls in a row; with several pollers at a time only about that
    std::atomic<Clock::rep> last_{0};
};

} // namespace nixl
