// The ring from both ends: exporter and reader.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ring_parser.h"
#include "support/log_capture.h"
#include "support/temp_dir.h"
#include "telemetry/exporters/buffer_exporter.h"
#include "telemetry/exporters/buffer_reader.h"

namespace nixl {
namespace {

using test::fileBytes;
using test::parseRing;
using test::RingEvent;
using test::TempDir;
using Type = nixl_telemetry_event_type_t;

std::unique_ptr<BufferExporter>
makeExporter(const TempDir &dir, std::size_t size) {
    Result<std::unique_ptr<BufferExporter>> exporter = BufferExporter::create({"agent", size}, dir.path());
    EXPECT_TRUE(exporter.ok()) << exporter.status().message();
    return std::move(exporter).value();
}

std::vector<std::uint64_t>
popValues(BufferReader &reader, std::size_t most) {
    std::vector<nixlTelemetryEvent> events(most);
    const Result<std::size_t> count = reader.pop(events);
    EXPECT_TRUE(count.ok()) << count.status().message();
    std::vector<std::uint64_t> values;
    for (std::size_t i = 0; count.ok() && i < count.value(); ++i)
        values.push_back(events[i].value_);
    return values;
}

TEST(BufferRingTest, CapacityIsAPowerOfTwo) {
    const std::pair<std::size_t, std::uint64_t> cases[] = {{1, 2}, {2, 2},     {3, 4},
                                                           {5, 8}, {100, 128}, {4096, 4096}};
    for (const auto &[wanted, capacity] : cases) {
        const TempDir dir;
        makeExporter(dir, wanted);
        EXPECT_EQ(capacity, parseRing(dir.file("agent")).capacity) << wanted;
        EXPECT_EQ(40 + 16 * capacity, parseRing(dir.file("agent")).fileSize) << wanted;
    }
}

TEST(BufferRingTest, ImpossibleSizesAreRefused) {
    const TempDir dir;
    for (const std::size_t size : {std::size_t{0}, (std::size_t{1} << 26) + 1, ~std::size_t{0}}) {
        const auto exporter = BufferExporter::create({"agent", size}, dir.path());
        ASSERT_FALSE(exporter.ok());
        EXPECT_EQ(NIXL_ERR_INVALID_PARAM, exporter.status().code());
    }
    EXPECT_FALSE(std::filesystem::exists(dir.file("agent")));
}

TEST(BufferRingTest, FullRingRefusesAndNeverGrows) {
    const TempDir dir;
    const auto exporter = makeExporter(dir, 4);
    for (std::uint64_t i = 1; i <= 3; ++i)
        EXPECT_EQ(NIXL_SUCCESS, exporter->exportEvent({Type::AGENT_RX_BYTES, i}));
    EXPECT_NE(NIXL_SUCCESS, exporter->exportEvent({Type::AGENT_RX_BYTES, 4}));
    const test::Ring ring = parseRing(dir.file("agent"));
    EXPECT_EQ((std::vector<RingEvent>{{1, 1}, {1, 2}, {1, 3}}), ring.events);
    EXPECT_EQ(3u, ring.write);
    EXPECT_EQ(0u, ring.read);
    EXPECT_EQ(40u + 4 * 16, ring.fileSize);
    EXPECT_EQ(0u, ring.padding);
}

TEST(BufferRingTest, PositionsAreSlotsAndWrap) {
    const TempDir dir;
    const auto exporter = makeExporter(dir, 4);
    Result<BufferReader> reader = BufferReader::open(dir.file("agent"));
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(4u, reader.value().capacity());
    std::uint64_t value = 0;
    for (int round = 0; round < 5; ++round) {
        const std::vector<std::uint64_t> expected{value, value + 1, value + 2};
        for (int i = 0; i < 3; ++i)
            ASSERT_EQ(NIXL_SUCCESS, exporter->exportEvent({Type::AGENT_TX_BYTES, value++}));
        EXPECT_EQ(value % 4, parseRing(dir.file("agent")).write);
        EXPECT_EQ(expected, popValues(reader.value(), 10));
        EXPECT_EQ(value % 4, parseRing(dir.file("agent")).read);
    }
    EXPECT_TRUE(popValues(reader.value(), 10).empty());
}

TEST(BufferRingTest, ReaderTakesNoMoreThanItHasRoomFor) {
    const TempDir dir;
    const auto exporter = makeExporter(dir, 8);
    for (std::uint64_t i = 0; i < 5; ++i)
        ASSERT_EQ(NIXL_SUCCESS, exporter->exportEvent({Type::AGENT_TX_BYTES, i}));
    Result<BufferReader> one = BufferReader::open(dir.file("agent"));
    Result<BufferReader> two = BufferReader::open(dir.file("agent"));
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_TRUE(popValues(one.value(), 0).empty());
    EXPECT_EQ((std::vector<std::uint64_t>{0, 1}), popValues(one.value(), 2));
    EXPECT_EQ((std::vector<std::uint64_t>{2, 3}), popValues(two.value(), 2));
    EXPECT_EQ((std::vector<std::uint64_t>{4}), popValues(one.value(), 2));
}

TEST(BufferRingTest, EventsOutliveTheExporter) {
    const TempDir dir;
    makeExporter(dir, 4)->exportEvent({Type::AGENT_TX_BYTES, 7});
    Result<BufferReader> reader = BufferReader::open(dir.file("agent"));
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ((std::vector<std::uint64_t>{7}), popValues(reader.value(), 9));
}

TEST(BufferRingTest, WriterSurvivesForgedPositions) {
    const TempDir dir;
    const auto exporter = makeExporter(dir, 4);
    const int fd = ::open(dir.file("agent").c_str(), O_RDWR);
    for (const std::uint64_t forged : {~std::uint64_t{0}, std::uint64_t{4}, std::uint64_t{1} << 40}) {
        ASSERT_EQ(8, ::pwrite(fd, &forged, 8, 0));
        ASSERT_EQ(8, ::pwrite(fd, &forged, 8, 8));
        ASSERT_EQ(8, ::pwrite(fd, &forged, 8, 24));
        ASSERT_EQ(8, ::pwrite(fd, &forged, 8, 32));
        for (int i = 0; i < 20; ++i)
            (void)exporter->exportEvent({Type::AGENT_TX_BYTES, 1});
    }
    struct stat info;
    ASSERT_EQ(0, ::fstat(fd, &info));
    EXPECT_EQ(40 + 4 * 16, info.st_size);
    ::close(fd);
}

TEST(BufferRingTest, ReaderAndWriterAtOnce) {
    const TempDir dir;
    const auto exporter = makeExporter(dir, 8);
    Result<BufferReader> reader = BufferReader::open(dir.file("agent"));
    ASSERT_TRUE(reader.ok());
    constexpr std::uint64_t kEvents = 50000;
    std::atomic<bool> over{false};
    std::thread writer([&] {
        for (std::uint64_t i = 0; i < kEvents && !over;) {
            if (exporter->exportEvent({Type::AGENT_TX_BYTES, i}) == NIXL_SUCCESS)
                ++i;
            else
                std::this_thread::yield();
        }
    });
    std::uint64_t expected = 0;
    std::uint64_t wrong = 0;
    while (expected < kEvents && wrong == 0 && !HasFailure()) {
        const std::vector<std::uint64_t> values = popValues(reader.value(), 5);
        for (const std::uint64_t value : values)
            wrong += value != expected++;
        if (values.empty())
            std::this_thread::yield();
    }
    over = true;
    writer.join();
    EXPECT_EQ(0u, wrong);
}

/// A valid file of four slots, to be damaged.
std::string
validBytes() {
    const TempDir dir;
    makeExporter(dir, 4);
    return fileBytes(dir.file("agent"));
}

void
expectMismatch(const std::string &bytes, const char *what) {
    const TempDir dir;
    const std::string path = dir.write("agent", bytes);
    const Result<BufferReader> reader = BufferReader::open(path);
    EXPECT_FALSE(reader.ok()) << what;
    EXPECT_EQ(NIXL_ERR_MISMATCH, reader.status().code()) << what;
    EXPECT_NE(std::string::npos, reader.status().message().find(path)) << what;
    // Whatever it is, it is not the reader's to remove or to change.
    EXPECT_EQ(bytes, fileBytes(path)) << what;
}

TEST(BufferReaderTest, ForeignFilesAreRefusedAndKept) {
    const std::string valid = validBytes();
    for (std::size_t length = 0; length < valid.size(); ++length)
        expectMismatch(valid.substr(0, length), "cut");
    expectMismatch(valid + '\0', "too long");
    const auto with = [&](std::size_t offset, std::uint64_t value, std::size_t width) {
        std::string bytes = valid;
        std::memcpy(bytes.data() + offset, &value, width);
        return bytes;
    };
    for (const std::uint64_t version : {0, 3, 5, -1}) {
        expectMismatch(with(16, version, 4), "version");
        expectMismatch(with(20, version, 4), "expected version");
    }
    for (const std::uint64_t capacity :
         {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{2}, std::uint64_t{8}, std::uint64_t{1} << 60,
          std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        expectMismatch(with(24, capacity, 8), "capacity");
        std::string both = with(24, capacity, 8);
        const std::uint64_t mask = capacity - 1;
        std::memcpy(both.data() + 32, &mask, 8);
        expectMismatch(both, "capacity and mask");
    }
    for (const std::uint64_t mask : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}})
        expectMismatch(with(32, mask, 8), "mask");
}

TEST(BufferReaderTest, ForgedPositionsAreRefused) {
    for (const std::size_t offset : {0, 8}) {
        for (const std::uint64_t position : {std::uint64_t{4}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
            const TempDir dir;
            std::string bytes = validBytes();
            std::memcpy(bytes.data() + offset, &position, 8);
            Result<BufferReader> reader = BufferReader::open(dir.write("agent", bytes));
            ASSERT_TRUE(reader.ok());
            nixlTelemetryEvent event;
            EXPECT_EQ(NIXL_ERR_MISMATCH, reader.value().pop({&event, 1}).status().code());
        }
    }
}

TEST(BufferReaderTest, FileThatShrinksIsAnError) {
    const TempDir dir;
    Result<BufferReader> reader = BufferReader::open(dir.write("agent", validBytes()));
    ASSERT_TRUE(reader.ok());
    ASSERT_EQ(0, ::truncate(dir.file("agent").c_str(), 0));
    nixlTelemetryEvent event;
    EXPECT_EQ(NIXL_ERR_MISMATCH, reader.value().pop({&event, 1}).status().code());
}

TEST(BufferReaderTest, PathsWithoutABuffer) {
    const TempDir dir;
    EXPECT_EQ(NIXL_ERR_NOT_FOUND, BufferReader::open(dir.file("missing")).status().code());
    EXPECT_FALSE(std::filesystem::exists(dir.file("missing")));
    ASSERT_EQ(0, ::mkfifo(dir.file("fifo").c_str(), 0600));
    EXPECT_EQ(NIXL_ERR_MISMATCH, BufferReader::open(dir.file("fifo")).status().code());
    dir.write("agent", validBytes());
    std::filesystem::create_symlink(dir.file("agent"), dir.file("link"));
    EXPECT_EQ(NIXL_ERR_NOT_FOUND, BufferReader::open(dir.file("link")).status().code());
    EXPECT_FALSE(BufferReader::open(dir.path()).ok());
}

TEST(BufferRingTest, SecondAgentOfANameIsAnnounced) {
    const TempDir dir;
    const auto first = makeExporter(dir, 4);
    const test::LogCapture log;
    const auto second = makeExporter(dir, 4);
    EXPECT_EQ(dir.file("agent.2"), second->path());
    EXPECT_EQ(1u, log.count(dir.file("agent.2"), LogLevel::kWarn));
}

} // namespace
} // namespace nixl
