#include "engines/ucx/elf_file.h"

#include <elf.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace nixl::ucx {
namespace {

constexpr std::string_view kThere[] = {"ucp_get_version", "ucs_status_string"};
constexpr std::string_view kGone[] = {"ucp_get_version", "ucp_from_the_future", "ucp_mem_map"};

std::string
goodBytes() {
    Result<std::string> bytes = readLibraryFile(NIXL_TEST_UCX_GOOD);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    return std::move(bytes).value();
}

/// Everything that can be asked, so that sanitizers see all reads.
void
useAll(std::string_view bytes) {
    const Result<ElfFile> file = ElfFile::parse(bytes);
    if (!file.ok())
        return;
    file.value().firstMissing(kGone);
    file.value().versionText();
}

TEST(ElfFile, FindsFunctionsAndVersion) {
    const std::string bytes = goodBytes();
    const Result<ElfFile> file = ElfFile::parse(bytes);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file.value().firstMissing(kThere), "");
    EXPECT_EQ(file.value().firstMissing(kGone), "ucp_from_the_future");
    EXPECT_EQ(file.value().versionText(), "1.30.0");
}

TEST(ElfFile, WhatALibraryOnlyImportsIsNotItsOwn) {
    // The start-up code of every shared library asks the C library for it.
    constexpr std::string_view kImported[] = {"__cxa_finalize"};
    const std::string bytes = goodBytes();
    ASSERT_NE(bytes.find(kImported[0]), std::string::npos);
    const Result<ElfFile> file = ElfFile::parse(bytes);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file.value().firstMissing(kImported), kImported[0]);
}

TEST(ElfFile, AVersionMustBeTheOnlyOne) {
    std::string bytes = goodBytes();
    const std::size_t at = bytes.find("1.30.0");
    ASSERT_NE(at, std::string::npos);
    std::string broken = bytes;
    broken.replace(at, 6, "1.30.x");
    EXPECT_EQ(ElfFile::parse(broken).value().versionText(), std::nullopt);
    broken.replace(at, 6, "1..3.0");
    EXPECT_EQ(ElfFile::parse(broken).value().versionText(), std::nullopt);
}

TEST(ElfFile, OtherFilesAreRefused) {
    EXPECT_FALSE(ElfFile::parse("").ok());
    EXPECT_FALSE(ElfFile::parse("#!/bin/sh\n").ok());
    EXPECT_FALSE(ElfFile::parse(std::string(4096, '\0')).ok());
    std::string bytes = goodBytes();
    bytes[EI_CLASS] = ELFCLASS32;
    EXPECT_FALSE(ElfFile::parse(bytes).ok());
}

TEST(ElfFile, EveryTruncationIsRefused) {
    // The table of sections stands at the end of the file.
    const std::string bytes = goodBytes();
    for (std::size_t size = 0; size < bytes.size(); size += size < 4096 ? 1 : 61)
        EXPECT_FALSE(ElfFile::parse(std::string(bytes, 0, size)).ok()) << size;
}

TEST(ElfFile, SectionsThatPointElsewhereAreSurvived) {
    const std::string bytes = goodBytes();
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    std::mt19937_64 random(20240607);
    constexpr std::uint64_t kEdges[] = {0, 1, ~std::uint64_t{0}, std::uint64_t{1} << 63, 0xffffffff};
    for (int round = 0; round < 4000; ++round) {
        std::string broken = bytes;
        const std::uint64_t value = round % 2 ? kEdges[random() % std::size(kEdges)] : random();
        const std::size_t size = random() % 2 ? 8 : 4;
        const std::size_t table = random() % 8 ? header.e_shoff : 0;
        const std::size_t room = broken.size() - table - size;
        std::memcpy(broken.data() + table + random() % room, &value, size);
        useAll(broken);
    }
}

TEST(ElfFile, OnlyRegularFilesAreRead) {
    const test::TempDir folder;
    EXPECT_EQ(readLibraryFile(folder.file("none")).status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(readLibraryFile(folder.path()).status().code(), NIXL_ERR_NOT_FOUND);
    ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
    EXPECT_EQ(readLibraryFile(folder.file("fifo")).status().code(), NIXL_ERR_NOT_FOUND);
}

} // namespace
} // namespace nixl::ucx
