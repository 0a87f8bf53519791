#include "wire/desc_list.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "support/log_capture.h"
#include "utils/serdes/serdes.h"
#include "wire/desc_list_impl.h"
#include "wire_bytes.h"

/// A descriptor of another owner, as engines have them.
class HandleDesc : public nixlBasicDesc {
public:
    void *handle = nullptr;
};

template class nixlDescList<HandleDesc>;

namespace nixl {
namespace {

using test::desc;
using test::item;
using test::itemOfLength;
using test::kPrefix;
using test::listHead;
using test::LogCapture;

nixl_xfer_dlist_t
xferList() {
    nixl_xfer_dlist_t list(VRAM_SEG);
    list.addDesc(nixlBasicDesc(0x1000, 64, 1));
    list.addDesc(nixlBasicDesc(~0ull - 63, 64, 7));
    return list;
}

std::string
xferBytes() {
    return kPrefix + listHead("nixlBDList", 1, 2) + item("", desc(0x1000, 64, 1) + desc(~0ull - 63, 64, 7));
}

nixl_reg_dlist_t
regList() {
    nixl_reg_dlist_t list(FILE_SEG);
    list.addDesc(nixlBlobDesc(0, ~0ull, 3, "/data|a"));
    list.addDesc(nixlBlobDesc(8192, 1, 4, ""));
    return list;
}

std::string
regBytes() {
    return kPrefix + listHead("nixlSDList", 4, 2) + item("", desc(0, ~0ull, 3) + "/data|a") +
           item("", desc(8192, 1, 4));
}

TEST(DescListTest, BytesAreThoseOfTheFormat) {
    EXPECT_EQ(serializeList(xferList()), xferBytes());
    EXPECT_EQ(serializeList(regList()), regBytes());
    EXPECT_EQ(serializeList(nixl_xfer_dlist_t(OBJ_SEG)), kPrefix + listHead("nixlBDList", 3, 0));
    EXPECT_EQ(serializeList(nixl_reg_dlist_t(BLK_SEG)), kPrefix + listHead("nixlSDList", 2, 0));
}

TEST(DescListTest, ReadsWhatItWrites) {
    EXPECT_EQ(parseXferList(xferBytes()).value(), xferList());
    EXPECT_EQ(parseRegList(regBytes()).value(), regList());
    EXPECT_EQ(parseXferList(kPrefix + listHead("nixlBDList", 3, 0)).value(), nixl_xfer_dlist_t(OBJ_SEG));
    EXPECT_EQ(parseRegList(kPrefix + listHead("nixlSDList", 2, 0)).value(), nixl_reg_dlist_t(BLK_SEG));
}

TEST(DescListTest, PublicClassReadsAndWritesWithinAContainer) {
    nixlSerDes writer;
    writer.addStr("before", "1");
    EXPECT_EQ(xferList().serialize(&writer), NIXL_SUCCESS);
    EXPECT_EQ(regList().serialize(&writer), NIXL_SUCCESS);
    writer.addStr("after", "2");
    EXPECT_EQ(writer.exportStr(), kPrefix + item("before", "1") + xferBytes().substr(kPrefix.size()) +
                                      regBytes().substr(kPrefix.size()) + item("after", "2"));

    nixlSerDes reader;
    reader.importStr(writer.exportStr());
    EXPECT_EQ(reader.getStr("before"), "1");
    EXPECT_EQ(nixl_xfer_dlist_t(&reader), xferList());
    EXPECT_EQ(nixl_reg_dlist_t(&reader), regList());
    EXPECT_EQ(reader.getStr("after"), "2");
}

TEST(DescListTest, ABadListIsEmptyAndLeavesTheCursor) {
    LogCapture log;
    nixlSerDes reader;
    reader.importStr(xferBytes());
    const nixl_reg_dlist_t wrongKind(&reader);
    EXPECT_TRUE(wrongKind.isEmpty());
    EXPECT_EQ(wrongKind.getType(), DRAM_SEG);
    EXPECT_EQ(log.count("the list is not of kind nixlSDList", LogLevel::kError), 1u);
    EXPECT_EQ(nixl_xfer_dlist_t(&reader), xferList());
    EXPECT_TRUE(nixl_xfer_dlist_t(static_cast<nixlSerDes *>(nullptr)).isEmpty());
}

TEST(DescListTest, OtherClassesHaveNoEncoding) {
    LogCapture log;
    nixlSerDes serdes;
    EXPECT_EQ(nixl_remote_dlist_t(DRAM_SEG, 1).serialize(&serdes), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(nixl_stride_dlist_t(DRAM_SEG, 1).serialize(&serdes), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(nixlDescList<HandleDesc>(DRAM_SEG, 1).serialize(&serdes), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(xferList().serialize(nullptr), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(serdes.exportStr(), kPrefix);
    serdes.importStr(xferBytes());
    EXPECT_TRUE(nixlDescList<HandleDesc>(&serdes).isEmpty());
}

TEST(DescListTest, SaysWhatIsWrong) {
    const auto xferError = [](const std::string &items) {
        return parseXferList(kPrefix + items).status().message();
    };
    const auto regError = [](const std::string &items) {
        return parseRegList(kPrefix + items).status().message();
    };
    EXPECT_EQ(xferError(""), "no item 'nixlDList' at byte 11");
    EXPECT_EQ(xferError(listHead("nixlSDList", 0, 0)), "the list is not of kind nixlBDList");
    EXPECT_EQ(xferError(listHead("nixlBDList", 5, 0)), "the list is of unknown memory 5");
    EXPECT_EQ(xferError(listHead("nixlBDList", ~0u, 0)), "the list is of unknown memory -1");
    EXPECT_EQ(xferError(listHead("nixlBDList", 0, 2) + item("", desc(1, 2, 3) + std::string(25, 'x'))),
              "2 descriptors take 48 bytes, not 49");
    EXPECT_EQ(
        regError(listHead("nixlSDList", 0, 1) + item("", desc(1, 2, 3).substr(1)) + std::string(33, 'x')),
        "descriptor 0 has 23 bytes, fewer than 24");
    EXPECT_EQ(regError(listHead("nixlSDList", 0, 2) + item("", desc(1, 2, 3)) +
                       std::string("x").append(66, '\xff')),
              "descriptor 1: item '' at byte 104 claims 18446744073709551480 bytes, 59 follow");
}

TEST(DescListTest, CountsBeyondTheBytesAreRefused) {
    // 24 times the last two wraps to 24 and 0.
    for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{0xffffffff}, ~std::uint64_t{0},
                                      std::uint64_t{0x0aaaaaaaaaaaaaab} << 4 | 1, std::uint64_t{1} << 61}) {
        EXPECT_EQ(parseXferList(kPrefix + listHead("nixlBDList", 0, count) + item("", desc(1, 2, 3)))
                      .status()
                      .code(),
                  NIXL_ERR_MISMATCH)
            << count;
        EXPECT_EQ(parseRegList(kPrefix + listHead("nixlSDList", 0, count) + item("", desc(1, 2, 3)))
                      .status()
                      .code(),
                  NIXL_ERR_MISMATCH)
            << count;
    }
}

TEST(DescListTest, PrintsHeadlineToStdoutAndElementsToTheLog) {
    LogCapture log;
    testing::internal::CaptureStdout();
    regList().print();
    nixl_remote_dlist_t remote(DRAM_SEG);
    remote.addDesc(nixlRemoteDesc(0x5000, 1, 2, "peer"));
    remote.print();
    nixlDescList<HandleDesc>(DRAM_SEG, 1).print();
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "list of 2 in FILE_SEG\nlist of 1 in DRAM_SEG\nlist of 1 in DRAM_SEG\n");
    EXPECT_EQ(
        log.count("0: addr 0x0, len 18446744073709551615, devId 3, 7 bytes of metaInfo", LogLevel::kInfo),
        1u);
    EXPECT_EQ(log.count("1: addr 0x2000, len 1, devId 4, 0 bytes of metaInfo", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("0: addr 0x5000, len 1, devId 2, agent peer", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.lines().size(), 4u);
}

TEST(DescListTest, TextForPeople) {
    nixl_xfer_dlist_t list = xferList();
    list.addDesc(nixlBasicDesc(0x9000, 4096, 1));
    EXPECT_EQ(list.to_string(true), "VRAM_SEG, 3 descriptors; 2 of 64 bytes; 1 of 4096 bytes");
    EXPECT_EQ(list.to_string(), "VRAM_SEG, 3 descriptors\n"
                                "  0: addr 0x1000, len 64, devId 1\n"
                                "  1: addr 0xffffffffffffffc0, len 64, devId 7\n"
                                "  2: addr 0x9000, len 4096, devId 1");
    EXPECT_EQ(nixl_stride_dlist_t(DRAM_SEG).to_string(true), "DRAM_SEG, 0 descriptors");
}

TEST(DescListTest, FindsAndRemoves) {
    nixl_reg_dlist_t list = regList();
    EXPECT_EQ(list.getIndex(nixlBasicDesc(8192, 1, 4)), 1);
    EXPECT_EQ(list.getIndex(nixlBasicDesc(8192, 2, 4)), NIXL_ERR_NOT_FOUND);
    EXPECT_THROW(list.remDesc(2), std::out_of_range);
    EXPECT_THROW(list.remDesc(-1), std::out_of_range);
    try {
        list.remDesc(7);
        FAIL();
    } catch (const std::out_of_range &error) {
        EXPECT_STREQ(error.what(), "no descriptor 7 in a list of 2 descriptors");
    }
    list.remDesc(0);
    EXPECT_EQ(list.getIndex(nixlBasicDesc(8192, 1, 4)), 0);
    EXPECT_EQ(list.trim().descCount(), 1);
    EXPECT_EQ(list.trim()[0], nixlBasicDesc(8192, 1, 4));
    EXPECT_THROW(nixl_reg_dlist_t(DRAM_SEG, -1), std::length_error);
}

} // namespace
} // namespace nixl
