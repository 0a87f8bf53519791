// The corpus of the fuzzers must stay free of findings without a fuzzer, too.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.h"

namespace nixl {
namespace {

TEST(UcxCorpusTest, KeepsEveryPromise) {
    const std::pair<const char *, void (*)(std::string_view)> targets[] = {{"elf", fuzz::elf},
                                                                           {"ucx_address", fuzz::ucxAddress},
                                                                           {"ucx_key", fuzz::ucxKey},
                                                                           {"ucx_blocks", fuzz::ucxBlocks},
                                                                           {"ucx_link", fuzz::ucxLink}};
    for (const auto &[folder, target] : targets) {
        int files = 0;
        for (const auto &entry : std::filesystem::directory_iterator(
                 std::filesystem::path(NIXL_TESTS_FOLDER) / "fuzz" / "corpus" / folder)) {
            std::ifstream file(entry.path(), std::ios::binary);
            target(std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
            ++files;
        }
        EXPECT_GE(files, 10) << folder;
    }
}

} // namespace
} // namespace nixl
