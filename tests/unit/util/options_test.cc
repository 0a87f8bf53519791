#include "util/options.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <set>

#include "support/log_capture.h"
#include "support/temp_dir.h"
#include "util/toml_file.h"

namespace nixl {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const OptionRow &
row(std::string_view name) {
    for (const OptionRow &candidate : optionTable())
        if (candidate.name == name)
            return candidate;
    throw std::out_of_range(std::string(name));
}

Options
resolve(const Environment &environment, const std::optional<std::string> &file = std::nullopt) {
    std::optional<ConfigText> config;
    if (file)
        config = ConfigText{"/x/nixl.cfg", *file};
    Result<Options> options = resolveOptions(environment, config);
    EXPECT_TRUE(options.ok()) << options.status().message();
    return options.ok() ? std::move(options).value() : Options();
}

std::string
errorOf(const Environment &environment, const std::optional<std::string> &file = std::nullopt) {
    std::optional<ConfigText> config;
    if (file)
        config = ConfigText{"/x/nixl.cfg", *file};
    const Result<Options> options = resolveOptions(environment, config);
    if (options.ok())
        return "no error";
    EXPECT_EQ(options.status().code(), NIXL_ERR_INVALID_PARAM);
    return options.status().message();
}

/// The notes as "LEVEL text" lines.
std::string
notesOf(const Options &options) {
    std::string out;
    for (const OptionNote &note : options.notes)
        out += concat(logLevelName(note.level), ' ', note.text, '\n');
    return out;
}

// ---- The table ----

TEST(OptionTable, NamesAreUniqueAndOfOneForm) {
    std::set<std::string_view> names;
    for (const OptionRow &option : optionTable()) {
        EXPECT_TRUE(names.insert(option.name).second) << option.name;
        EXPECT_EQ(option.name.substr(0, 5), "NIXL_");
        for (const char c : option.name)
            EXPECT_TRUE(std::isupper(static_cast<unsigned char>(c)) ||
                        std::isdigit(static_cast<unsigned char>(c)) || c == '_')
                << option.name;
    }
}

TEST(OptionTable, EachRowExplainsItselfInOneSentence) {
    for (const OptionRow &option : optionTable()) {
        ASSERT_FALSE(option.help.empty()) << option.name;
        EXPECT_EQ(option.help.back(), '.') << option.name;
        EXPECT_EQ(option.help.find(". "), std::string_view::npos) << option.name;
        EXPECT_EQ(option.help.find('|'), std::string_view::npos) << option.name;
    }
}

TEST(OptionTable, NoTwoRowsFillTheSameField) {
    const std::span<const OptionRow> table = optionTable();
    for (std::size_t i = 0; i < table.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_FALSE(table[i].field == table[j].field) << table[i].name << " and " << table[j].name;
}

TEST(OptionTable, DefaultsAreAmongTheAcceptedValuesOrExplained) {
    for (const OptionRow &option : optionTable()) {
        const std::string value = optionValue(Options(), option);
        Options options;
        EXPECT_TRUE(setOption(options, option, value).ok()) << option.name;
        EXPECT_EQ(value.empty(), !option.whenEmpty.empty()) << option.name;
    }
}

TEST(OptionTable, DefaultsAreTheDocumentedOnes) {
    const Options options;
    EXPECT_EQ(options.logLevel, LogLevel::kWarn);
    EXPECT_TRUE(options.local);
    EXPECT_EQ(options.localThreads, 0u);
    EXPECT_EQ(options.localConnectTimeout, 1s);
    EXPECT_EQ(options.localQuiesceTimeout, 5s);
    EXPECT_TRUE(options.ucxPackedBlocks);
    EXPECT_EQ(options.notifMaxBytes, 268435456u);
    EXPECT_EQ(options.releaseTimeout, 50ms);
    EXPECT_EQ(options.telemetryEnable, std::nullopt);
    EXPECT_EQ(options.telemetryBufferSize, 4096u);
    EXPECT_EQ(options.telemetryRunInterval, 100ms);
}

// ---- Values ----

TEST(Options, BooleansAreWordsInAnyCase) {
    for (const char *word : {"y", "yes", "on", "true", "enable", "1", "YES", "On", "tRuE"})
        EXPECT_EQ(resolve({{"NIXL_TELEMETRY_ENABLE", word}}).telemetryEnable, true) << word;
    for (const char *word : {"n", "no", "off", "false", "disable", "0", "OFF", "No"}) {
        EXPECT_EQ(resolve({{"NIXL_TELEMETRY_ENABLE", word}}).telemetryEnable, false) << word;
        EXPECT_FALSE(resolve({{"NIXL_LOCAL", word}}).local) << word;
    }
    for (const char *word : {" on", "on ", "2", "maybe", "tru", "00"})
        EXPECT_THAT(errorOf({{"NIXL_LOCAL", word}}), HasSubstr("accepted is one of y, yes, on")) << word;
}

TEST(Options, NumbersAreDecimalOrHexadecimal) {
    EXPECT_EQ(resolve({{"NIXL_TELEMETRY_BUFFER_SIZE", "17"}}).telemetryBufferSize, 17u);
    EXPECT_EQ(resolve({{"NIXL_TELEMETRY_BUFFER_SIZE", "0x1F"}}).telemetryBufferSize, 31u);
    EXPECT_EQ(resolve({{"NIXL_TELEMETRY_BUFFER_SIZE", "0X10"}}).telemetryBufferSize, 16u);
    EXPECT_EQ(resolve({{"NIXL_TELEMETRY_BUFFER_SIZE", "010"}}).telemetryBufferSize, 10u);
    EXPECT_EQ(resolve({{"NIXL_LOCAL_THREADS", "1024"}}).localThreads, 1024u);
    EXPECT_EQ(resolve({{"NIXL_NOTIF_MAX_BYTES", "0x10000000000"}}).notifMaxBytes, std::uint64_t{1} << 40);
    for (const char *text : {"+1", "-1", " 1", "1 ", "1.5", "1k", "0x", "x1", "0x-1", "0x 1", "ten",
                             "99999999999999999999999", "0x10000000000000001"})
        EXPECT_NE(errorOf({{"NIXL_LOCAL_THREADS", text}}), "no error") << text;
}

TEST(Options, NumbersHaveBounds) {
    EXPECT_EQ(
        errorOf({{"NIXL_TELEMETRY_BUFFER_SIZE", "0"}}),
        "NIXL_TELEMETRY_BUFFER_SIZE is '0' in the environment; accepted is a number from 1 to 16777216, "
        "decimal or hexadecimal with 0x");
    EXPECT_EQ(resolve({{"NIXL_TELEMETRY_BUFFER_SIZE", "1"}}).telemetryBufferSize, 1u);
    EXPECT_NE(errorOf({{"NIXL_TELEMETRY_BUFFER_SIZE", "16777217"}}), "no error");
    EXPECT_NE(errorOf({{"NIXL_LOCAL_THREADS", "1025"}}), "no error");
    EXPECT_NE(errorOf({{"NIXL_LOCAL_CONNECT_TIMEOUT_MS", "0"}}), "no error");
    EXPECT_EQ(resolve({{"NIXL_RELEASE_TIMEOUT_MS", "0"}}).releaseTimeout, 0ms);
}

TEST(Options, TimesAreMilliseconds) {
    const Options options = resolve({{"NIXL_RELEASE_TIMEOUT_MS", "250"},
                                     {"NIXL_LOCAL_CONNECT_TIMEOUT_MS", "1500"},
                                     {"NIXL_LOCAL_QUIESCE_TIMEOUT_MS", "2500"},
                                     {"NIXL_TELEMETRY_RUN_INTERVAL", "7"}});
    EXPECT_EQ(options.releaseTimeout, 250ms);
    EXPECT_EQ(options.localConnectTimeout, 1500ms);
    EXPECT_EQ(options.localQuiesceTimeout, 2500ms);
    EXPECT_EQ(options.telemetryRunInterval, 7ms);
}

TEST(Options, TextsAreTakenAsTheyAre) {
    const Options options = resolve({{"NIXL_PLUGIN_DIR", " /a b/c "},
                                     {"NIXL_TELEMETRY_EXPORTER", "BUFFER"},
                                     {"NIXL_TELEMETRY_DIR", "/tele"},
                                     {"NIXL_TELEMETRY_ENABLED_METRICS", "agent_*"},
                                     {"NIXL_ETCD_ENDPOINTS", "http://h:2379"},
                                     {"NIXL_TCPSTORE_ENDPOINT", "h:1"}});
    EXPECT_EQ(options.pluginDir, " /a b/c ");
    EXPECT_EQ(options.telemetryExporter, "BUFFER");
    EXPECT_EQ(options.telemetryDir, "/tele");
    EXPECT_EQ(options.telemetryEnabledMetrics, "agent_*");
    EXPECT_EQ(options.etcdEndpoints, "http://h:2379");
    EXPECT_EQ(options.tcpStoreEndpoint, "h:1");
}

TEST(Options, AnInvalidLogLevelIsOnlyNoted) {
    const Options options = resolve({{"NIXL_LOG_LEVEL", "chatty"}});
    EXPECT_EQ(options.logLevel, LogLevel::kWarn);
    EXPECT_THAT(notesOf(options), AllOf(HasSubstr("WARN NIXL_LOG_LEVEL is 'chatty' in the environment"),
                                        HasSubstr("TRACE, DEBUG, INFO, WARN, ERROR, FATAL")));
    EXPECT_EQ(resolve({{"NIXL_LOG_LEVEL", "trace"}}).logLevel, LogLevel::kTrace);
}

TEST(Options, AnEmptyVariableIsTheDefault) {
    Environment all;
    for (const OptionRow &option : optionTable())
        all.emplace(option.name, "");
    const Options options = resolve(all);
    for (const OptionRow &option : optionTable()) {
        EXPECT_EQ(optionValue(options, option), optionValue(Options(), option));
        EXPECT_EQ(options.source(option.name), OptionSource::kEnvironment);
    }
}

TEST(Options, ALongInvalidValueIsCutInTheMessage) {
    EXPECT_LT(errorOf({{"NIXL_LOCAL_THREADS", std::string(1 << 20, '9')}}).size(), 500u);
}

TEST(Options, SecretsAreNotShown) {
    OptionRow secret = row("NIXL_PLUGIN_DIR");
    secret.secret = true;
    Options options;
    EXPECT_EQ(optionValue(options, secret), "");
    options.pluginDir = "hunter2";
    EXPECT_EQ(optionValue(options, secret), "(hidden)");
    EXPECT_EQ(optionValue(options, row("NIXL_PLUGIN_DIR")), "hunter2");
}

TEST(Options, ValuesPrintAsTheyAreWritten) {
    for (const auto &[name, text] : std::map<std::string, std::string>{{"NIXL_LOG_LEVEL", "ERROR"},
                                                                       {"NIXL_LOCAL", "off"},
                                                                       {"NIXL_TELEMETRY_ENABLE", "on"},
                                                                       {"NIXL_LOCAL_THREADS", "3"},
                                                                       {"NIXL_NOTIF_MAX_BYTES", "77"},
                                                                       {"NIXL_RELEASE_TIMEOUT_MS", "12"},
                                                                       {"NIXL_TELEMETRY_DIR", "/d"}})
        EXPECT_EQ(optionValue(resolve({{name, text}}), row(name)), text);
}

// ---- Names ----

TEST(Options, UnknownNamesAreNotedWithTheNearestOne) {
    EXPECT_THAT(
        notesOf(resolve({{"NIXL_TELEMTRY_ENABLE", "1"}})),
        AllOf(HasSubstr("WARN NIXL_TELEMTRY_ENABLE in the environment is no option and has no effect"),
              HasSubstr("did you mean NIXL_TELEMETRY_ENABLE?")));
    // The second-nearest is near enough too, and comes later in the table.
    EXPECT_THAT(notesOf(resolve({{"NIXL_LOCAL_CONNECT_TIMEOUT_MSX", "1"}})),
                HasSubstr("did you mean NIXL_LOCAL_CONNECT_TIMEOUT_MS?"));
    EXPECT_THAT(notesOf(resolve({{"NIXL_local", "1"}})), HasSubstr("did you mean NIXL_LOCAL?"));
    EXPECT_THAT(notesOf(resolve({{"NIXL_COMPLETELY_DIFFERENT_THING", "1"}})),
                AllOf(HasSubstr("NIXL_COMPLETELY_DIFFERENT_THING"), Not(HasSubstr("did you mean"))));
    EXPECT_THAT(notesOf(resolve({{"NIXL_" + std::string(100'000, 'A'), "1"}})),
                AllOf(HasSubstr("NIXL_AAAA"), Not(HasSubstr("did you mean"))));
    EXPECT_THAT(resolve({{"NIXLBENCH_X", "1"}, {"NIX_PATH", "1"}, {"PATH", "1"}}).notes, IsEmpty());
}

TEST(Options, NamesOfOtherPartsOfNixlAreToldApart) {
    for (const char *name :
         {"NIXL_UCX_DEEPBIND", "NIXL_UCX_WARNING_TIMEOUT", "NIXL_LIBFABRIC_TESTING", "NIXL_ETCD_NAMESPACE",
          "NIXL_TCPSTORE_TIMEOUT_MS", "NIXL_PREFIX", "NIXL_TRACE_BACKENDS", "NIXL_TELEMETRY_PROMETHEUS_PORT",
          "NIXL_TELEMETRY_DOCA_BACKENDS"})
        EXPECT_EQ(notesOf(resolve({{name, "1"}})),
                  concat("INFO ", name, " in the environment is known to NIXL but not read by this build\n"));
    EXPECT_THAT(resolve({{"NIXL_DEBUG_LOGGING", "1"}}).notes, IsEmpty());
}

TEST(Options, NoOptionIsListedAsForeign) {
    Environment all;
    for (const OptionRow &option : optionTable())
        all.emplace(option.name, "");
    EXPECT_EQ(notesOf(resolve(all)), "");
}

// ---- The file ----

class OptionsFileTest : public ::testing::Test {
protected:
    void
    SetUp() override {
        if (!readsToml())
            GTEST_SKIP() << "built without toml++";
    }
};

TEST_F(OptionsFileTest, GivesValuesOfEachType) {
    const Options options = resolve({}, "# a comment\n"
                                        "NIXL_LOG_LEVEL = \"info\"\n"
                                        "NIXL_LOCAL = false\n"
                                        "NIXL_LOCAL_THREADS = 0x10\n"
                                        "NIXL_RELEASE_TIMEOUT_MS = '75'\n"
                                        "NIXL_TELEMETRY_ENABLE = 'on'\n"
                                        "NIXL_TELEMETRY_DIR = 'C:\\n'\n");
    EXPECT_EQ(options.logLevel, LogLevel::kInfo);
    EXPECT_FALSE(options.local);
    EXPECT_EQ(options.localThreads, 16u);
    EXPECT_EQ(options.releaseTimeout, 75ms);
    EXPECT_EQ(options.telemetryEnable, true);
    EXPECT_EQ(options.telemetryDir, "C:\\n");
    EXPECT_EQ(options.filePath, "/x/nixl.cfg");
    EXPECT_THAT(options.notes, IsEmpty());
}

TEST_F(OptionsFileTest, EnvironmentWinsWithANote) {
    const Options options = resolve({{"NIXL_RELEASE_TIMEOUT_MS", "60"}},
                                    "NIXL_LOCAL_THREADS = 2\nNIXL_RELEASE_TIMEOUT_MS = 70\n");
    EXPECT_EQ(options.releaseTimeout, 60ms);
    EXPECT_EQ(options.localThreads, 2u);
    EXPECT_EQ(options.source("NIXL_RELEASE_TIMEOUT_MS"), OptionSource::kEnvironment);
    EXPECT_EQ(options.source("NIXL_LOCAL_THREADS"), OptionSource::kFile);
    EXPECT_EQ(options.source("NIXL_LOCAL"), OptionSource::kDefault);
    EXPECT_EQ(notesOf(options), "WARN NIXL_RELEASE_TIMEOUT_MS in '/x/nixl.cfg', line 2 has no effect: the "
                                "environment sets it too\n");
}

TEST_F(OptionsFileTest, AnEmptyVariableRestoresTheDefaultAndHidesTheFile) {
    const Options options = resolve({{"NIXL_LOCAL", ""},
                                     {"NIXL_RELEASE_TIMEOUT_MS", ""},
                                     {"NIXL_TELEMETRY_ENABLE", ""},
                                     {"NIXL_LOG_LEVEL", ""},
                                     {"NIXL_PLUGIN_DIR", ""}},
                                    "NIXL_LOCAL = false\n"
                                    "NIXL_RELEASE_TIMEOUT_MS = 1\n"
                                    "NIXL_TELEMETRY_ENABLE = true\n"
                                    "NIXL_LOG_LEVEL = 'ERROR'\n"
                                    "NIXL_PLUGIN_DIR = '/p'\n");
    EXPECT_TRUE(options.local);
    EXPECT_EQ(options.releaseTimeout, 50ms);
    EXPECT_EQ(options.telemetryEnable, std::nullopt);
    EXPECT_EQ(options.logLevel, LogLevel::kWarn);
    EXPECT_EQ(options.pluginDir, "");
    EXPECT_EQ(options.source("NIXL_LOCAL"), OptionSource::kEnvironment);
}

TEST_F(OptionsFileTest, ErrorsNameFileAndLine) {
    EXPECT_EQ(errorOf({}, "\n\nNIXL_LOCAL = 'maybe'\n"),
              "NIXL_LOCAL is 'maybe' in '/x/nixl.cfg', line 3; accepted is one of y, yes, on, true, enable, "
              "1 or n, "
              "no, off, false, disable, 0, in any case of letters");
    EXPECT_THAT(errorOf({}, "NIXL_LOCAL = \n"), HasSubstr("'/x/nixl.cfg', line 1: "));
    EXPECT_THAT(errorOf({}, "NIXL_LOCAL_THREADS = -4\n"),
                HasSubstr("NIXL_LOCAL_THREADS is '-4' in '/x/nixl.cfg'"));
    EXPECT_THAT(errorOf({}, "NIXL_LOCAL_THREADS = 1\nNIXL_LOCAL_THREADS = 2\n"), HasSubstr("line 2"));
}

TEST_F(OptionsFileTest, OtherKindsOfValuesAreRefused) {
    EXPECT_THAT(errorOf({}, "NIXL_TELEMETRY_ENABLED_METRICS = ['a', 'b']"), HasSubstr("is an array in"));
    EXPECT_THAT(errorOf({}, "[NIXL_LOCAL]\nx = 1"), HasSubstr("NIXL_LOCAL is a table in"));
    EXPECT_THAT(errorOf({}, "NIXL_LOCAL_THREADS = 1.5"), HasSubstr("is a floating-point number in"));
    EXPECT_THAT(errorOf({}, "NIXL_LOCAL_THREADS = 2026-01-01"), HasSubstr("is a date or time in"));
    EXPECT_THAT(errorOf({}, "NIXL_PLUGIN_DIR = \"/a\\u0000b\""),
                HasSubstr("accepted is any text without a NUL"));
}

TEST_F(OptionsFileTest, UnknownKeysAreNoted) {
    const Options options = resolve({}, "NIXL_LOCALS = true\nfoo = 1\n[table]\nx = 1\n");
    EXPECT_THAT(notesOf(options),
                AllOf(HasSubstr("WARN NIXL_LOCALS in '/x/nixl.cfg', line 1 is no option and has "
                                "no effect; did you mean NIXL_LOCAL?\n"),
                      HasSubstr("foo in '/x/nixl.cfg', line 2 is no option"),
                      HasSubstr("table in '/x/nixl.cfg', line 3 is no option")));
}

TEST_F(OptionsFileTest, CannotNameAnotherFile) {
    const Options options = resolve({}, "NIXL_CONFIG_FILE = '/y'\n");
    EXPECT_EQ(options.configFile, "");
    EXPECT_THAT(notesOf(options), HasSubstr("NIXL_CONFIG_FILE in '/x/nixl.cfg', line 1 has no effect"));
}

TEST_F(OptionsFileTest, DeepNestingAndGarbageAreErrors) {
    EXPECT_NE(errorOf({}, "a = " + std::string(100'000, '[')), "no error");
    EXPECT_NE(errorOf({}, "a = " + std::string(100'000, '{')), "no error");
    EXPECT_NE(errorOf({}, std::string("\x7f"
                                      "ELF\0\xff\xfe\x01",
                                      8)),
              "no error");
    EXPECT_NE(errorOf({}, "NIXL_LOCAL_THREADS = 99999999999999999999"), "no error");
}

// ---- Finding the file ----

class ConfigFileTest : public ::testing::Test {
protected:
    Result<std::optional<ConfigText>>
    find(const Environment &environment) {
        notes_.clear();
        return findConfigFile(environment, system_, notes_);
    }

    std::string
    pathFound(const Environment &environment) {
        const Result<std::optional<ConfigText>> file = find(environment);
        EXPECT_TRUE(file.ok()) << file.status().message();
        return file.ok() && file.value() ? file.value()->path : "";
    }

    test::TempDir dir_;
    const std::string system_ = dir_.file("system.cfg");
    std::vector<OptionNote> notes_;
};

TEST_F(ConfigFileTest, NamedOneThenHomeThenSystem) {
    EXPECT_EQ(pathFound({{"HOME", dir_.path()}}), "");
    dir_.write("system.cfg", "");
    EXPECT_EQ(pathFound({{"HOME", dir_.path()}}), system_);
    EXPECT_EQ(pathFound({}), system_);
    const std::string home = dir_.write(".nixl.cfg", "");
    EXPECT_EQ(pathFound({{"HOME", dir_.path()}}), home);
    EXPECT_EQ(pathFound({{"HOME", ""}}), system_);
    EXPECT_EQ(pathFound({{"HOME", dir_.path()}, {"NIXL_CONFIG_FILE", ""}}), home);
    const std::string named = dir_.write("named.cfg", "# named");
    const Result<std::optional<ConfigText>> file = find({{"HOME", dir_.path()}, {"NIXL_CONFIG_FILE", named}});
    ASSERT_TRUE(file.ok() && file.value());
    EXPECT_EQ(file.value()->path, named);
    EXPECT_EQ(file.value()->text, "# named");
    EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(ConfigFileTest, TheNamedOneMustExist) {
    const Result<std::optional<ConfigText>> file = find({{"NIXL_CONFIG_FILE", dir_.file("none")}});
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(file.status().message(), concat("NIXL_CONFIG_FILE: '", dir_.file("none"),
                                              "' cannot be read: No such file or directory"));
}

TEST_F(ConfigFileTest, DevNullMeansNoFile) {
    dir_.write(".nixl.cfg", "NIXL_LOCAL = false");
    const Result<std::optional<ConfigText>> file =
        find({{"HOME", dir_.path()}, {"NIXL_CONFIG_FILE", "/dev/null"}});
    ASSERT_TRUE(file.ok() && file.value());
    EXPECT_EQ(file.value()->text, "");
}

TEST_F(ConfigFileTest, WhatIsNoFileIsAnErrorAndDoesNotBlock) {
    const std::string fifo = dir_.file("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string &path : {fifo, dir_.path()}) {
        const Result<std::optional<ConfigText>> file = find({{"NIXL_CONFIG_FILE", path}});
        ASSERT_FALSE(file.ok());
        EXPECT_THAT(file.status().message(), HasSubstr("is not a regular file"));
    }
    EXPECT_THAT(find({{"NIXL_CONFIG_FILE", "/dev/zero"}}).status().message(),
                HasSubstr("is longer than 1048576"));
}

TEST_F(ConfigFileTest, SizeIsBounded) {
    const std::string largest = dir_.write("largest", std::string(1 << 20, '\n'));
    EXPECT_EQ(pathFound({{"NIXL_CONFIG_FILE", largest}}), largest);
    const std::string larger = dir_.write("larger", std::string((1 << 20) + 1, '\n'));
    EXPECT_THAT(find({{"NIXL_CONFIG_FILE", larger}}).status().message(),
                HasSubstr("is longer than 1048576 bytes"));
}

/// Root may read everything: for its scope the process is somebody else, if it was root.
class WithoutPrivileges {
public:
    WithoutPrivileges() : user_(::geteuid()), dropped_(user_ != 0 || ::seteuid(65534) == 0) {}

    ~WithoutPrivileges() {
        EXPECT_EQ(::seteuid(user_), 0);
    }

    bool
    dropped() const {
        return dropped_;
    }

private:
    const uid_t user_;
    const bool dropped_;
};

TEST_F(ConfigFileTest, AForbiddenDefaultFileIsPassedOverWithANote) {
    const std::string home = dir_.write(".nixl.cfg", "");
    dir_.write("system.cfg", "");
    ASSERT_EQ(::chmod(home.c_str(), 0), 0);
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    const WithoutPrivileges user;
    if (!user.dropped())
        GTEST_SKIP() << "root may read everything";
    EXPECT_THAT(find({{"NIXL_CONFIG_FILE", home}}).status().message(), HasSubstr("Permission denied"));
    EXPECT_EQ(pathFound({{"HOME", dir_.path()}}), system_);
    ASSERT_EQ(notes_.size(), 1u);
    EXPECT_EQ(notes_[0].level, LogLevel::kWarn);
    EXPECT_EQ(notes_[0].text,
              concat("'", home, "' cannot be read: Permission denied; its settings are ignored"));
}

// ---- The process ----

class LoadOptionsTest : public ::testing::Test {
protected:
    void
    SetUp() override {
        for (const OptionRow &option : optionTable())
            ::unsetenv(std::string(option.name).c_str());
        ::setenv("HOME", dir_.path().c_str(), 1);
    }

    void
    TearDown() override {
        SetUp();
        ::unsetenv("NIXL_LOCALE");
    }

    test::TempDir dir_;
};

TEST_F(LoadOptionsTest, SeesVariablesThatAreSetLater) {
    ASSERT_TRUE(loadOptions().ok());
    ::setenv("NIXL_RELEASE_TIMEOUT_MS", "33", 1);
    const Result<std::shared_ptr<const Options>> options = loadOptions();
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_EQ(options.value()->releaseTimeout, 33ms);
    ::unsetenv("NIXL_RELEASE_TIMEOUT_MS");
    EXPECT_EQ(loadOptions().value()->releaseTimeout, 50ms);
}

TEST_F(LoadOptionsTest, ReadsTheFileOfTheHomeFolder) {
    if (!readsToml())
        GTEST_SKIP() << "built without toml++";
    const std::string path = dir_.write(".nixl.cfg", "NIXL_LOCAL = false\n");
    const Result<std::shared_ptr<const Options>> options = loadOptions();
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_FALSE(options.value()->local);
    EXPECT_EQ(options.value()->filePath, path);
}

TEST_F(LoadOptionsTest, AFileThatDoesNotParseIsAnError) {
    if (!readsToml())
        GTEST_SKIP() << "built without toml++";
    dir_.write(".nixl.cfg", "NIXL_LOCAL = \n");
    const Result<std::shared_ptr<const Options>> options = loadOptions();
    ASSERT_FALSE(options.ok());
    EXPECT_EQ(options.status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(options.status().message(), HasSubstr(dir_.file(".nixl.cfg")));
}

TEST_F(LoadOptionsTest, ABuildWithoutTomlSaysThatItIgnoresAFile) {
    if (readsToml())
        GTEST_SKIP() << "built with toml++";
    const std::string path = dir_.write(".nixl.cfg", "NIXL_LOCAL = false\n");
    const Result<std::shared_ptr<const Options>> ignored = loadOptions();
    ASSERT_TRUE(ignored.ok()) << ignored.status().message();
    EXPECT_TRUE(ignored.value()->local);
    EXPECT_THAT(notesOf(*ignored.value()), HasSubstr("is ignored: this library was built without toml++"));
    ::setenv("NIXL_CONFIG_FILE", path.c_str(), 1);
    const Result<std::shared_ptr<const Options>> asked = loadOptions();
    ASSERT_FALSE(asked.ok());
    EXPECT_THAT(asked.status().message(), HasSubstr("built without toml++"));
}

TEST_F(LoadOptionsTest, DevNullTurnsTheDefaultFilesOff) {
    dir_.write(".nixl.cfg", "NIXL_LOCAL = \n");
    ::setenv("NIXL_CONFIG_FILE", "/dev/null", 1);
    const Result<std::shared_ptr<const Options>> options = loadOptions();
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_TRUE(options.value()->local);
}

TEST_F(LoadOptionsTest, AnInvalidValueIsAnError) {
    ::setenv("NIXL_LOCAL_THREADS", "many", 1);
    const Result<std::shared_ptr<const Options>> options = loadOptions();
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(options.status().message(), HasSubstr("NIXL_LOCAL_THREADS is 'many' in the environment"));
}

TEST_F(LoadOptionsTest, EachNoteIsLoggedOnce) {
    ::setenv("NIXL_LOCALE", "1", 1);
    test::LogCapture log;
    for (int i = 0; i < 3; ++i) {
        const Result<std::shared_ptr<const Options>> options = loadOptions();
        ASSERT_TRUE(options.ok());
        EXPECT_EQ(options.value()->notes.size(), 1u);
    }
    EXPECT_EQ(log.count("NIXL_LOCALE in the environment is no option", LogLevel::kWarn), 1u);
}

} // namespace
} // namespace nixl
