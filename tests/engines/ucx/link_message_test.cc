#include "engines/ucx/link_message.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace nixl::ucx {
namespace {

template<std::size_t Size>
std::string_view
view(const std::array<char, Size> &bytes) {
    return {bytes.data(), bytes.size()};
}

TEST(LinkMessage, LettersPingsAndPongsAreReadAsTheyWereWritten) {
    std::array<char, kLetterHeaderBytes> header;
    encodeLetterHeader({0x1122334455667788, 7, LetterKind::kFailure, true}, header.data());
    const auto letter = decodeLetterHeader(view(header));
    ASSERT_TRUE(letter.ok()) << letter.status().message();
    EXPECT_EQ(letter.value().link, 0x1122334455667788U);
    EXPECT_EQ(letter.value().number, 7U);
    EXPECT_EQ(letter.value().kind, LetterKind::kFailure);
    EXPECT_TRUE(letter.value().answer);

    std::array<char, kPingBytes> ping;
    encodePing({42, 3}, ping.data());
    EXPECT_EQ(decodePing(view(ping)).value().link, 42U);
    EXPECT_EQ(decodePing(view(ping)).value().number, 3U);

    std::array<char, kPongBytes> answer;
    encodePong({42, 9, LetterState::kGap, 3}, answer.data());
    const auto pong = decodePong(view(answer));
    ASSERT_TRUE(pong.ok()) << pong.status().message();
    EXPECT_EQ(pong.value().link, 42U);
    EXPECT_EQ(pong.value().expected, 9U);
    EXPECT_EQ(pong.value().state, LetterState::kGap);
    EXPECT_EQ(pong.value().ping, 3U);
}

TEST(LinkMessage, TheBytesAreThoseOfTheFormat) {
    std::array<char, kLetterHeaderBytes> header;
    encodeLetterHeader({0x0102030405060708, 0x1112131415161718, LetterKind::kFailure, true}, header.data());
    EXPECT_EQ(view(header),
              std::string_view("\x08\x07\x06\x05\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11"
                               "\x01\0\0\0\x01\0\0\0",
                               kLetterHeaderBytes));
    std::array<char, kPongBytes> answer;
    encodePong({1, 2, LetterState::kFull, 3}, answer.data());
    EXPECT_EQ(view(answer),
              std::string_view("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0", kPongBytes));
}

TEST(LinkMessage, OtherBytesAreRefused) {
    const std::string bytes(64, '\xff');
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
        const std::string_view part(bytes.data(), length);
        EXPECT_EQ(decodeLetterHeader(part).status().code(), NIXL_ERR_MISMATCH) << length; // or of no kind
        EXPECT_EQ(decodePong(part).status().code(), NIXL_ERR_MISMATCH) << length;
        EXPECT_EQ(decodePing(part).ok(), length == kPingBytes) << length;
    }
}

TEST(LinkMessage, FailuresSayWhoWhatAndWhy) {
    const auto failure = decodeFailure(encodeFailure({"a", std::string("\0x", 2), "because"}), 2);
    ASSERT_TRUE(failure.ok()) << failure.status().message();
    EXPECT_EQ(failure.value().agent, "a");
    EXPECT_EQ(failure.value().message, std::string("\0x", 2));
    EXPECT_EQ(failure.value().why, "because");
    EXPECT_FALSE(decodeFailure(encodeFailure({"a", "xyz", "because"}), 2).ok()) << "longer than allowed";
    EXPECT_FALSE(decodeFailure(encodeFailure({"", "x", "because"}), 2).ok());
    EXPECT_TRUE(decodeFailure(encodeFailure({"a", "x", std::string(1 << 20, 'y')}), 2).ok()) << "cut";
    const std::string whole = encodeFailure({"a", "x", "because"});
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_FALSE(decodeFailure(whole.substr(0, length), 2).ok()) << length;
}

} // namespace
} // namespace nixl::ucx
