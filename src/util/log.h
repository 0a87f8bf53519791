// Log lines: "HH:MM:SS.mmm NIXL LEVEL file:line] text" on stderr.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "util/concat.h"

namespace nixl {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kFatal };

/// Where lines go instead of stderr; tests install one to expect or forbid lines. Called under a lock.
using LogSink = std::function<void(LogLevel level, std::string_view text)>;

/// Lines below this level cost one relaxed load. Set from NIXL_LOG_LEVEL at first use, WARN without a valid
/// one.
LogLevel logLevel();

/// Sets the level for good.
void setLogLevel(LogLevel level);

/// Sets the level unless setLogLevel did.
void adoptLogLevel(LogLevel level);

/// A level by its name, in any case of letters.
std::optional<LogLevel> parseLogLevel(std::string_view text);

std::string_view logLevelName(LogLevel level);

/// Replaces the sink and returns the former one; an empty sink means stderr.
LogSink setLogSink(LogSink sink);

/// One line with one write(2); control characters in `text` are escaped and a very long text is cut.
void writeLog(LogLevel level, const char *file, int line, std::string_view text);

} // namespace nixl

/// NIXL_LOG(kWarn, "port ", port, " is taken"): the parts are only evaluated if the level is on.
#define NIXL_LOG(level, ...)                                                                                 \
    do {                                                                                                     \
        if (::nixl::LogLevel::level >= ::nixl::logLevel())                                                   \
            ::nixl::writeLog(::nixl::LogLevel::level, __FILE__, __LINE__, ::nixl::concat(__VA_ARGS__));      \
    } while (0)
