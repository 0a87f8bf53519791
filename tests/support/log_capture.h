// Takes the log lines of its scope, whatever their level, instead of stderr.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/log.h"
#include "util/mutex.h"

namespace nixl::test {

class LogCapture {
public:
    LogCapture() : level_(logLevel()) {
        setLogLevel(LogLevel::kTrace);
        former_ = setLogSink([this](LogLevel level, std::string_view text) {
            LockGuard lock(mutex_);
            lines_.emplace_back(level, text);
        });
    }

    ~LogCapture() {
        setLogSink(std::move(former_));
        setLogLevel(level_);
    }

    LogCapture(const LogCapture &) = delete;
    LogCapture &operator=(const LogCapture &) = delete;

    /// Lines of at least this level that contain `text`.
    std::size_t
    count(std::string_view text, LogLevel least = LogLevel::kTrace) const {
        LockGuard lock(mutex_);
        std::size_t found = 0;
        for (const auto &[level, line] : lines_)
            found += level >= least && line.find(text) != std::string::npos;
        return found;
    }

    std::vector<std::pair<LogLevel, std::string>>
    lines() const {
        LockGuard lock(mutex_);
        return lines_;
    }

private:
    const LogLevel level_;
    LogSink former_;
    mutable Mutex mutex_;
    std::vector<std::pair<LogLevel, std::string>> lines_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::test
