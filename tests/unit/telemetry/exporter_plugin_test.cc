#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "ring_parser.h"
#include "support/log_capture.h"
#include "support/temp_dir.h"
#include "telemetry/telemetry.h"

namespace nixl {
namespace {

using std::chrono::microseconds;
using test::LogCapture;
using test::TempDir;

Options
optionsFor(const std::string &exporter) {
    Options options;
    options.telemetryExporter = exporter;
    options.telemetryRunInterval = std::chrono::hours(1);
    options.telemetryBufferSize = 8;
    options.pluginDir = NIXL_TEST_EXPORTER_DIR;
    return options;
}

/// What the recorder wrote meanwhile.
class Record {
public:
    Record() {
        ::setenv("NIXL_TEST_RECORD", dir_.file("record").c_str(), 1);
    }

    ~Record() {
        ::unsetenv("NIXL_TEST_RECORD");
    }

    std::vector<std::string>
    lines() const {
        std::istringstream in(test::fileBytes(dir_.file("record")));
        std::vector<std::string> lines;
        for (std::string line; std::getline(in, line);)
            lines.push_back(line);
        return lines;
    }

private:
    TempDir dir_;
};

using Lines = std::vector<std::string>;

TEST(ExporterPluginTest, GetsBatchesThenEnds) {
    const Record record;
    Result<std::unique_ptr<Telemetry>> telemetry = Telemetry::create("agent", true, optionsFor("recorder"));
    ASSERT_TRUE(telemetry.ok()) << telemetry.status().message();
    EXPECT_EQ("recorder", telemetry.value()->exporterName());
    telemetry.value()->recordTransfer(NIXL_READ, 100, microseconds(1), microseconds(2));
    telemetry.value()->recordError(NIXL_ERR_MISMATCH);
    telemetry.value().reset();
    EXPECT_EQ((Lines{"init", "create agent 8", "begin", "agent_xfer_post_time 1", "agent_xfer_time 2",
                     "agent_rx_bytes 100", "agent_rx_requests_num 1", "agent_err_mismatch 1", "end",
                     "destroy", "fini"}),
              record.lines());
}

TEST(ExporterPluginTest, WhatDoesNotFitIntoTheQueueIsCounted) {
    const Record record;
    Result<std::unique_ptr<Telemetry>> telemetry = Telemetry::create("agent", true, optionsFor("recorder"));
    ASSERT_TRUE(telemetry.ok()) << telemetry.status().message();
    telemetry.value()->recordRegistered(1);
    for (int i = 0; i < 3; ++i) // of the 12 events, 4 fit beside the first one and 4 more do not
        telemetry.value()->recordTransfer(NIXL_WRITE, 100, microseconds(1), microseconds(2));
    telemetry.value()->recordRegistered(2);
    telemetry.value().reset();
    EXPECT_EQ(
        (Lines{"init", "create agent 8", "begin", "agent_memory_registered 1", "agent_xfer_post_time 1",
               "agent_xfer_time 2", "agent_tx_bytes 100", "agent_tx_requests_num 1",
               "agent_memory_registered 2", "agent_telemetry_events_dropped 8", "end", "destroy", "fini"}),
        record.lines());
}

TEST(ExporterPluginTest, InitAndFiniSurroundAllExportersOfTheFile) {
    const Record record;
    for (int round = 0; round < 2; ++round) {
        auto first = Telemetry::create("a", true, optionsFor("recorder"));
        auto second = Telemetry::create("b", true, optionsFor("recorder"));
        ASSERT_TRUE(first.ok() && second.ok());
        first.value().reset();
        second.value()->recordRegistered(1);
    }
    const Lines once{"init", "create a 8", "create b 8", "destroy", "begin", "agent_memory_registered 1",
                     "end",  "destroy",    "fini"};
    Lines twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    EXPECT_EQ(twice, record.lines());
}

TEST(ExporterPluginTest, UnknownExporterIsNamedWithWhatExists) {
    const Status status = Telemetry::create("agent", true, optionsFor("prometheus")).status();
    EXPECT_EQ(NIXL_ERR_NOT_FOUND, status.code());
    for (const char *word : {"'prometheus'", "BUFFER", "NOP", "recorder", NIXL_TEST_EXPORTER_DIR})
        EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
    Options nowhere = optionsFor("prometheus");
    nowhere.pluginDir.clear();
    EXPECT_EQ(NIXL_ERR_NOT_FOUND, Telemetry::create("agent", true, nowhere).status().code());
}

TEST(ExporterPluginTest, NamesAreNoPaths) {
    for (const std::string name : {"../exporters/libtelemetry_exporter_recorder.so", "x/../recorder", "/x",
                                   "..", "recorder\n", "Recorder"}) {
        const Status status = Telemetry::create("agent", true, optionsFor(name)).status();
        EXPECT_EQ(NIXL_ERR_NOT_FOUND, status.code()) << name;
    }
}

TEST(ExporterPluginTest, DirectoriesAreSearchedInOrder) {
    const Record record;
    const TempDir broken;
    broken.write("libtelemetry_exporter_recorder.so", "this is no library");
    const std::vector<std::string> both{broken.path(), NIXL_TEST_EXPORTER_DIR};
    EXPECT_TRUE(Telemetry::create("agent", true, optionsFor("recorder"), both).ok());
    EXPECT_FALSE(record.lines().empty());
    const Status status = Telemetry::create("agent", true, optionsFor("recorder"), {broken.path()}).status();
    EXPECT_EQ(NIXL_ERR_NOT_SUPPORTED, status.code());
    EXPECT_NE(std::string::npos, status.message().find(broken.path())) << status.message();
}

TEST(ExporterPluginTest, BindFailureIsAWarning) {
    const LogCapture log;
    const Result<std::unique_ptr<Telemetry>> telemetry =
        Telemetry::create("agent", true, optionsFor("bind_failed"));
    ASSERT_TRUE(telemetry.ok()) << telemetry.status().message();
    ASSERT_NE(nullptr, telemetry.value());
    EXPECT_EQ("NOP", telemetry.value()->exporterName());
    telemetry.value()->recordRegistered(1);
    EXPECT_EQ(1u, log.count("port 9090 is taken", LogLevel::kWarn));
    EXPECT_EQ(1u, log.count("", LogLevel::kWarn));
}

TEST(ExporterPluginTest, FilesThatCannotBeUsedSayWhy) {
    const std::pair<const char *, const char *> cases[] = {
        {"failing", "no licence on this machine"}, {"null_exporter", "no reason"},
        {"refusing", "refused to start"},          {"old_version", "version 1"},
        {"no_creator", "cannot create"},           {"foreign", "was not built from the headers"},
    };
    for (const auto &[name, reason] : cases) {
        const Status status = Telemetry::create("agent", true, optionsFor(name)).status();
        ASSERT_FALSE(status.ok()) << name;
        EXPECT_NE(std::string::npos, status.message().find(name)) << status.message();
        EXPECT_NE(std::string::npos, status.message().find(reason)) << status.message();
    }
}

TEST(ExporterPluginTest, ThrowingExporterCostsEventsOnly) {
    const LogCapture log;
    Result<std::unique_ptr<Telemetry>> telemetry = Telemetry::create("agent", true, optionsFor("throwing"));
    ASSERT_TRUE(telemetry.ok()) << telemetry.status().message();
    for (int i = 0; i < 3; ++i)
        telemetry.value()->recordTransfer(NIXL_READ, 100, microseconds(1), microseconds(2));
    telemetry.value().reset();
    EXPECT_EQ(1u, log.count("the collector is away", LogLevel::kWarn));
}

} // namespace
} // namespace nixl
