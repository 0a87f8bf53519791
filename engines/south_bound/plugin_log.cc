// The log functions of utils/common/nixl_log.h: plugins write where the library writes.
#include "util/log.h"
#include "utils/common/nixl_log.h"

namespace {

nixl::LogLevel
convert(nixl_log_level_t level) {
    switch (level) {
    case nixl_log_level_t::TRACE:
        return nixl::LogLevel::kTrace;
    case nixl_log_level_t::DEBUG:
        return nixl::LogLevel::kDebug;
    case nixl_log_level_t::INFO:
        return nixl::LogLevel::kInfo;
    case nixl_log_level_t::WARN:
        return nixl::LogLevel::kWarn;
    case nixl_log_level_t::ERROR:
        return nixl::LogLevel::kError;
    case nixl_log_level_t::FATAL:
        return nixl::LogLevel::kFatal;
    }
    return nixl::LogLevel::kError;
}

} // namespace

bool
nixlLogEnabled(nixl_log_level_t level) {
    return convert(level) >= nixl::logLevel();
}

void
nixlLogWrite(nixl_log_level_t level, const char *file, int line, const std::string &text) {
    nixl::writeLog(convert(level), file, line, text);
}
