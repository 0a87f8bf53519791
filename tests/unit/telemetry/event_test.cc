#include "telemetry/event.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace nixl {
namespace {

using Type = nixl_telemetry_event_type_t;
using std::chrono::microseconds;

TEST(EventTest, HasSixteenBytesWithoutGarbage) {
    // The object is made in memory full of other data, as an event on a used stack would be.
    alignas(nixlTelemetryEvent) unsigned char bytes[sizeof(nixlTelemetryEvent)];
    std::memset(bytes, 0xAA, sizeof bytes);
    new (bytes) nixlTelemetryEvent(Type::AGENT_XFER_TIME, 0x0102030405060708);
    const unsigned char expected[] = {6, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    EXPECT_EQ(0, std::memcmp(bytes, expected, sizeof expected));
}

TEST(EventTest, NamesFollowTheValues) {
    EXPECT_EQ("agent_tx_bytes", nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(0)));
    EXPECT_EQ("agent_xfer_post_time", nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(7)));
    EXPECT_EQ("agent_err_not_posted", nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(8)));
    EXPECT_EQ("agent_err_no_telemetry", nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(19)));
    EXPECT_EQ("agent_telemetry_events_dropped",
              nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(20)));
    EXPECT_EQ("BAD_EVENT", nixlEnumStrings::telemetryEventTypeStr(static_cast<Type>(21)));
}

TEST(EventTest, TransferGivesPostTimeTimeBytesAndRequests) {
    const TransferEvents write = transferEvents(NIXL_WRITE, 4096, microseconds(3), microseconds(50));
    const TransferEvents read = transferEvents(NIXL_READ, 7, microseconds(-1), microseconds(2));
    const auto expect = [](const nixlTelemetryEvent &event, std::uint32_t type, std::uint64_t value) {
        EXPECT_EQ(type, static_cast<std::uint32_t>(event.eventType_));
        EXPECT_EQ(value, event.value_);
    };
    expect(write[0], 7, 3);
    expect(write[1], 6, 50);
    expect(write[2], 0, 4096);
    expect(write[3], 2, 1);
    expect(read[0], 7, 0);
    expect(read[1], 6, 2);
    expect(read[2], 1, 7);
    expect(read[3], 3, 1);
}

TEST(EventTest, EveryStatusHasItsErrorEvent) {
    const std::vector<std::string> suffixes{
        "not_posted",    "invalid_param", "backend",       "not_found",         "mismatch", "not_allowed",
        "repost_active", "unknown",       "not_supported", "remote_disconnect", "canceled", "no_telemetry"};
    for (int i = 0; i < 12; ++i) {
        const auto event = errorEvent(static_cast<nixl_status_t>(-1 - i));
        ASSERT_TRUE(event.has_value()) << i;
        EXPECT_EQ("agent_err_" + suffixes[static_cast<std::size_t>(i)],
                  nixlEnumStrings::telemetryEventTypeStr(*event));
    }
    EXPECT_FALSE(errorEvent(NIXL_SUCCESS).has_value());
    EXPECT_FALSE(errorEvent(NIXL_IN_PROG).has_value());
    // A plugin may answer anything.
    EXPECT_EQ(Type::AGENT_ERR_UNKNOWN, errorEvent(static_cast<nixl_status_t>(-13)));
}

} // namespace
} // namespace nixl
