#include "engines/ucx/log_route.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "util/log.h"

namespace nixl::ucx {

namespace {

constexpr std::size_t kLongestLine = 1024;

std::atomic<bool> listensOnly{false};

std::string &
lastMessage() {
    thread_local std::string message;
    return message;
}

std::string
format(const char *text, va_list arguments) {
    std::array<char, kLongestLine> line{};
    std::va_list copy;
    va_copy(copy, arguments);
    const int size = std::vsnprintf(line.data(), line.size(), text, copy);
    va_end(copy);
    std::string out = size < 0 ? text : line.data();
    std::replace(out.begin(), out.end(), '\n', ' ');
    return out;
}

/// Called by UCX, in C: nothing may be thrown through it.
ucs_log_func_rc_t
onLine(const char *file, unsigned line, const char *, ucs_log_level_t level,
       const ucs_log_component_config_t *, const char *text, va_list arguments) noexcept {
    const bool serious = level <= UCS_LOG_LEVEL_WARN;
    const bool listens = listensOnly.load(std::memory_order_relaxed);
    const LogLevel ours = serious ? LogLevel::kInfo : LogLevel::kDebug;
    const bool writes = !listens && ours >= logLevel();
    if (serious || writes) {
        std::string message = format(text, arguments);
        if (writes)
            writeLog(ours, file, static_cast<int>(line), concat("UCX: ", message));
        if (serious)
            lastMessage() = std::move(message);
    }
    return listens ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

} // namespace

bool
ucxLogsItself(const Environment &environment) {
    return environment.count("UCX_LOG_LEVEL") != 0 || environment.count("UCX_LOG_FILE") != 0;
}

void
routeLog(const Api &api, bool listenOnly) {
    listensOnly.store(listenOnly, std::memory_order_relaxed);
    api.log_push_handler(onLine);
}

std::string
takeUcxMessage() {
    return std::exchange(lastMessage(), {});
}

} // namespace nixl::ucx
