#include "util/log.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "util/fork_guard.h"
#include "util/mutex.h"
#include "util/options.h"

namespace nixl {

namespace {

constexpr std::array<std::string_view, 6> kNames = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"};
constexpr std::size_t kLongestText = 8192;

// The level, and above it whether setLogLevel chose it. Negative: not decided.
constexpr int kExplicit = 0x100;
constexpr int kLevelMask = 0xff;
std::atomic<int> state{-1};

struct SinkHolder {
    Mutex mutex;
    LogSink sink NIXL_GUARDED_BY(mutex);
};

// Never destroyed: threads may log while the process ends.
SinkHolder &
sinkHolder() {
    static auto *holder = new SinkHolder;
    return *holder;
}

// Without a sink no lock is taken, so that a child forked in the middle of a line can log too.
std::atomic<bool> hasSink{false};

long
localOffset() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    return ::localtime_r(&now, &parts) ? parts.tm_gmtoff : 0;
}

// Seconds between local time and UTC.
std::atomic<long> utcOffset{localOffset()};

std::string
timeOfDay() {
    using namespace std::chrono;
    // localtime_r takes a lock that a child forked at the wrong moment finds taken for ever.
    if (forkDepth() == 0)
        utcOffset.store(localOffset(), std::memory_order_relaxed);
    const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
    const long long local = now + 1000LL * utcOffset.load(std::memory_order_relaxed);
    const long long day = ((local % 86'400'000) + 86'400'000) % 86'400'000;
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%02lld:%02lld:%02lld.%03lld", day / 3'600'000, day / 60'000 % 60,
                  day / 1000 % 60, day % 1000);
    return text.data();
}

// Text from peers and files must not be able to look like further lines or drive a terminal.
void
appendPrintable(std::string &line, std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (const char c : text.substr(0, kLongestText)) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte >= 0x20 && byte != 0x7f) || c == '\t') {
            line += c;
        } else if (c == '\n') {
            line += "\\n";
        } else {
            line += "\\x";
            line += kDigits[byte >> 4];
            line += kDigits[byte & 0xf];
        }
    }
    if (text.size() > kLongestText)
        line += concat("... (", text.size() - kLongestText, " more bytes)");
}

void
writeLine(std::string_view line) {
    while (!line.empty()) {
        const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        line.remove_prefix(static_cast<std::size_t>(n));
    }
}

} // namespace

std::optional<LogLevel>
parseLogLevel(std::string_view text) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (text.size() == kNames[i].size() && ::strncasecmp(text.data(), kNames[i].data(), text.size()) == 0)
            return static_cast<LogLevel>(i);
    return std::nullopt;
}

std::string_view
logLevelName(LogLevel level) {
    return kNames[static_cast<std::size_t>(level)];
}

LogLevel
logLevel() {
    int value = state.load(std::memory_order_relaxed);
    if (value < 0) {
        const int first = static_cast<int>(environmentLogLevel());
        // On failure `value` is what another thread decided meanwhile.
        if (state.compare_exchange_strong(value, first, std::memory_order_relaxed))
            value = first;
    }
    return static_cast<LogLevel>(value & kLevelMask);
}

void
setLogLevel(LogLevel level) {
    state.store(static_cast<int>(level) | kExplicit, std::memory_order_relaxed);
}

void
adoptLogLevel(LogLevel level) {
    int value = state.load(std::memory_order_relaxed);
    while (value < 0 || !(value & kExplicit))
        if (state.compare_exchange_weak(value, static_cast<int>(level), std::memory_order_relaxed))
            return;
}

LogSink
setLogSink(LogSink sink) {
    SinkHolder &holder = sinkHolder();
    LockGuard lock(holder.mutex);
    hasSink.store(static_cast<bool>(sink), std::memory_order_release);
    std::swap(holder.sink, sink);
    return sink;
}

void
writeLog(LogLevel level, const char *file, int line, std::string_view text) {
    if (hasSink.load(std::memory_order_acquire)) {
        SinkHolder &holder = sinkHolder();
        LockGuard lock(holder.mutex);
        if (holder.sink) {
            holder.sink(level, text);
            return;
        }
    }
    const int savedErrno = errno;
    const std::string_view path = file;
    std::string out = concat(timeOfDay(), " NIXL ", logLevelName(level), ' ',
                             path.substr(path.rfind('/') + 1), ':', line, "] ");
    appendPrintable(out, text);
    out += '\n';
    writeLine(out);
    errno = savedErrno;
}

} // namespace nixl
