// Real bytes, damaged in every place: a parser answers with a status and takes no memory that the input's
// length does not justify.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "fuzz/targets.h"
#include "support/log_capture.h"
#include "support/watched_new.h"
#include "wire/desc_list.h"
#include "wire/metadata_blob.h"
#include "wire/pickle_reader.h"
#include "wire_bytes.h"

namespace {

std::atomic<std::size_t> largestAllocation{0};

} // namespace

void
onAllocation(std::size_t size) noexcept {
    std::size_t largest = largestAllocation.load(std::memory_order_relaxed);
    while (size > largest && !largestAllocation.compare_exchange_weak(largest, size)) {
    }
}

namespace nixl {
namespace {

using Target = void (*)(std::string_view);

struct Sample {
    std::string name;
    std::string bytes;
    Target target;
};

// Files of NIXL, and a blob with our extension.
std::vector<Sample>
samples() {
    std::vector<Sample> all;
    for (const auto &[name, bytes] : test::readFolder("compat/golden")) {
        if (name.ends_with(".blob"))
            all.push_back({name, bytes, fuzz::metadataBlob});
        if (name.ends_with(".pickle")) {
            all.push_back({name, bytes, fuzz::pickle});
            if (const auto list = readPickledList(bytes); list.ok())
                all.push_back({name + " state", list.value().state, fuzz::serdes});
        }
    }
    all.push_back({"extended", encodeMetadata(test::sampleBlob()), fuzz::metadataBlob});
    return all;
}

// The target aborts if a status is not sensible or what was read does not survive writing and reading.
void
runDamaged(const Sample &sample, const std::string &damaged) {
    largestAllocation = 0;
    sample.target(damaged);
    // Messages and a few growing vectors aside, nothing is larger than a small multiple of the input.
    EXPECT_LE(largestAllocation.load(), 16 * sample.bytes.size() + 4096) << sample.name;
}

TEST(HostileBytesTest, EveryTruncation) {
    ASSERT_GE(samples().size(), 20u);
    for (const Sample &sample : samples())
        for (std::size_t length = 0; length <= sample.bytes.size(); ++length)
            runDamaged(sample, sample.bytes.substr(0, length));
}

TEST(HostileBytesTest, EveryByteFlipped) {
    for (const Sample &sample : samples())
        for (std::size_t i = 0; i < sample.bytes.size(); ++i)
            for (const int mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
                std::string damaged = sample.bytes;
                damaged[i] = static_cast<char>(damaged[i] ^ mask);
                runDamaged(sample, damaged);
            }
}

TEST(HostileBytesTest, HugeNumbersInEveryPlace) {
    // Every length and count lies somewhere, so every place is tried, at widths of 4 and 8 bytes.
    const std::string numbers[] = {
        test::u64(0xffffffff), test::u64(~0ull),      test::u64(~0ull - 7), test::u64(0x7fffffffffffffff),
        test::u64(1ull << 63), test::i32(0xffffffff), test::i32(0x7fffffff)};
    for (const Sample &sample : samples())
        for (const std::string &number : numbers)
            for (std::size_t i = 0; i + number.size() <= sample.bytes.size(); ++i) {
                std::string damaged = sample.bytes;
                damaged.replace(i, number.size(), number);
                runDamaged(sample, damaged);
            }
}

TEST(HostileBytesTest, ACutOffBlobIsRefused) {
    const std::string plain = test::sampleBytes();
    const std::string extended = encodeMetadata(test::sampleBlob());
    for (std::size_t length = 0; length < extended.size(); ++length) {
        const auto read = decodeMetadata(std::string_view(extended).substr(0, length));
        if (length < plain.size()) {
            EXPECT_EQ(read.status().code(), NIXL_ERR_MISMATCH) << length;
        } else {
            ASSERT_TRUE(read.ok()) << length;
            EXPECT_FALSE(read.value().extension.has_value()) << length;
        }
    }
}

TEST(HostileBytesTest, ACutOffListOrPickleIsRefused) {
    const std::string state = serializeList(test::sampleBlob().sections[0].descs);
    for (std::size_t length = 0; length < state.size(); ++length)
        EXPECT_EQ(parseRegList(std::string_view(state).substr(0, length)).status().code(), NIXL_ERR_MISMATCH)
            << length;
    const std::string pickled = writePickledList(PickledKind::kRegList, state);
    for (std::size_t length = 0; length < pickled.size(); ++length)
        EXPECT_EQ(readPickledList(std::string_view(pickled).substr(0, length)).status().code(),
                  NIXL_ERR_MISMATCH)
            << length;
}

// The corpus of the fuzzers must stay free of findings without a fuzzer, too.
TEST(CorpusTest, KeepsEveryPromise) {
    const std::pair<const char *, Target> targets[] = {
        {"serdes", fuzz::serdes}, {"metadata_blob", fuzz::metadataBlob}, {"pickle", fuzz::pickle}};
    for (const auto &[folder, target] : targets) {
        const auto files = test::readFolder(std::string("fuzz/corpus/") + folder);
        EXPECT_GE(files.size(), 10u) << folder;
        for (const auto &[name, bytes] : files)
            runDamaged({name, bytes, target}, bytes);
    }
}

} // namespace
} // namespace nixl
