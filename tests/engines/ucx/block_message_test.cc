#include "engines/ucx/block_message.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace nixl::ucx {
namespace {

std::string
encoded(const BlockRequest &request, std::span<const MessagePiece> pieces) {
    std::string header(kRequestBytes + kPieceBytes * pieces.size(), '\0');
    encodeRequest(request, pieces, header.data());
    return header;
}

TEST(BlockMessage, RequestsAreReadAsTheyWereWritten) {
    const std::array pieces{MessagePiece{7, 0x1000, kMessageBytes - 1}, MessagePiece{~0ULL, ~0ULL, 1},
                            MessagePiece{8, 0, 0}};
    const std::string header = encoded({{0x1122334455667788, 3}, 42}, pieces);
    EXPECT_EQ(header.substr(0, kRequestBytes),
              std::string("\x88\x77\x66\x55\x44\x33\x22\x11\3\0\0\0*\0\0\0", 16));
    const auto read = decodeRequest(header);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value().request.run.secret, 0x1122334455667788U);
    EXPECT_EQ(read.value().request.run.place, 3U);
    EXPECT_EQ(read.value().request.message, 42U);
    EXPECT_EQ(read.value().bytes, kMessageBytes);
    ASSERT_EQ(read.value().pieces, pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const MessagePiece piece = pieceAt(header, i);
        EXPECT_EQ(piece.key, pieces[i].key);
        EXPECT_EQ(piece.address, pieces[i].address);
        EXPECT_EQ(piece.length, pieces[i].length);
    }
}

TEST(BlockMessage, RequestsOfAnotherLengthOrForTooMuchAreRefused) {
    const std::array one{MessagePiece{1, 2, 3}};
    const std::string right = encoded({}, one);
    for (std::size_t length = 0; length < right.size(); ++length)
        EXPECT_EQ(decodeRequest(right.substr(0, length)).ok(), length == kRequestBytes) << length;
    EXPECT_FALSE(decodeRequest(right + "x").ok());
    const std::array more{MessagePiece{1, 2, kMessageBytes}, MessagePiece{1, 2, 1}};
    EXPECT_EQ(decodeRequest(encoded({}, more)).status().code(), NIXL_ERR_MISMATCH);
    const std::array overflow{MessagePiece{1, 2, 1}, MessagePiece{1, 2, ~0ULL}};
    EXPECT_EQ(decodeRequest(encoded({}, overflow)).status().code(), NIXL_ERR_MISMATCH);
}

TEST(BlockMessage, AnswersAreReadAsTheyWereWritten) {
    std::string header(kAnswerBytes, '\0');
    encodeAnswer({{5, 6}, 7, NIXL_ERR_NOT_FOUND, 9}, header.data());
    const auto answer = decodeAnswer(header);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer.value().run.secret, 5U);
    EXPECT_EQ(answer.value().run.place, 6U);
    EXPECT_EQ(answer.value().message, 7U);
    EXPECT_EQ(answer.value().code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(answer.value().piece, 9U);
    EXPECT_FALSE(decodeAnswer(header.substr(1)).ok());
    EXPECT_FALSE(decodeAnswer(header + "x").ok());
}

TEST(BlockMessage, TheMarkIsFoundAndOnlyAtTheEnd) {
    const std::string marked = markAddress("address");
    EXPECT_EQ(unmarkAddress(marked).address, "address");
    EXPECT_TRUE(unmarkAddress(marked).packs);
    for (std::size_t length = 0; length < marked.size(); ++length)
        EXPECT_FALSE(unmarkAddress(marked.substr(0, length)).packs) << length;
    EXPECT_EQ(unmarkAddress("address").address, "address");
    EXPECT_FALSE(unmarkAddress(marked + "x").packs);
}

TEST(BlockMessage, KeysStandBehindKeys) {
    const std::string published = appendMessageKey("rkey", 0x0102);
    EXPECT_EQ(published, std::string("rkey\2\1\0\0\0\0\0\0", 12));
    EXPECT_EQ(splitMessageKey(published).packedKey, "rkey");
    EXPECT_EQ(splitMessageKey(published).messageKey, 0x0102U);
    EXPECT_EQ(splitMessageKey("short").messageKey, 0U);
    EXPECT_EQ(splitMessageKey("short").packedKey, "short");
}

} // namespace
} // namespace nixl::ucx
