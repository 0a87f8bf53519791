// A trap: lines of level WARN and above that nobody expected fail the test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/log.h"
#include "util/mutex.h"

namespace nixl::test {

/// Watches the log of its scope. Lines below WARN are dropped.
class ExpectLog {
public:
    ExpectLog() {
        former_ = setLogSink([this](LogLevel level, std::string_view text) {
            if (level < LogLevel::kWarn)
                return;
            LockGuard lock(mutex_);
            lines_.emplace_back(text);
        });
    }

    ~ExpectLog() {
        setLogSink(std::move(former_));
        LockGuard lock(mutex_);
        for (const std::string &line : lines_)
            if (!expected(line))
                ADD_FAILURE() << "unexpected line in the log: " << line;
    }

    ExpectLog(const ExpectLog &) = delete;
    ExpectLog &operator=(const ExpectLog &) = delete;

    /// Lines that contain `text` are all right, as many as come.
    void
    allow(std::string text) {
        LockGuard lock(mutex_);
        allowed_.push_back(std::move(text));
    }

    /// Lines of level WARN and above so far that contain `text`.
    std::size_t
    count(std::string_view text) const {
        LockGuard lock(mutex_);
        std::size_t found = 0;
        for (const std::string &line : lines_)
            found += line.find(text) != std::string::npos;
        return found;
    }

private:
    bool
    expected(const std::string &line) const NIXL_REQUIRES(mutex_) {
        for (const std::string &text : allowed_)
            if (line.find(text) != std::string::npos)
                return true;
        return false;
    }

    LogSink former_;
    mutable Mutex mutex_;
    std::vector<std::string> lines_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::string> allowed_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::test
