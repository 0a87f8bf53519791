#include "telemetry/telemetry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "ring_parser.h"
#include "support/log_capture.h"
#include "support/temp_dir.h"
#include "telemetry/exporters/buffer_reader.h"
#include "wait_until.h"

namespace nixl {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::LogCapture;
using test::parseRing;
using test::RingEvent;
using test::TempDir;
using test::waitUntil;
using Events = std::vector<RingEvent>;

/// Options that say on, into `dir`, and flush only at the end.
Options
optionsFor(const TempDir &dir) {
    Options options;
    options.telemetryDir = dir.path();
    options.telemetryRunInterval = hours(1);
    return options;
}

std::unique_ptr<Telemetry>
make(const std::string &name, const Options &options, bool capture = true) {
    Result<std::unique_ptr<Telemetry>> telemetry = Telemetry::create(name, capture, options);
    EXPECT_TRUE(telemetry.ok()) << telemetry.status().message();
    return telemetry.ok() ? std::move(telemetry).value() : nullptr;
}

/// True if a thread of telemetry exists and sleeps.
bool
telemetryThreadSleeps() {
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        const std::string stat = test::fileBytes(task.path().string() + "/stat");
        if (stat.find("(nixl-telemetry) S") != std::string::npos)
            return true;
    }
    return false;
}

/// Value of `telemetryEnable`, wish of the program, outcome, whether a warning is due.
struct Precedence {
    std::optional<bool> setting;
    bool capture;
    bool on;
    bool warns;
};

TEST(TelemetryTest, SettingBeatsTheProgram) {
    const Precedence cases[] = {{std::nullopt, false, false, false}, {std::nullopt, true, true, false},
                                {true, false, true, false},          {true, true, true, false},
                                {false, false, false, false},        {false, true, false, true}};
    for (const Precedence &c : cases) {
        Options options;
        options.telemetryEnable = c.setting;
        const LogCapture log;
        const auto telemetry = make("some agent", options, c.capture);
        EXPECT_EQ(c.on, telemetry != nullptr);
        EXPECT_EQ(c.warns ? 1u : 0u, log.count("", LogLevel::kWarn));
        EXPECT_EQ(c.warns ? 1u : 0u, log.count("some agent", LogLevel::kWarn));
    }
}

TEST(TelemetryTest, SettingsAreNotExaminedWhileItIsOff) {
    Options options;
    options.telemetryExporter = "does not exist";
    options.telemetryEnabledMetrics = "nothing";
    const LogCapture log;
    EXPECT_EQ(nullptr, make("agent", options, false));
    EXPECT_EQ(0u, log.count(""));
}

TEST(TelemetryTest, ExporterIsChosenByNameElseByDirectory) {
    const TempDir dir;
    Options options;
    EXPECT_EQ("NOP", make("agent", options)->exporterName());
    options.telemetryDir = dir.path();
    EXPECT_EQ("BUFFER", make("agent", options)->exporterName());
    options.telemetryExporter = "BUFFER";
    EXPECT_EQ("BUFFER", make("agent", options)->exporterName());
    options.telemetryExporter = "NOP";
    EXPECT_EQ("NOP", make("agent 2", options)->exporterName());
    EXPECT_FALSE(std::filesystem::exists(dir.file("agent 2")));
}

TEST(TelemetryTest, SettingsThatCannotBeFollowedAreNamed) {
    const TempDir dir;
    Options options;
    options.telemetryExporter = "BUFFER";
    const Status noDirectory = Telemetry::create("agent", true, options).status();
    EXPECT_EQ(NIXL_ERR_INVALID_PARAM, noDirectory.code());
    EXPECT_NE(std::string::npos, noDirectory.message().find("NIXL_TELEMETRY_DIR"));
    options.telemetryDir = dir.file("missing");
    EXPECT_NE(std::string::npos,
              Telemetry::create("agent", true, options).status().message().find(dir.file("missing")));
    options.telemetryDir = dir.path();
    options.telemetryBufferSize = 0;
    EXPECT_EQ(NIXL_ERR_INVALID_PARAM, Telemetry::create("agent", true, options).status().code());
}

TEST(TelemetryTest, NopTakesEverything) {
    const auto telemetry = make("agent", Options());
    for (int i = 0; i < 10000; ++i)
        telemetry->recordTransfer(NIXL_WRITE, 1, microseconds(1), microseconds(1));
    telemetry->recordError(NIXL_ERR_BACKEND);
}

TEST(TelemetryTest, EventsReachTheFileInOrder) {
    const TempDir dir;
    auto telemetry = make("agent", optionsFor(dir));
    telemetry->recordRegistered(1000);
    telemetry->recordTransfer(NIXL_WRITE, 4096, microseconds(3), microseconds(50));
    telemetry->recordTransfer(NIXL_READ, 8192, microseconds(4), microseconds(60));
    telemetry->recordError(NIXL_ERR_REMOTE_DISCONNECT);
    telemetry->recordError(NIXL_SUCCESS);
    telemetry->recordError(NIXL_IN_PROG);
    telemetry->recordDeregistered(1000);
    telemetry.reset(); // the final flush
    const test::Ring ring = parseRing(dir.file("agent"));
    EXPECT_EQ((Events{{4, 1000},
                      {7, 3},
                      {6, 50},
                      {0, 4096},
                      {2, 1},
                      {7, 4},
                      {6, 60},
                      {1, 8192},
                      {3, 1},
                      {17, 1},
                      {5, 1000}}),
              ring.events);
    EXPECT_EQ(0u, ring.padding);
    EXPECT_EQ(65576u, ring.fileSize);
}

TEST(TelemetryTest, EventsReachTheFileWhileTheAgentLives) {
    const TempDir dir;
    Options options = optionsFor(dir);
    options.telemetryRunInterval = milliseconds(2);
    const auto telemetry = make("agent", options);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        telemetry->recordRegistered(i);
        EXPECT_TRUE(waitUntil([&] { return parseRing(dir.file("agent")).events.size() == i; }));
    }
    EXPECT_EQ((Events{{4, 1}, {4, 2}, {4, 3}}), parseRing(dir.file("agent")).events);
}

TEST(TelemetryTest, FullRingCountsWhatItLosesAndSaysSoLater) {
    const TempDir dir;
    Options options = optionsFor(dir);
    options.telemetryRunInterval = milliseconds(1);
    options.telemetryBufferSize = 4;
    const auto telemetry = make("agent", options);
    for (std::uint64_t i = 1; i <= 10; ++i)
        telemetry->recordRegistered(i);
    ASSERT_TRUE(waitUntil([&] { return parseRing(dir.file("agent")).events.size() == 3; }));
    EXPECT_EQ((Events{{4, 1}, {4, 2}, {4, 3}}), parseRing(dir.file("agent")).events);

    Result<BufferReader> reader = BufferReader::open(dir.file("agent"));
    ASSERT_TRUE(reader.ok());
    std::uint64_t registered = 0;
    std::uint64_t dropped = 0;
    // Once there is room, nothing further needs to happen for the loss to be told.
    ASSERT_TRUE(waitUntil([&] {
        nixlTelemetryEvent event;
        const Result<std::size_t> count = reader.value().pop({&event, 1});
        if (!count.ok() || count.value() == 0)
            return false;
        registered += event.eventType_ == nixl_telemetry_event_type_t::AGENT_MEMORY_REGISTERED;
        if (event.eventType_ == nixl_telemetry_event_type_t::AGENT_TELEMETRY_EVENTS_DROPPED)
            dropped += event.value_;
        return registered + dropped == 10;
    }));
    EXPECT_GE(dropped, 1u);
    EXPECT_GE(registered, 3u);
}

TEST(TelemetryTest, AgentsOfOneNameDoNotDisturbEachOther) {
    const TempDir dir;
    auto first = make("agent", optionsFor(dir));
    auto second = make("agent", optionsFor(dir));
    first->recordRegistered(1);
    second->recordRegistered(2);
    first.reset();
    second.reset();
    EXPECT_EQ((Events{{4, 1}}), parseRing(dir.file("agent")).events);
    EXPECT_EQ((Events{{4, 2}}), parseRing(dir.file("agent.2")).events);
}

TEST(TelemetryTest, NameCannotLeaveTheDirectory) {
    const TempDir dir;
    std::filesystem::create_directory(dir.file("inner"));
    Options options = optionsFor(dir);
    options.telemetryDir = dir.file("inner");
    make("../x", options)->recordRegistered(5);
    EXPECT_FALSE(std::filesystem::exists(dir.file("x")));
    EXPECT_EQ((Events{{4, 5}}), parseRing(dir.file("inner/..%2Fx")).events);
    EXPECT_FALSE(Telemetry::create(std::string(300, 'n'), true, options).ok());
}

TEST(TelemetryTest, OnlyWantedEventsAreRecorded) {
    const TempDir dir;
    Options options = optionsFor(dir);
    options.telemetryEnabledMetrics = "agent_[rt]x_bytes, agent_err_b*, typo";
    const LogCapture log;
    auto telemetry = make("agent", options);
    telemetry->recordTransfer(NIXL_WRITE, 4096, microseconds(3), microseconds(50));
    telemetry->recordTransfer(NIXL_READ, 512, microseconds(3), microseconds(50));
    telemetry->recordRegistered(1);
    telemetry->recordError(NIXL_ERR_BACKEND);
    telemetry->recordError(NIXL_ERR_NOT_FOUND);
    telemetry.reset();
    EXPECT_EQ((Events{{0, 4096}, {1, 512}, {10, 1}}), parseRing(dir.file("agent")).events);
    EXPECT_EQ(1u, log.count("", LogLevel::kWarn));
    EXPECT_EQ(1u, log.count("'typo'", LogLevel::kWarn));
    EXPECT_EQ(1u, log.count("NIXL_TELEMETRY_ENABLED_METRICS", LogLevel::kWarn));
}

TEST(TelemetryTest, EngineEventsOfUnknownTypeAreIgnored) {
    const TempDir dir;
    auto telemetry = make("agent", optionsFor(dir));
    std::vector<nixlTelemetryEvent> events(3);
    events[0] = {nixl_telemetry_event_type_t::AGENT_ERR_CANCELED, 1};
    events[0].reserved_ = 0xDEADBEEF;
    events[1] = {static_cast<nixl_telemetry_event_type_t>(21), 1};
    events[2] = {nixl_telemetry_event_type_t::AGENT_TX_BYTES, 9};
    telemetry->recordEngineEvents(events);
    telemetry->recordEngineEvents({});
    telemetry.reset();
    const test::Ring ring = parseRing(dir.file("agent"));
    EXPECT_EQ((Events{{18, 1}, {0, 9}}), ring.events);
    EXPECT_EQ(0u, ring.padding);
}

TEST(TelemetryTest, TransfersOfManyThreadsStayWhole) {
    constexpr std::uint64_t kThreads = 4;
    constexpr std::uint64_t kTransfers = 1000;
    const TempDir dir;
    Options options = optionsFor(dir);
    options.telemetryRunInterval = milliseconds(1);
    options.telemetryBufferSize = 32768;
    auto telemetry = make("agent", options);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint64_t i = 0; i < kTransfers; ++i) {
                const microseconds id(thread * kTransfers + i);
                telemetry->recordTransfer(NIXL_WRITE, static_cast<std::uint64_t>(id.count()), id, id);
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    telemetry.reset();
    const Events events = parseRing(dir.file("agent")).events;
    ASSERT_EQ(kThreads * kTransfers * 4, events.size());
    std::vector<std::uint64_t> next(kThreads, 0);
    for (std::size_t i = 0; i < events.size(); i += 4) {
        const std::uint64_t id = events[i].value;
        ASSERT_LT(id / kTransfers, kThreads);
        ASSERT_EQ(next[id / kTransfers]++, id % kTransfers);
        ASSERT_EQ((Events{{7, id}, {6, id}, {0, id}, {2, 1}}),
                  Events(events.begin() + static_cast<std::ptrdiff_t>(i),
                         events.begin() + static_cast<std::ptrdiff_t>(i) + 4));
    }
}

TEST(TelemetryTest, SmallestQueueStillTakesATransfer) {
    const TempDir dir;
    Options options = optionsFor(dir);
    options.telemetryBufferSize = 1;
    options.telemetryEnabledMetrics = "agent_tx_bytes";
    make("agent", options)->recordTransfer(NIXL_WRITE, 77, microseconds(1), microseconds(1));
    EXPECT_EQ((Events{{0, 77}}), parseRing(dir.file("agent")).events);
}

TEST(TelemetryTest, ForkedChildLeavesEverythingToTheParent) {
    const TempDir dir;
    auto telemetry = make("agent", optionsFor(dir));
    telemetry->recordRegistered(1);
    // What it sleeps on is what the child must not touch.
    ASSERT_TRUE(waitUntil(telemetryThreadSleeps));
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60); // a hang ends here
        telemetry->recordRegistered(2);
        telemetry->recordTransfer(NIXL_WRITE, 2, microseconds(2), microseconds(2));
        telemetry->recordError(NIXL_ERR_BACKEND);
        telemetry.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(child, ::waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_TRUE(parseRing(dir.file("agent")).events.empty());
    telemetry->recordRegistered(3);
    telemetry.reset();
    EXPECT_EQ((Events{{4, 1}, {4, 3}}), parseRing(dir.file("agent")).events);
    // The child is gone and the parent let go, so the name is free again.
    make("agent", optionsFor(dir));
    EXPECT_FALSE(std::filesystem::exists(dir.file("agent.2")));
}

} // namespace
} // namespace nixl
