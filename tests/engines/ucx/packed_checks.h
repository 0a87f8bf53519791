// What both checks of packed bytes promise about a right sample.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "util/status.h"

namespace nixl::ucx::test {

inline void
expectRefused(const Status &status, const std::string &cause = "") {
    EXPECT_EQ(status.code(), NIXL_ERR_MISMATCH);
    EXPECT_NE(status.message().find(cause), std::string::npos) << status.message();
}

/// Nothing but exactly `bytes` is right: no part of it from the front, nothing with something behind it.
/// Damaged bytes get an answer. The bytes are given in memory of their own size, for a sanitizer to see.
template<typename Check>
void
expectExact(const std::string &bytes, Check check) {
    const auto asked = [&](std::string_view given) {
        const std::vector<char> tight(given.begin(), given.end());
        return check(std::string_view(tight.data(), tight.size()));
    };
    const Status whole = asked(bytes);
    EXPECT_TRUE(whole.ok()) << whole.message();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        SCOPED_TRACE(length);
        expectRefused(asked(std::string_view(bytes).substr(0, length)));
    }
    for (int next = 0; next < 256; ++next)
        expectRefused(asked(bytes + static_cast<char>(next)), "1 bytes follow its end");
    expectRefused(asked(bytes + bytes), "follow its end");
    for (std::size_t at = 0; at < bytes.size(); ++at)
        for (const int mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
            std::string damaged = bytes;
            damaged[at] = static_cast<char>(damaged[at] ^ mask);
            const Status status = asked(damaged);
            if (!status.ok())
                expectRefused(status, "byte ");
        }
}

/// Of `count` random inputs, how many are refused.
template<typename Check>
int
refusedOfNoise(int count, Check check) {
    std::mt19937 random(20260731);
    int refused = 0;
    for (int i = 0; i < count; ++i) {
        std::vector<char> noise(random() % 300);
        for (char &byte : noise)
            byte = static_cast<char>(random());
        refused += !check(std::string_view(noise.data(), noise.size())).ok();
    }
    return refused;
}

} // namespace nixl::ucx::test
