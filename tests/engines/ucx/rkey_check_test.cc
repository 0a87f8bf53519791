// Remote keys of UCX are told from everything else before UCX reads them.
#include "engines/ucx/rkey_check.h"

#include <gtest/gtest.h>
#include <ucs/memory/memory_type.h>

#include "engines/ucx/packed_bytes.h"
#include "packed_checks.h"
#include "packed_samples.h"

namespace nixl::ucx {
namespace {

using test::expectRefused;

std::string
key(std::string_view domains, char type, std::string_view rest) {
    std::string bytes(domains);
    bytes.resize(8, '\0');
    return bytes.append(1, type).append(rest);
}

TEST(RkeyCheckTest, WhatUcxPacksIsRightAndNothingElse) {
    for (const auto &sample : test::keySamples) {
        SCOPED_TRACE(sample.name);
        test::expectExact(sample.bytes(),
                          [&](std::string_view bytes) { return checkPackedKey(bytes, sample.packer); });
    }
}

TEST(RkeyCheckTest, SamplesReachTheParts) {
    // With the device of the memory, and without.
    for (const auto &sample : test::keySamples) {
        const std::string bytes = sample.bytes();
        const bool empty = bytes.size() == 9;
        EXPECT_EQ(checkPackedKey(bytes, 19).ok(), sample.packer < 20 || empty) << sample.name;
        EXPECT_EQ(checkPackedKey(bytes, 0).ok(), sample.packer < 20 || empty) << sample.name;
        EXPECT_EQ(checkPackedKey(bytes, 20).ok(), sample.packer >= 20 || empty) << sample.name;
    }
}

TEST(RkeyCheckTest, KeysOfAllDomains) {
    std::string all = key(std::string(8, '\xff'), 0, "");
    for (int domain = 0; domain < 64; ++domain)
        all.append(1, static_cast<char>(domain)).append(static_cast<std::size_t>(domain), 'k');
    test::expectExact(all, [](std::string_view bytes) { return checkPackedKey(bytes, 19); });
    test::expectExact(all + '\xff', [](std::string_view bytes) { return checkPackedKey(bytes, 22); });
}

TEST(RkeyCheckTest, TypesOfMemory) {
    EXPECT_EQ(UCS_MEMORY_TYPE_LAST, 10) << "the check must know as many types as UCX";
    for (int type = 0; type < 256; ++type) {
        const Status status = checkPackedKey(key("", static_cast<char>(type), ""), 22);
        EXPECT_EQ(status.ok(), type < UCS_MEMORY_TYPE_LAST) << type;
    }
    expectRefused(checkPackedKey(key("", '\x0a', ""), 22), "byte 8 of the remote key: type of memory 10");
}

TEST(RkeyCheckTest, NamesPositionAndCause) {
    expectRefused(checkPackedKey("", 22),
                  "byte 0 of the remote key: the set of memory domains needs 8 bytes, 0 follow");
    expectRefused(checkPackedKey(key("\x02", 1,
                                     std::string_view("\x0c"
                                                      "short",
                                                      6)),
                                 22),
                  "byte 10 of the remote key: a domain's key needs 12 bytes, 5 follow");
    expectRefused(checkPackedKey(key("\x01", 1, std::string_view("\0", 1)), 22),
                  "the device of the memory needs 1 bytes");
}

TEST(RkeyCheckTest, DistancesAreInOrderAndEnd) {
    const auto check = [](std::string_view tail) {
        return checkPackedKey(key("\x01", 1, std::string_view("\0", 1)) + std::string(tail), 22);
    };
    EXPECT_TRUE(check("\xff").ok());
    EXPECT_TRUE(check(std::string_view("\x81\x00lb\x01lb\x07lb\xfelb\xff", 14)).ok()); // 0x80: to be flushed
    EXPECT_TRUE(check("\x01\xff").ok());
    expectRefused(check("\x01"), "the end of the list");
    expectRefused(check(std::string_view("\x01\x00lb", 4)), "the end of the list");
    expectRefused(check(std::string_view("\x01\x00lb\x00lb\xff", 8)),
                  "byte 14 of the remote key: the distance to device 0 behind that to device 0");
    expectRefused(check("\x01\x05lb\x04lb\xff"), "the distance to device 4 behind that to device 5");
    expectRefused(check("\x01\x05l"), "the distance to a device needs 2 bytes, 1 follow");
}

TEST(RkeyCheckTest, NoiseIsRefused) {
    EXPECT_EQ(test::refusedOfNoise(100000, [](std::string_view bytes) { return checkPackedKey(bytes, 22); }),
              100000);
}

TEST(PaddedTest, ZerosFollow) {
    const std::string bytes = padded("key");
    EXPECT_EQ(bytes.substr(0, 3), "key");
    EXPECT_GE(bytes.size(), 3u + 255u);
    EXPECT_EQ(bytes.find_first_not_of('\0', 3), std::string::npos);
}

} // namespace
} // namespace nixl::ucx
