#include "util/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "support/log_capture.h"
#include "util/scoped_fd.h"

namespace nixl {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

/// What `body` writes to stderr.
template<typename Body>
std::string
stderrOf(Body body) {
    ::testing::internal::CaptureStderr();
    body();
    return ::testing::internal::GetCapturedStderr();
}

/// What `body` returns in a process that has not used the log yet, with a variable set.
template<typename Body>
int
inFreshProcess(const char *variable, const char *value, Body body) {
    ::setenv(variable, value, 1);
    const auto leave = [&] {
        const int code = body();
        ::_exit(code);
    };
    // The test program is started anew, so what this process did to the level does not count.
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    int seen = -1;
    const auto record = [&seen](int status) {
        seen = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return true;
    };
    EXPECT_EXIT(leave(), record, "");
    ::unsetenv(variable);
    return seen;
}

class LogTest : public ::testing::Test {
protected:
    void
    TearDown() override {
        setLogLevel(LogLevel::kWarn);
    }
};

TEST_F(LogTest, LineHasTimeLevelFileAndText) {
    setLogLevel(LogLevel::kInfo);
    const std::string out = stderrOf([] { NIXL_LOG(kInfo, "port ", 8888, " is taken"); });
    EXPECT_THAT(out, MatchesRegex("[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9][0-9][0-9] NIXL INFO "
                                  "log_test\\.cc:[0-9]+\\] port 8888 is taken\n"));
}

TEST_F(LogTest, LinesBelowTheLevelAreNeitherWrittenNorMade) {
    setLogLevel(LogLevel::kError);
    int evaluated = 0;
    const std::string out = stderrOf([&] {
        NIXL_LOG(kWarn, "quiet ", ++evaluated);
        NIXL_LOG(kError, "loud ", ++evaluated);
    });
    EXPECT_THAT(out, HasSubstr("loud 1"));
    EXPECT_THAT(out, Not(HasSubstr("quiet")));
    EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, EachLevelHasItsName) {
    setLogLevel(LogLevel::kTrace);
    const std::string out = stderrOf([] {
        NIXL_LOG(kTrace, "x");
        NIXL_LOG(kDebug, "x");
        NIXL_LOG(kInfo, "x");
        NIXL_LOG(kWarn, "x");
        NIXL_LOG(kError, "x");
        NIXL_LOG(kFatal, "x");
    });
    for (const char *name : {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"})
        EXPECT_THAT(out, HasSubstr(std::string(" NIXL ") + name + " log_test.cc:"));
}

TEST_F(LogTest, NamesAreReadInAnyCaseAndNothingElse) {
    EXPECT_EQ(parseLogLevel("TRACE"), LogLevel::kTrace);
    EXPECT_EQ(parseLogLevel("debug"), LogLevel::kDebug);
    EXPECT_EQ(parseLogLevel("Info"), LogLevel::kInfo);
    EXPECT_EQ(parseLogLevel("wArN"), LogLevel::kWarn);
    EXPECT_EQ(parseLogLevel("ERROR"), LogLevel::kError);
    EXPECT_EQ(parseLogLevel("FATAL"), LogLevel::kFatal);
    for (const char *text : {"", " INFO", "INFO ", "INF", "WARNING", "3"})
        EXPECT_EQ(parseLogLevel(text), std::nullopt) << text;
}

TEST_F(LogTest, ControlCharactersCannotForgeLines) {
    const std::string out =
        stderrOf([] { NIXL_LOG(kError, "agent 'a\n00:00:00.000 NIXL ERROR x\x1b[2J\x7f\t\xc3\xa9'"); });
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
    EXPECT_THAT(out, HasSubstr("agent 'a\\n00:00:00.000 NIXL ERROR x\\x1b[2J\\x7f\t\xc3\xa9'"));
}

TEST_F(LogTest, LongTextIsCut) {
    const std::string out = stderrOf([] { NIXL_LOG(kError, std::string(1 << 20, 'y')); });
    EXPECT_LT(out.size(), 10'000u);
    EXPECT_THAT(out, HasSubstr("yyyy... (1040384 more bytes)\n"));
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
    constexpr int kThreads = 4;
    constexpr int kLines = 200;
    const std::string out = stderrOf([] {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([t] {
                for (int i = 0; i < kLines; ++i)
                    NIXL_LOG(kError, "<", t, ":", i, ":", std::string(200, static_cast<char>('a' + t)), ">");
            });
        for (std::thread &thread : threads)
            thread.join();
    });
    std::set<std::string> seen;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);)
        seen.insert(line.substr(std::min(line.size(), line.find('<'))));
    std::set<std::string> expected;
    for (int t = 0; t < kThreads; ++t)
        for (int i = 0; i < kLines; ++i)
            expected.insert(concat("<", t, ":", i, ":", std::string(200, static_cast<char>('a' + t)), ">"));
    EXPECT_EQ(seen, expected);
}

TEST_F(LogTest, ErrnoSurvivesEvenAFullDisk) {
    const ScopedFd former(::dup(STDERR_FILENO));
    const ScopedFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_GE(::dup2(full.get(), STDERR_FILENO), 0);
    errno = EPERM;
    NIXL_LOG(kError, "x");
    const int after = errno;
    ASSERT_GE(::dup2(former.get(), STDERR_FILENO), 0);
    EXPECT_EQ(after, EPERM);
}

TEST_F(LogTest, SinkTakesLinesAndGivesThemBack) {
    std::vector<std::pair<LogLevel, std::string>> lines;
    const std::string quiet = stderrOf([&] {
        setLogSink([&](LogLevel level, std::string_view text) { lines.emplace_back(level, text); });
        NIXL_LOG(kWarn, "raw\ntext");
        const LogSink former = setLogSink({});
        EXPECT_TRUE(former);
    });
    EXPECT_EQ(quiet, "");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0], std::make_pair(LogLevel::kWarn, std::string("raw\ntext")));
    EXPECT_THAT(stderrOf([] { NIXL_LOG(kWarn, "again"); }), HasSubstr("again"));
    EXPECT_EQ(lines.size(), 1u);
}

TEST_F(LogTest, AForkedChildLogs) {
    const std::string out = stderrOf([] {
        const pid_t child = ::fork();
        if (child == 0) {
            NIXL_LOG(kError, "from the child");
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status));
    });
    EXPECT_THAT(out, HasSubstr("] from the child\n"));
}

TEST(LogLevelDeathTest, ComesFromTheEnvironmentAtFirstUse) {
    const auto level = [] { return static_cast<int>(logLevel()); };
    EXPECT_EQ(inFreshProcess("NIXL_LOG_LEVEL", "debug", level), static_cast<int>(LogLevel::kDebug));
    EXPECT_EQ(inFreshProcess("NIXL_LOG_LEVEL", "chatty", level), static_cast<int>(LogLevel::kWarn));
    EXPECT_EQ(inFreshProcess("NIXL_LOG_LEVEL", "", level), static_cast<int>(LogLevel::kWarn));
}

TEST(LogLevelDeathTest, OptionsDecideUnlessTheProgramDid) {
    const auto adopted = [] {
        adoptLogLevel(LogLevel::kError);
        return static_cast<int>(logLevel());
    };
    EXPECT_EQ(inFreshProcess("NIXL_LOG_LEVEL", "debug", adopted), static_cast<int>(LogLevel::kError));
    const auto chosen = [] {
        setLogLevel(LogLevel::kInfo);
        adoptLogLevel(LogLevel::kError);
        return static_cast<int>(logLevel());
    };
    EXPECT_EQ(inFreshProcess("NIXL_LOG_LEVEL", "debug", chosen), static_cast<int>(LogLevel::kInfo));
}

TEST(LogCapture, CountsByLevel) {
    test::LogCapture capture;
    NIXL_LOG(kDebug, "apple");
    NIXL_LOG(kWarn, "apple pie");
    EXPECT_EQ(capture.count("apple"), 2u);
    EXPECT_EQ(capture.count("apple", LogLevel::kWarn), 1u);
    EXPECT_EQ(capture.lines().size(), 2u);
}

} // namespace
} // namespace nixl
