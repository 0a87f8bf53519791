#include "util/dynamic_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "support/temp_dir.h"

namespace nixl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DynamicLibrary, FindsFunctions) {
    const Result<std::shared_ptr<DynamicLibrary>> library = DynamicLibrary::open(NIXL_TEST_LIBRARY);
    ASSERT_TRUE(library.ok()) << library.status().message();
    EXPECT_EQ(library.value()->path(), NIXL_TEST_LIBRARY);
    const auto twice = library.value()->function<int (*)(int)>("nixl_test_twice");
    ASSERT_NE(twice, nullptr);
    EXPECT_EQ(twice(21), 42);
    EXPECT_EQ(library.value()->symbol("nixl_test_no_such_symbol"), nullptr);
}

TEST(DynamicLibrary, KeepsItsSymbolsToItself) {
    ASSERT_TRUE(DynamicLibrary::open(NIXL_TEST_LIBRARY).ok());
    EXPECT_EQ(::dlsym(RTLD_DEFAULT, "nixl_test_twice"), nullptr);
}

TEST(DynamicLibrary, StaysLoadedWithoutItsObject) {
    int (*twice)(int) = nullptr;
    {
        const Result<std::shared_ptr<DynamicLibrary>> library = DynamicLibrary::open(NIXL_TEST_LIBRARY);
        ASSERT_TRUE(library.ok());
        twice = library.value()->function<int (*)(int)>("nixl_test_twice");
    }
    EXPECT_EQ(twice(3), 6);
}

TEST(DynamicLibrary, SaysWhyItCannotBeOpened) {
    const test::TempDir dir;
    const std::string absent = dir.file("absent.so");
    const Status missing = DynamicLibrary::open(absent).status();
    EXPECT_EQ(missing.code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(missing.message(), AllOf(HasSubstr(absent), HasSubstr("No such file")));
    const std::string text = dir.write("text.so", "hello");
    const Status garbage = DynamicLibrary::open(text).status();
    EXPECT_EQ(garbage.code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(garbage.message(), HasSubstr(text));
}

} // namespace
} // namespace nixl
