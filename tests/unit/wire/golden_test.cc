// Files written by NIXL 1.5.1 (tests/compat/golden/make_golden.py): read, understood, and written again with
// the same bytes.
#include <gtest/gtest.h>

#include "wire/desc_list.h"
#include "wire/metadata_blob.h"
#include "wire/pickle_reader.h"
#include "wire_bytes.h"

namespace nixl {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;
constexpr std::uint64_t kStep = 0x10000;

std::string
golden(const std::string &name) {
    const std::string bytes = test::readFile(std::string(NIXL_TESTS_FOLDER "/compat/golden/") + name);
    EXPECT_FALSE(bytes.empty()) << name;
    return bytes;
}

MetadataBlob
readBlob(const std::string &name) {
    const std::string bytes = golden(name);
    auto blob = decodeMetadata(bytes);
    EXPECT_TRUE(blob.ok()) << name << ": " << blob.status().message();
    if (!blob.ok())
        return {};
    EXPECT_FALSE(blob.value().extension.has_value()) << name;
    EXPECT_EQ(encodeMetadata(blob.value()), bytes) << name;
    return std::move(blob).value();
}

void
expectUcxConnection(const MetadataBlob &blob) {
    ASSERT_EQ(blob.connections.size(), 1u);
    EXPECT_EQ(blob.connections[0].backend, "UCX");
    EXPECT_GT(blob.connections[0].info.size(), 100u);
}

// One section of UCX in host memory with these of the script's regions, each with a key.
void
expectRegions(const MetadataBlob &blob, const std::vector<std::uint64_t> &regions) {
    ASSERT_EQ(blob.sections.size(), 1u);
    EXPECT_EQ(blob.sections[0].backend, "UCX");
    const nixl_reg_dlist_t &descs = blob.sections[0].descs;
    EXPECT_EQ(descs.getType(), DRAM_SEG);
    ASSERT_EQ(static_cast<std::size_t>(descs.descCount()), regions.size());
    for (unsigned i = 0; i < regions.size(); ++i) {
        EXPECT_EQ(nixlBasicDesc(descs[i]),
                  nixlBasicDesc(kBase + regions[i] * kStep, 4096 * (regions[i] + 1), 0));
        EXPECT_EQ(descs[i].metaInfo.size(), 11u);
    }
}

TEST(GoldenBlobTest, FullWithOneRegion) {
    const MetadataBlob blob = readBlob("full_1.blob");
    EXPECT_EQ(blob.agent, "golden-one");
    expectUcxConnection(blob);
    expectRegions(blob, {0});
}

TEST(GoldenBlobTest, FullWithThreeRegions) {
    const MetadataBlob blob = readBlob("full_3.blob");
    EXPECT_EQ(blob.agent, "golden-three");
    expectUcxConnection(blob);
    expectRegions(blob, {0, 1, 2});
}

TEST(GoldenBlobTest, RegionsInsideOfOthers) {
    const MetadataBlob blob = readBlob("full_nested.blob");
    EXPECT_EQ(blob.agent, "golden-nested");
    expectUcxConnection(blob);
    ASSERT_EQ(blob.sections.size(), 1u);
    const nixl_reg_dlist_t &descs = blob.sections[0].descs;
    ASSERT_EQ(descs.descCount(), 3);
    EXPECT_EQ(nixlBasicDesc(descs[0]), nixlBasicDesc(kBase, 4096, 0));
    EXPECT_EQ(nixlBasicDesc(descs[1]), nixlBasicDesc(kBase, kStep, 0));
    EXPECT_EQ(nixlBasicDesc(descs[2]), nixlBasicDesc(kBase + 4096, 8192, 0));
}

TEST(GoldenBlobTest, AThreadPoolIsOneConnection) {
    const MetadataBlob blob = readBlob("full_thread_pool.blob");
    EXPECT_EQ(blob.agent, "golden-threads");
    expectUcxConnection(blob);
    expectRegions(blob, {0});
}

TEST(GoldenBlobTest, PartialWithAndWithoutConnection) {
    const MetadataBlob with = readBlob("partial_with_connection.blob");
    expectUcxConnection(with);
    expectRegions(with, {0, 2});
    const MetadataBlob without = readBlob("partial_without_connection.blob");
    EXPECT_TRUE(without.connections.empty());
    expectRegions(without, {0, 2});
}

TEST(GoldenBlobTest, PartialOfAnEmptyListIsConnectionInformation) {
    const MetadataBlob blob = readBlob("partial_empty_list.blob");
    EXPECT_EQ(blob.agent, "golden-three");
    expectUcxConnection(blob);
    EXPECT_TRUE(blob.sections.empty());
}

TEST(GoldenBlobTest, AnAgentWithoutRemoteEngineHasNothing) {
    const MetadataBlob blob = readBlob("partial_not_remote.blob");
    EXPECT_EQ(blob.agent, "golden-files");
    EXPECT_TRUE(blob.connections.empty());
    EXPECT_TRUE(blob.sections.empty());
}

nixl_xfer_dlist_t
blocks(unsigned count) {
    nixl_xfer_dlist_t list(DRAM_SEG);
    for (unsigned i = 0; i < count; ++i)
        list.addDesc(nixlBasicDesc(kBase + i * kStep, 4096 * (i + 1), i));
    return list;
}

PickledList
readPickle(const std::string &name) {
    auto list = readPickledList(golden(name));
    EXPECT_TRUE(list.ok()) << name << ": " << list.status().message();
    return list.ok() ? std::move(list).value() : PickledList{PickledKind::kXferList, ""};
}

TEST(GoldenPickleTest, XferLists) {
    for (const unsigned count : {0u, 1u, 3u, 12u}) {
        const PickledList list = readPickle(concat("xfer_", count, ".pickle"));
        EXPECT_EQ(list.kind, PickledKind::kXferList);
        const auto descs = parseXferList(list.state);
        ASSERT_TRUE(descs.ok()) << descs.status().message();
        EXPECT_EQ(descs.value(), blocks(count));
        EXPECT_EQ(serializeList(descs.value()), list.state);
    }
}

TEST(GoldenPickleTest, EveryProtocolThatTheWheelWrites) {
    nixl_xfer_dlist_t expected(VRAM_SEG);
    expected.addDesc(nixlBasicDesc(~0ull - 4095, 4096, 7));
    for (const int protocol : {2, 3, 5}) {
        const PickledList list = readPickle(concat("xfer_protocol_", protocol, ".pickle"));
        EXPECT_EQ(list.state, serializeList(expected)) << protocol;
    }
}

TEST(GoldenPickleTest, RegLists) {
    nixl_reg_dlist_t files(FILE_SEG);
    files.addDesc(nixlBlobDesc(0, 4096, 3, "/data/a"));
    files.addDesc(nixlBlobDesc(4096, 0, 4, std::string("\x00\xff|", 3)));
    files.addDesc(nixlBlobDesc(8192, 1, 5, ""));
    const PickledList list = readPickle("reg_3.pickle");
    EXPECT_EQ(list.kind, PickledKind::kRegList);
    EXPECT_EQ(parseRegList(list.state).value(), files);
    EXPECT_EQ(list.state, serializeList(files));
    EXPECT_EQ(readPickle("reg_0.pickle").state, serializeList(nixl_reg_dlist_t(OBJ_SEG)));
}

} // namespace
} // namespace nixl
