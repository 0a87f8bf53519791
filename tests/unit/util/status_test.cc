#include "util/status.h"

#include <gmock/gmock.h>

#include <memory>

namespace nixl {
namespace {

Status
leaveEarly(const Status &inner, bool &reachedEnd) {
    NIXL_RETURN_IF_ERROR(inner);
    reachedEnd = true;
    return {};
}

Result<int>
leaveEarlyWithResult(const Status &inner) {
    NIXL_RETURN_IF_ERROR(inner);
    return 7;
}

TEST(Status, IsSuccessByDefault) {
    const Status status;
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(status.code(), NIXL_SUCCESS);
    EXPECT_EQ(status.message(), "");
}

TEST(Status, ErrorStreamsItsParts) {
    const Status status = Status::error(NIXL_ERR_NOT_FOUND, "agent '", "a", "' at ", Hex{0x1f});
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(status.message(), "agent 'a' at 0x1f");
}

TEST(Status, ContextGoesInFrontOfErrorsOnly) {
    const Status status = Status(NIXL_ERR_BACKEND, "no device").withContext("UCX");
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(status.message(), "UCX: no device");
    EXPECT_TRUE(Status().withContext("UCX").ok());
    EXPECT_EQ(Status().withContext("UCX").message(), "");
}

TEST(Status, MacroLeavesOnErrorOnly) {
    bool reachedEnd = false;
    EXPECT_EQ(leaveEarly(Status(NIXL_ERR_MISMATCH, "lengths"), reachedEnd).message(), "lengths");
    EXPECT_FALSE(reachedEnd);
    EXPECT_TRUE(leaveEarly(Status(), reachedEnd).ok());
    EXPECT_TRUE(reachedEnd);
}

TEST(Status, MacroWorksWhereAResultIsReturned) {
    EXPECT_EQ(leaveEarlyWithResult(Status(NIXL_ERR_MISMATCH, "x")).status().code(), NIXL_ERR_MISMATCH);
    EXPECT_EQ(leaveEarlyWithResult(Status()).value(), 7);
}

TEST(Result, HoldsAValue) {
    Result<std::string> result = std::string("text");
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result.status().ok());
    EXPECT_EQ(result.value(), "text");
    result.value() += "!";
    EXPECT_EQ(std::move(result).value(), "text!");
}

TEST(Result, HoldsAnError) {
    const Result<std::string> result = Status(NIXL_ERR_NOT_ALLOWED, "forked");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_EQ(result.status().message(), "forked");
}

TEST(Result, CarriesValuesThatOnlyMove) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
    ASSERT_TRUE(result.ok());
    const std::unique_ptr<int> taken = std::move(result).value();
    EXPECT_EQ(*taken, 5);
}

} // namespace
} // namespace nixl
