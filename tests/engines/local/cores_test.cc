// Cores by the processor time that control groups grant.
#include "engines/local/cores.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace nixl::local {

namespace {

class CoresTest : public ::testing::Test {
protected:
    void
    write(const std::string &name, const std::string &text) {
        const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }

    std::optional<unsigned>
    cores(const std::string &groups) {
        write("groups", groups);
        return coresByQuota(folder_.path() + "/groups", folder_.path());
    }

    test::TempDir folder_;
};

TEST_F(CoresTest, AreLimitedByTheGroupAndByThoseAroundIt) {
    write("cpu.max", "max 100000\n");
    write("pod/cpu.max", "600000 100000\n");
    write("pod/box/cpu.max", "max 100000\n");
    EXPECT_EQ(cores("0::/pod/box\n"), 6U);
    write("pod/box/cpu.max", "350000 100000\n");
    EXPECT_EQ(cores("0::/pod/box\n"), 3U);
    EXPECT_EQ(cores("0::/pod\n"), 6U);
    EXPECT_EQ(cores("0::/\n"), std::nullopt);
}

TEST_F(CoresTest, AtLeastOne) {
    write("cpu.max", "1 1000000\n");
    EXPECT_EQ(cores("0::/\n"), 1U);
}

TEST_F(CoresTest, OfTheOldControlGroups) {
    write("cpu/box/cpu.cfs_quota_us", "400000\n");
    write("cpu/box/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cores("5:cpuset:/other\n3:cpu,cpuacct:/box\n"), 4U);
    EXPECT_EQ(cores("3:cpuacct,cpu:/box/inner\n"), 4U);
    EXPECT_EQ(cores("3:cpuacct:/box\n"), std::nullopt);
    write("cpu/box/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(cores("3:cpu,cpuacct:/box\n"), std::nullopt);
}

/// In a container that sees its own groups alone, but the path that the host has for them.
TEST_F(CoresTest, OfTheRootWhereThePathIsNotSeen) {
    write("cpu.max", "200000 100000\n");
    EXPECT_EQ(cores("0::/kubepods/pod1/box\n"), 2U);
    EXPECT_EQ(cores("0::/../../box\n"), 2U);
}

TEST_F(CoresTest, WhatIsNotUnderstoodSaysNothing) {
    for (const char *text : {"", "max", "100000", "100000 0", "0 100000", "-5 100000", "1e5 100000",
                             "100000 x", "100000x 100000", "99999999999999999999999 100000",
                             "100000 99999999999999999999999", "\n\n", "max max"}) {
        write("cpu.max", text);
        EXPECT_EQ(cores("0::/\n"), std::nullopt) << text;
    }
    write("cpu.max", "18446744073709551615 1");
    EXPECT_EQ(cores("0::/\n"), 4294967295U);
    write("cpu.max", "300000 100000");
    for (const char *groups : {"", "\n", ":", "0:", "0:/", "no group at all", "0:cpux:/", "0:,:/"})
        EXPECT_EQ(cores(groups), std::nullopt) << groups;
    EXPECT_EQ(cores("::"), 3U);
    EXPECT_EQ(cores(std::string("0::/a\0b\n", 8)), 3U);
    EXPECT_EQ(coresByQuota(folder_.path() + "/absent", folder_.path()), std::nullopt);
    EXPECT_EQ(coresByQuota(folder_.path(), folder_.path()), std::nullopt);
    EXPECT_EQ(cores(std::string(1 << 20, ':')), 3U);
}

TEST(Cores, OfThisProcess) {
    EXPECT_GE(usableCores(), 1U);
}

} // namespace

} // namespace nixl::local
