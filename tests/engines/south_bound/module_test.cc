// Libraries that are no plugins for us are refused with a reason, and nothing of them runs.
#include <gmock/gmock.h>

#include "engines/south_bound/entry.h"

namespace nixl {

namespace {

Result<std::shared_ptr<EngineFactory>>
open(const std::string &name) {
    const Result<std::shared_ptr<DynamicLibrary>> library =
        DynamicLibrary::open(std::string(NIXL_TEST_PLUGINS) + "/libplugin_" + name + ".so");
    EXPECT_TRUE(library.ok()) << library.status().message();
    return southBoundAdapter()(library.value());
}

using ::testing::AllOf;
using ::testing::HasSubstr;

} // namespace

TEST(SouthBoundModule, AForeignBinaryIsRefusedWithWhatToDo) {
    const auto factory = open("FOREIGN");
    ASSERT_FALSE(factory.ok());
    EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(factory.status().message(),
                AllOf(HasSubstr("libplugin_FOREIGN.so"), HasSubstr("not compiled against the headers"),
                      HasSubstr("compile its source")));
}

TEST(SouthBoundModule, AnotherLayoutIsRefused) {
    const auto factory = open("OTHER_ABI");
    ASSERT_FALSE(factory.ok());
    EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(factory.status().message(),
                AllOf(HasSubstr("ABI 999"), HasSubstr("compile its source again")));
}

TEST(SouthBoundModule, AnotherInterfaceVersionIsRefused) {
    const auto factory = open("OTHER_API");
    ASSERT_FALSE(factory.ok());
    EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(factory.status().message(), HasSubstr("API version 999"));
}

TEST(SouthBoundModule, APluginThatCannotWorkHereIsRefused) {
    const auto factory = open("UNWILLING");
    ASSERT_FALSE(factory.ok());
    EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(factory.status().message(), HasSubstr("cannot work here"));
}

TEST(SouthBoundModule, LibrariesOfAnotherKindAreLeftToOthers) {
    const auto factory = open("NO_PLUGIN");
    ASSERT_TRUE(factory.ok());
    EXPECT_EQ(factory.value(), nullptr);
}

} // namespace nixl
