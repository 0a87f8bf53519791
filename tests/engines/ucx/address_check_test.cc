// Worker addresses of UCX are told from everything else before UCX reads them.
#include "engines/ucx/address_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "packed_checks.h"
#include "packed_samples.h"

namespace nixl::ucx {
namespace {

using test::expectRefused;

/// Addresses of the first version as a machine with RDMA devices has them.
class AddressOf {
public:
    AddressOf()
        : bytes_("\x20"
                 "uuid-of-8",
                 9) {}

    AddressOf &
    raw(std::string_view bytes) {
        bytes_ += bytes;
        return *this;
    }

    AddressOf &
    device(int domain, int shape, std::string_view before, std::size_t length) {
        bytes_ += {static_cast<char>(domain), static_cast<char>(shape | static_cast<int>(length))};
        bytes_ += before;
        bytes_.append(length, 'd');
        return *this;
    }

    AddressOf &
    interface(int shape, std::size_t length, float bandwidth = 1e10F) {
        bytes_ += "xy";
        for (const float number : {1e-7F, bandwidth, 6e-7F})
            bytes_.append(reinterpret_cast<const char *>(&number), sizeof number);
        bytes_ += {'\x32', '\x7f', '\x3f', '\x40', static_cast<char>(shape | static_cast<int>(length))};
        bytes_.append(length, 'i');
        return *this;
    }

    Status
    check() const {
        return checkWorkerAddress(bytes_);
    }

    const std::string &
    bytes() const {
        return bytes_;
    }

private:
    std::string bytes_;
};

constexpr int kLast = 0x80;
constexpr int kPaths = 0x40;
constexpr int kSystemDevice = 0x20;
const std::string_view kRelease22("\x86\x80", 2);

TEST(AddressCheckTest, WhatUcxPacksIsRightAndNothingElse) {
    for (const auto &sample : test::addressSamples) {
        SCOPED_TRACE(sample.name);
        test::expectExact(sample.bytes(), checkWorkerAddress);
    }
}

TEST(AddressCheckTest, TellsWhoPackedIt) {
    for (const auto &sample : test::addressSamples)
        for (const unsigned own : {19u, 22u, 25u}) {
            const auto packer = workerAddressPacker(sample.bytes(), own);
            ASSERT_TRUE(packer.ok()) << packer.status().message();
            // The second version tells it even if there is nothing else to tell.
            const unsigned expected = sample.packer == 0 && sample.bytes()[0] == 0x61 ? 22 : sample.packer;
            EXPECT_EQ(packer.value(), expected) << sample.name << " read by 1." << own;
        }
    EXPECT_EQ(workerAddressPacker("\x61", 22).status().code(), NIXL_ERR_MISMATCH);
}

TEST(AddressCheckTest, TheNearestVersionWithTheseBitsIsMeant) {
    const auto read = [](unsigned minor, unsigned own) {
        std::string empty("\x01\x00\xff", 3);
        empty[0] = static_cast<char>(1 | (minor % 16) << 4);
        return workerAddressPacker(empty, own).value();
    };
    for (unsigned own = 16; own < 48; ++own)
        for (int apart = -7; apart <= 7; ++apart) {
            const unsigned minor = own + static_cast<unsigned>(apart);
            EXPECT_EQ(read(minor, own), minor) << "read by 1." << own;
        }
    EXPECT_EQ(read(14, 22), 14u);
    EXPECT_EQ(read(4, 28), 36u); // eight apart both ways: as UCX decides
    EXPECT_EQ(read(12, 3), 12u);
}

TEST(AddressCheckTest, AnRdmaMachineIsRight) {
    const AddressOf address =
        AddressOf()
            .device(0, 0, "", 0)
            .interface(kLast, 8)
            .device(0x60 | 4, kPaths | kSystemDevice, "\x02\x03", 18) // RoCE: two paths, device 3
            .interface(0, 4)
            .interface(0, 10)
            .interface(kLast, 16)
            .device(31, kSystemDevice, std::string_view("\0", 1), 31)
            .interface(kLast, 63)
            .raw(kRelease22);
    test::expectExact(address.bytes(), checkWorkerAddress);
    EXPECT_EQ(workerAddressPacker(address.bytes(), 22).value(), 22u);
}

TEST(AddressCheckTest, WithoutTheMarkOfItsReleaseItIsFromBefore116) {
    const AddressOf address = AddressOf().device(3, kLast, "", 6).interface(kLast, 2);
    test::expectExact(address.bytes(), checkWorkerAddress);
    EXPECT_EQ(workerAddressPacker(address.bytes(), 22).value(), 0u);
}

TEST(AddressCheckTest, EmptyDevicesMayCarryWhatIsNotKnownYet) {
    const AddressOf address =
        AddressOf().device(3, 0, "", 6).interface(kLast, 2).device(0x80 | 0x1f, 0, "", 5).raw(kRelease22);
    test::expectExact(address.bytes(), checkWorkerAddress);
}

TEST(AddressCheckTest, ClientIdAndName) {
    std::string second("\x61\x07"
                       "uuid-of8"
                       "clientid"
                       "\x03"
                       "abc"
                       "\xff",
                       23);
    test::expectExact(second, checkWorkerAddress);
    second[1] = '\xf7'; // flags that are not known yet
    test::expectExact(second, checkWorkerAddress);
    second[1] = '\x03';
    expectRefused(checkWorkerAddress(second));
    test::expectExact(std::string("\x61\x00\xff", 3), checkWorkerAddress);
}

TEST(AddressCheckTest, UnknownVersionsAreRefused) {
    for (int first = 0; first < 256; ++first) {
        if ((first & 0xf) < 2)
            continue;
        std::string bytes = test::addressSamples[0].bytes();
        bytes[0] = static_cast<char>(first);
        expectRefused(checkWorkerAddress(bytes), "known are 1 and 2");
    }
}

TEST(AddressCheckTest, NamesPositionAndCause) {
    expectRefused(checkWorkerAddress(""), "byte 0 of the worker address: the header needs 1 bytes, 0 follow");
    expectRefused(checkWorkerAddress("\x20"
                                     "abc"),
                  "byte 1 of the worker address: the worker's id needs 8 bytes, 3 follow");
    expectRefused(AddressOf().device(1, kLast, "", 20).raw("xy").check(),
                  "the overhead needs 4 bytes, 0 follow");
    expectRefused(AddressOf().raw("\x01\x9f").raw("short").check(),
                  "byte 11 of the worker address: a device address needs 31 bytes, 5 follow");
    expectRefused(
        AddressOf().device(1, kLast | kPaths, std::string_view("\0", 1), 0).interface(kLast, 2).check(),
        "byte 11 of the worker address: a device with 0 paths");
    expectRefused(AddressOf().device(1, kLast, "", 0).interface(kLast | 0x40, 2).check(),
                  "an endpoint's address, which is in no address of a worker");
    expectRefused(AddressOf()
                      .device(1, kLast, "", 0)
                      .interface(kLast, 2, std::numeric_limits<float>::quiet_NaN())
                      .check(),
                  "byte 17 of the worker address: the bandwidth of an interface is not a number");
    // The last interface is missing.
    expectRefused(AddressOf().device(1, kLast, "", 0).interface(0, 2).check(), "the name of a transport");
}

TEST(AddressCheckTest, TransportsHaveTheAddressesThatTheyFollow) {
    const auto check = [](std::string_view name, std::size_t device, std::size_t interface) {
        std::string bytes = AddressOf().device(1, kLast, "", device).interface(kLast, interface).bytes();
        bytes.replace(11 + device, 2, name);
        return checkWorkerAddress(bytes);
    };
    for (const std::string_view name : {"\xcf\x19", "\xa7\xd3", "\x47\x8b"}) { // tcp, posix, cma
        EXPECT_TRUE(check(name, 6, 2).ok());
        expectRefused(check(name, 0, 2), "lacks an address");
        expectRefused(check(name, 6, 0), "lacks an address");
    }
    EXPECT_TRUE(check("\x63\x75", 0, 8).ok()); // self
    expectRefused(check("\x63\x75", 0, 0),
                  "byte 11 of the worker address: transport 0x7563 lacks an address");
    EXPECT_TRUE(check("xy", 0, 0).ok()); // not known
}

TEST(AddressCheckTest, SecondBytesOfNumbers) {
    const auto check = [](std::string_view device) {
        return checkWorkerAddress(std::string("\x61\x00", 2).append(device).append("xy12345678\x82ii"));
    };
    EXPECT_TRUE(check(std::string_view("\x3f\x80", 2)).ok());
    expectRefused(check(std::string_view("\x40\x80", 2)), "memory domain 64 of at most 64");
    expectRefused(check(std::string_view("\x7f\xc8\x80", 3)), "memory domain 200 of at most 64");
    expectRefused(check(std::string_view("\x7f\x02\x80", 3)), "has a second byte that it does not need");
    expectRefused(check(std::string_view("\x01\x9f\x1e"
                                         "012345678901234567890123456789",
                                         33)),
                  "the length of a device address 30 has a second byte");
    EXPECT_TRUE(check(std::string_view("\x01\x9f\x1f"
                                       "0123456789012345678901234567890",
                                       34))
                    .ok());
}

TEST(AddressCheckTest, UnifiedModeIsRefused) {
    expectRefused(checkWorkerAddress(test::unifiedSample.bytes()));
}

TEST(AddressCheckTest, NoiseIsRefused) {
    // By chance bytes are an address of a worker without devices: nine or ten of them and an end mark.
    EXPECT_GE(test::refusedOfNoise(100000, checkWorkerAddress), 99950);
}

} // namespace
} // namespace nixl::ucx
