/**
 * @file nixl_log.h
 * Log lines of plugins: they go where the lines of libnixl go, under its level (NIXL_LOG_LEVEL).
 *
 *     NIXL_ERROR << "cannot open " << path;
 *     NIXL_ERROR_FUNC << "no such key";      // "postXfer: no such key"
 *     NIXL_PERROR << "open failed";          // "open failed: No such file or directory [2]", from errno
 *
 * What is streamed is evaluated only if the level is on. Any thread.
 */
#ifndef NIXL_UTILS_COMMON_LOG_H
#define NIXL_UTILS_COMMON_LOG_H

#include <cerrno>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>
#include <system_error>

#include "nixl_types.h"

/** Severity of a line. */
enum class nixl_log_level_t { TRACE = 0, DEBUG = 1, INFO = 2, WARN = 3, ERROR = 4, FATAL = 5 };

/** True if lines of this level are written. */
NIXL_EXPORT bool nixlLogEnabled(nixl_log_level_t level);

/** Writes a line; `file` may be a path, only its last part is printed. Does not throw. */
NIXL_EXPORT void nixlLogWrite(nixl_log_level_t level, const char *file, int line, const std::string &text);

/** Collects one line and writes it when it is destroyed, at the end of the statement. FATAL then aborts. */
class nixlLogLine {
public:
    nixlLogLine(nixl_log_level_t level, const char *file, int line, int error = 0)
        : level_(level), file_(file), line_(line), error_(error) {}

    ~nixlLogLine() {
        if (error_ != 0)
            text_ << ": " << std::generic_category().message(error_) << " [" << error_ << "]";
        nixlLogWrite(level_, file_, line_, text_.str());
        if (level_ == nixl_log_level_t::FATAL)
            std::abort();
    }

    nixlLogLine(const nixlLogLine &) = delete;
    nixlLogLine &operator=(const nixlLogLine &) = delete;

    std::ostream &
    stream() {
        return text_;
    }

private:
    const nixl_log_level_t level_;
    const char *const file_;
    const int line_;
    const int error_;
    std::ostringstream text_;
};

/** Turns a streamed line into a statement of type void, so that the macros fit both branches of `?:`. */
struct nixlLogStatement {
    void
    operator&(std::ostream &) const {}
};

#define NIXL_LOG_LINE_(level, error)                                                                         \
    !nixlLogEnabled(nixl_log_level_t::level)                                                                 \
        ? static_cast<void>(0)                                                                               \
        : nixlLogStatement() & nixlLogLine(nixl_log_level_t::level, __FILE__, __LINE__, (error)).stream()

#define NIXL_TRACE NIXL_LOG_LINE_(TRACE, 0)
#define NIXL_DEBUG NIXL_LOG_LINE_(DEBUG, 0)
#define NIXL_INFO NIXL_LOG_LINE_(INFO, 0)
#define NIXL_WARN NIXL_LOG_LINE_(WARN, 0)
#define NIXL_ERROR NIXL_LOG_LINE_(ERROR, 0)
/** Aborts the process after the line, whatever the level. */
#define NIXL_FATAL nixlLogStatement() & nixlLogLine(nixl_log_level_t::FATAL, __FILE__, __LINE__, 0).stream()

/** The same with the text of errno, as it is when the statement begins, at the end. */
#define NIXL_PDEBUG NIXL_LOG_LINE_(DEBUG, errno)
#define NIXL_PINFO NIXL_LOG_LINE_(INFO, errno)
#define NIXL_PWARN NIXL_LOG_LINE_(WARN, errno)
#define NIXL_PERROR NIXL_LOG_LINE_(ERROR, errno)

/** The same with the name of the function in front. */
#define NIXL_TRACE_FUNC NIXL_TRACE << __func__ << ": "
#define NIXL_DEBUG_FUNC NIXL_DEBUG << __func__ << ": "
#define NIXL_INFO_FUNC NIXL_INFO << __func__ << ": "
#define NIXL_WARN_FUNC NIXL_WARN << __func__ << ": "
#define NIXL_ERROR_FUNC NIXL_ERROR << __func__ << ": "

/** Ends the process with a line if the condition does not hold; more text can be streamed. */
#define NIXL_ASSERT_ALWAYS(condition)                                                                        \
    (condition) ? static_cast<void>(0)                                                                       \
                : nixlLogStatement() & nixlLogLine(nixl_log_level_t::FATAL, __FILE__, __LINE__, 0).stream()  \
                                           << "failed: " #condition " "

/** The same in debug builds; with NDEBUG the condition is compiled and not evaluated. */
#ifdef NDEBUG
#define NIXL_ASSERT(condition) NIXL_ASSERT_ALWAYS(true || (condition))
#else
#define NIXL_ASSERT(condition) NIXL_ASSERT_ALWAYS(condition)
#endif

#endif
