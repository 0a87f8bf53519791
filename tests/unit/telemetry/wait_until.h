// Waits for something that another thread brings about.
#pragma once

#include <chrono>
#include <thread>

namespace nixl::test {

/// True as soon as `condition` holds, false if it does not within a minute.
template<typename Condition>
bool
waitUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

} // namespace nixl::test
