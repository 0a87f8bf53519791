// Libraries call what they are told to, whichever way the linker has prepared the call.
#include "engines/ucx/call_slot.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace nixl::ucx {
namespace {

int
another() {
    return -7;
}

class CallSlotTest : public ::testing::TestWithParam<const char *> {};

TEST_P(CallSlotTest, TheCallGoesElsewhere) {
    void *library = ::dlopen(GetParam(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto call = reinterpret_cast<int (*)()>(::dlsym(library, "parentOfCaller"));
    ASSERT_NE(call, nullptr);
    const Status absent = redirectCalls(library, "getsid", reinterpret_cast<void *>(another));
    EXPECT_EQ(absent.code(), NIXL_ERR_NOT_FOUND);
    EXPECT_NE(absent.message().find("does not call getsid"), std::string::npos) << absent.message();
    ASSERT_TRUE(redirectCalls(library, "getppid", reinterpret_cast<void *>(another)).ok());
    EXPECT_EQ(call(), -7);
    EXPECT_EQ(::getppid(), ::getppid()) << "others call what they called";
    EXPECT_NE(::getppid(), -7);
    ASSERT_TRUE(redirectCalls(library, "getppid", ::dlsym(RTLD_DEFAULT, "getppid")).ok());
    EXPECT_EQ(call(), ::getppid());
    ::dlclose(library);
}

INSTANTIATE_TEST_SUITE_P(Linked, CallSlotTest,
                         ::testing::Values(NIXL_TEST_CALLER_LAZY, NIXL_TEST_CALLER_NOW,
                                           NIXL_TEST_CALLER_DIRECT),
                         [](const auto &way) { return std::string("Way") + std::to_string(way.index); });

} // namespace
} // namespace nixl::ucx
