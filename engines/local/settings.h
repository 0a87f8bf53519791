// What the engine takes from the options of the process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nixl::local {

struct Settings {
    unsigned threads = 0; ///< 0: chosen from the cores
    std::chrono::milliseconds connectTimeout{1000};
    std::chrono::milliseconds quiesceTimeout{5000};
    std::uint64_t notifMaxBytes = std::uint64_t{256} << 20;
    std::uint64_t notifQueueBytes = std::uint64_t{64} << 20;
    std::chrono::milliseconds notifTimeout{1000};
    std::size_t maxConnections = 4096; ///< that one engine keeps at a time
};

} // namespace nixl::local
