#include "wire/metadata_blob.h"

#include <gtest/gtest.h>

#include "support/log_capture.h"
#include "wire_bytes.h"

namespace nixl {
namespace {

using test::desc;
using test::item;
using test::kPrefix;
using test::listHead;
using test::LogCapture;
using test::sampleBlob;
using test::sampleBytes;
using test::sampleExtension;
using test::u64;

void
expectSample(const MetadataBlob &blob) {
    const MetadataBlob sample = sampleBlob();
    EXPECT_EQ(blob.agent, sample.agent);
    ASSERT_EQ(blob.connections.size(), 2u);
    EXPECT_EQ(blob.connections[0].backend, "UCX");
    EXPECT_EQ(blob.connections[0].info, std::string("\x00\xff|t", 4));
    EXPECT_EQ(blob.connections[1].backend, "LOCAL");
    EXPECT_EQ(blob.connections[1].info, "socket");
    ASSERT_EQ(blob.sections.size(), 2u);
    EXPECT_EQ(blob.sections[0].backend, "UCX");
    EXPECT_EQ(blob.sections[0].descs, sample.sections[0].descs);
    EXPECT_EQ(blob.sections[1].descs, sample.sections[1].descs);
}

std::string
head(std::uint64_t connections, const std::string &entries) {
    return kPrefix + item("Agent", "a") + item("Conns", u64(connections)) + entries;
}

std::string
sections(std::uint64_t count, const std::string &entries) {
    return head(0, "") + item("", "MemSection") + item("nixlSecElms", u64(count)) + entries;
}

Status
refusal(const std::string &bytes) {
    return decodeMetadata(bytes).status();
}

TEST(MetadataBlobTest, BytesAreThoseOfTheFormat) {
    MetadataBlob blob = sampleBlob();
    EXPECT_EQ(encodeMetadata(blob), sampleBytes() + item("nixl-open", sampleExtension()));
    blob.extension.reset();
    EXPECT_EQ(encodeMetadata(blob), sampleBytes());
    EXPECT_EQ(encodeMetadata({"a", {}, {}, {}}), sections(0, ""));
}

TEST(MetadataBlobTest, ReadsWhatItWrites) {
    const auto blob = decodeMetadata(encodeMetadata(sampleBlob()));
    ASSERT_TRUE(blob.ok()) << blob.status().message();
    expectSample(blob.value());
    ASSERT_TRUE(blob.value().extension.has_value());
    EXPECT_EQ(blob.value().extension->incarnation, sampleBlob().extension->incarnation);
    EXPECT_EQ(blob.value().extension->epoch, 0x0102030405060708u);
    EXPECT_TRUE(blob.value().extension->full);
    EXPECT_EQ(blob.value().extension->keys, (std::vector<std::uint64_t>{11, ~0ull, 33}));
}

TEST(MetadataBlobTest, ExtensionMayGoWithoutKeysAndFlags) {
    MetadataBlob blob = sampleBlob();
    blob.extension->keys.clear();
    blob.extension->full = false;
    const auto read = decodeMetadata(encodeMetadata(blob));
    ASSERT_TRUE(read.ok() && read.value().extension);
    EXPECT_TRUE(read.value().extension->keys.empty());
    EXPECT_FALSE(read.value().extension->full);
}

TEST(MetadataBlobTest, ExtensionMayGrow) {
    // A later writer of the same version may use other flags and append fields.
    std::string payload = sampleExtension() + "more";
    payload[1] = '\x83';
    payload[7] = '\x7f';
    const auto read = decodeMetadata(sampleBytes() + item("nixl-open", payload) + item("other", "x"));
    ASSERT_TRUE(read.ok() && read.value().extension);
    EXPECT_TRUE(read.value().extension->full);
    EXPECT_EQ(read.value().extension->keys.size(), 3u);
}

TEST(MetadataBlobTest, WhatIsNoExtensionIsIgnored) {
    const std::string good = sampleExtension();
    std::string version = good;
    version[0] = 2;
    std::string huge = good;
    huge.replace(32, 8, u64(~0ull));
    std::string fewer = good;
    fewer.replace(32, 8, u64(2));
    const std::string trailing[] = {"",
                                    "trailing",
                                    item("other", "x"),
                                    item("nixl-open", ""),
                                    item("nixl-open", version),
                                    item("nixl-open", huge),
                                    item("nixl-open", fewer),
                                    item("nixl-open", good.substr(0, good.size() - 1)),
                                    item("nixl-open", good.substr(0, 39)),
                                    item("nixl-open", good.substr(0, 1)),
                                    test::itemOfLength("nixl-open", ~0ull, good)};
    for (const std::string &bytes : trailing) {
        const auto read = decodeMetadata(sampleBytes() + bytes);
        ASSERT_TRUE(read.ok()) << bytes;
        expectSample(read.value());
        EXPECT_FALSE(read.value().extension.has_value()) << bytes;
    }
}

TEST(MetadataBlobTest, TheLogSaysWhyTrailingBytesAreIgnored) {
    LogCapture log;
    std::string payload = sampleExtension();
    payload.replace(32, 8, u64(2));
    EXPECT_TRUE(decodeMetadata(sampleBytes() + item("nixl-open", payload)).ok());
    EXPECT_EQ(log.count("2 keys for 3 descriptors"), 1u);
    EXPECT_EQ(log.count("", LogLevel::kInfo), 0u);
}

TEST(MetadataBlobTest, RefusalsNameTheirCause) {
    const auto expect = [](const std::string &bytes, nixl_status_t code, const std::string &message) {
        EXPECT_EQ(refusal(bytes).code(), code) << message;
        EXPECT_EQ(refusal(bytes).message(), message);
    };
    const std::string section = item("bknd", "UCX") + listHead("nixlSDList", 0, 1) + item("", desc(1, 2, 3));
    expect("junk", NIXL_ERR_MISMATCH, "the 4 bytes do not begin with 'nixlSerDes|'");
    expect(kPrefix, NIXL_ERR_MISMATCH, "no item 'Agent' at byte 11");
    expect(kPrefix + item("Agent", ""), NIXL_ERR_MISMATCH, "the agent's name is empty");
    expect(kPrefix + item("Agent", "a") + item("Conns", "1234"), NIXL_ERR_MISMATCH,
           "item 'Conns' at byte 26 has 4 bytes, a number of 8 is expected");
    expect(head(1, item("t", "") + item("c", "xx")), NIXL_ERR_MISMATCH,
           "connection 0: the engine's name is empty");
    expect(head(1, item("t", "UCX") + item("c", "")), NIXL_ERR_MISMATCH,
           "connection 0: the connection information is empty");
    expect(head(2, item("t", "UCX") + item("c", "x") + item("x", "UCX") + item("c", "x")), NIXL_ERR_MISMATCH,
           "connection 1: no item 't' at byte 72");
    expect(head(0, item("", "MemSections")), NIXL_ERR_MISMATCH,
           "'MemSection' is missing behind the connections");
    expect(sections(1, item("bknd", "") + section), NIXL_ERR_INVALID_PARAM,
           "section 0: the engine's name is empty");
    expect(sections(2, section + item("bknd", "UCX") + listHead("nixlSDList", 0, 0)), NIXL_ERR_NOT_FOUND,
           "section 1: there is no descriptor in it");
    expect(sections(1, item("bknd", "UCX") + listHead("nixlBDList", 0, 1) + item("", desc(1, 2, 3))),
           NIXL_ERR_MISMATCH, "section 0: the list is not of kind nixlSDList");
}

TEST(MetadataBlobTest, CountsBeyondTheBytesAreRefusedAtOnce) {
    for (const std::uint64_t count : {std::uint64_t{0xffffffff}, ~std::uint64_t{0}}) {
        const std::string connection = item("t", "UCX") + item("c", "x");
        EXPECT_EQ(refusal(head(count, connection)).message(),
                  concat("item 'Conns' at byte 26 announces ", count, " entries, 24 bytes follow"));
        const std::string section =
            item("bknd", "UCX") + listHead("nixlSDList", 0, 1) + item("", desc(1, 2, 3));
        EXPECT_EQ(refusal(sections(count, section)).message(),
                  concat("item 'nixlSecElms' at byte 67 announces ", count, " entries, ", section.size(),
                         " bytes follow"));
    }
}

} // namespace
} // namespace nixl
