#include "engines/ucx/library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/ucx/candidates.h"
#include "engines/ucx/foreign.h"
#include "engines/ucx/log_route.h"
#include "support/log_capture.h"
#include "support/temp_dir.h"

namespace nixl::ucx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<const Library>
opened() {
    Result<std::shared_ptr<const Library>> library = Library::get(Options());
    EXPECT_TRUE(library.ok()) << library.status().message();
    return library.ok() ? library.value() : nullptr;
}

/// Makes a context with a setting, ends it, and returns what UCX answered.
ucs_status_t
makeContext(const Api &api, const char *name, const char *value) {
    ucp_config_t *config = nullptr;
    if (api.config_read(nullptr, nullptr, &config) != UCS_OK)
        return UCS_ERR_NO_RESOURCE;
    ucs_status_t status = api.config_modify(config, name, value);
    if (status == UCS_OK) {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA;
        ucp_context_h context = nullptr;
        status = api.init_version(kMinimumMajor, kMinimumMinor, &params, config, &context);
        if (status == UCS_OK)
            api.cleanup(context);
    }
    api.config_release(config);
    return status;
}

class UcxLibrary : public testing::Test {
protected:
    void
    SetUp() override {
        // What the machine's user has set is about other programs.
        for (const char *name : {"UCX_LOG_LEVEL", "UCX_LOG_FILE", "UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS"})
            ::unsetenv(name);
        testing::GTEST_FLAG(death_test_style) = "threadsafe";
    }
};

TEST_F(UcxLibrary, OpensTheOneOfTheBuild) {
    const std::shared_ptr<const Library> library = opened();
    ASSERT_TRUE(library);
    EXPECT_EQ(judgeVersion(library->version()), "");
    EXPECT_EQ(fs::path(library->path()).filename(), kUcpFile);
    EXPECT_FALSE(library->reason().empty());
    EXPECT_EQ(library, opened());
    EXPECT_EQ(makeContext(library->api(), "TLS", "tcp,self"), UCS_OK);
}

TEST_F(UcxLibrary, ItsSymbolsStayLocal) {
    ASSERT_TRUE(opened());
    EXPECT_FALSE(ucxIsGlobal());
}

TEST_F(UcxLibrary, SignalsStayTheProgrammersOwn) {
    constexpr std::array<int, 6> kSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGUSR1};
    const auto handlers = [&] {
        std::vector<void *> out;
        for (const int number : kSignals) {
            struct sigaction action{};
            ::sigaction(number, nullptr, &action);
            out.push_back(reinterpret_cast<void *>(action.sa_sigaction));
        }
        return out;
    };
    const std::vector<void *> before = handlers();
    const std::shared_ptr<const Library> library = opened();
    ASSERT_TRUE(library);
    EXPECT_EQ(makeContext(library->api(), "TLS", "tcp,self"), UCS_OK);
    EXPECT_EQ(handlers(), before);
}

TEST_F(UcxLibrary, ItsLogLinesBecomeOurs) {
    const std::shared_ptr<const Library> library = opened();
    ASSERT_TRUE(library);
    takeUcxMessage();
    test::LogCapture log;
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    EXPECT_NE(makeContext(library->api(), "RNDV_THRESH", "rubbish"), UCS_OK);
    EXPECT_EQ(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(), "");
    EXPECT_GE(log.count("UCX: ", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("UCX: ", LogLevel::kWarn), 0u);
    EXPECT_THAT(takeUcxMessage(), HasSubstr("rubbish"));
    EXPECT_EQ(takeUcxMessage(), "");
}

TEST_F(UcxLibrary, AVariableOfNoUseIsNoLineOnTheTerminal) {
    const std::shared_ptr<const Library> library = opened();
    ASSERT_TRUE(library);
    ::setenv("UCX_NO_SUCH_SETTING", "1", 1);
    test::LogCapture log;
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    EXPECT_EQ(makeContext(library->api(), "TLS", "tcp,no_such_transport"), UCS_OK);
    EXPECT_EQ(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(), "");
    ::unsetenv("UCX_NO_SUCH_SETTING");
    EXPECT_GE(log.count("no_such_transport", LogLevel::kInfo), 1u);
}

TEST(UcxLogRoute, APersonMayAskForUcxsOwnLog) {
    EXPECT_FALSE(ucxLogsItself({{"UCX_TLS", "tcp"}}));
    EXPECT_TRUE(ucxLogsItself({{"UCX_LOG_LEVEL", "info"}}));
    EXPECT_TRUE(ucxLogsItself({{"UCX_LOG_FILE", "/dev/null"}}));
}

TEST(UcxForeign, IsKnownByName) {
    ForeignUcx found;
    for (const char *path :
         {"/usr/lib/libucp.so.0", "/usr/lib/libucs.so.0.0.0", "/x/libucp-1a2b3c4d.so.0.0.0",
          "/x/libucm-f6ca5dec.so.0.0.0", "/usr/lib/libucxx.so", "/usr/lib/libucs_signal.so.0",
          "/usr/lib/libc.so.6", "", "/usr/lib/libuct"})
        classifyLoaded(path, found);
    EXPECT_THAT(found.sameName, ElementsAre("/usr/lib/libucp.so.0", "/usr/lib/libucs.so.0.0.0"));
    EXPECT_THAT(found.otherName, ElementsAre("/x/libucp-1a2b3c4d.so.0.0.0", "/x/libucm-f6ca5dec.so.0.0.0"));
}

/// Loads `file` as another package would, then asks for ours; ends the process with 0 if `check` is content.
template<typename Check>
[[noreturn]] void
getBeside(const std::string &file, Check check) {
    const bool loaded = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
    std::_Exit(loaded && check(Library::get(Options())) ? 0 : 1);
}

TEST_F(UcxLibrary, AnOldOneInTheProcessIsRefusedByName) {
    const test::TempDir folder;
    for (const char *part : {kUcpFile, kUcsFile})
        fs::copy_file(NIXL_TEST_UCX_OLD, folder.file(part));
    const auto refused = [&](const Result<std::shared_ptr<const Library>> &library) {
        const std::string message = library.status().message();
        return message.find(folder.file(kUcpFile)) != std::string::npos &&
               message.find("1.18.1 is too old") != std::string::npos;
    };
    EXPECT_EXIT(getBeside(folder.file(kUcpFile), refused), testing::ExitedWithCode(0), "");
}

TEST_F(UcxLibrary, OneOfTheSameNameInTheProcessIsUsed) {
    const std::string file = currentPlaces(Options()).configured + "/" + kUcpFile;
    const auto used = [&](const Result<std::shared_ptr<const Library>> &library) {
        return library.ok() && library.value()->reason().find("already loaded") != std::string::npos &&
               library.value()->reason().find(file) != std::string::npos &&
               makeContext(library.value()->api(), "TLS", "tcp,self") == UCS_OK;
    };
    EXPECT_EXIT(getBeside(file, used), testing::ExitedWithCode(0), "");
}

TEST_F(UcxLibrary, OneOfAnotherNameInTheProcessIsNamed) {
    const test::TempDir folder;
    const std::string file = folder.file("libucp-1a2b3c4d.so.0.0.0");
    fs::copy_file(NIXL_TEST_UCX_OLD, file);
    const auto named = [&](const Result<std::shared_ptr<const Library>> &library) {
        if (!library.ok())
            return false;
        for (const std::string &note : library.value()->notes())
            if (note.find(file) != std::string::npos)
                return makeContext(library.value()->api(), "TLS", "tcp,self") == UCS_OK;
        return false;
    };
    EXPECT_EXIT(getBeside(file, named), testing::ExitedWithCode(0), "");
}

[[noreturn]] void
getChosen(const std::string &folder, std::string_view expected) {
    Options options;
    options.ucxDir = folder;
    const Result<std::shared_ptr<const Library>> library = Library::get(options);
    const std::string text = library.ok() ? library.value()->reason() : library.status().message();
    if (text.find(expected) == std::string::npos)
        std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(text.find(expected) != std::string::npos ? 0 : 1);
}

TEST_F(UcxLibrary, TheChosenOneIsTakenOrTheReasonGiven) {
    const std::string configured = currentPlaces(Options()).configured;
    EXPECT_EXIT(getChosen(configured, "named by NIXL_UCX_DIR"), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(getChosen("/nonexistent", "NIXL_UCX_DIR is '/nonexistent'"), testing::ExitedWithCode(0), "");
    const test::TempDir folder;
    for (const char *part : {kUcpFile, kUcsFile})
        fs::copy_file(NIXL_TEST_UCX_OLD, folder.file(part));
    EXPECT_EXIT(getChosen(folder.path(), "1.18.1 is too old"), testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace nixl::ucx
