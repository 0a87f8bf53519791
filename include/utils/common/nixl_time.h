/**
 * @file nixl_time.h
 * Times as numbers, for plugins: readings of the steady clock, which say nothing about the time of day.
 */
#ifndef NIXL_UTILS_COMMON_TIME_H
#define NIXL_UTILS_COMMON_TIME_H

#include <chrono>
#include <cstdint>

namespace nixlTime {

using namespace std::chrono;

using ns_t = std::uint64_t;  ///< nanoseconds
using us_t = std::uint64_t;  ///< microseconds
using ms_t = std::uint64_t;  ///< milliseconds
using sec_t = std::uint64_t; ///< seconds

/** The steady clock in whole units of `Unit`. Any thread. */
template<typename Unit>
inline std::uint64_t
steadyCount() {
    return static_cast<std::uint64_t>(duration_cast<Unit>(steady_clock::now().time_since_epoch()).count());
}

inline ns_t
getNs() {
    return steadyCount<nanoseconds>();
}

inline us_t
getUs() {
    return steadyCount<microseconds>();
}

inline ms_t
getMs() {
    return steadyCount<milliseconds>();
}

inline sec_t
getSec() {
    return steadyCount<seconds>();
}

} // namespace nixlTime

#endif
