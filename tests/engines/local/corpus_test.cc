// The corpus of the fuzzers must stay free of findings without a fuzzer, too.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.h"

namespace nixl {
namespace {

TEST(LocalCorpusTest, KeepsEveryPromise) {
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(std::filesystem::path(NIXL_TESTS_FOLDER) /
                                                                 "fuzz" / "corpus" / "local_frames")) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        fuzz::localFrames(bytes);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            fuzz::localFrames(std::string_view(bytes).substr(0, i));
            std::string flipped = bytes;
            flipped[i] = static_cast<char>(flipped[i] ^ 0x80);
            fuzz::localFrames(flipped);
        }
        ++files;
    }
    EXPECT_GE(files, 10);
}

} // namespace
} // namespace nixl
