#include "util/scoped_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <type_traits>

namespace nixl {
namespace {

bool
isOpen(int fd) {
    return ::fcntl(fd, F_GETFD) != -1;
}

int
openNull() {
    return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static_assert(!std::is_copy_constructible_v<ScopedFd> && !std::is_copy_assignable_v<ScopedFd>);

TEST(ScopedFd, ClosesAtTheEndOfItsScope) {
    int number = -1;
    {
        const ScopedFd fd(openNull());
        number = fd.get();
        ASSERT_TRUE(fd.valid());
        EXPECT_TRUE(isOpen(number));
    }
    EXPECT_FALSE(isOpen(number));
}

TEST(ScopedFd, IsInvalidByDefault) {
    const ScopedFd fd;
    EXPECT_FALSE(fd.valid());
    EXPECT_EQ(fd.get(), -1);
}

TEST(ScopedFd, OwnsDescriptorZero) {
    EXPECT_TRUE(ScopedFd(::dup(0)).valid());
    ScopedFd zero(0);
    EXPECT_TRUE(zero.valid());
    EXPECT_EQ(zero.release(), 0);
}

TEST(ScopedFd, MovingHandsOver) {
    ScopedFd from(openNull());
    const int number = from.get();
    ScopedFd to(std::move(from));
    EXPECT_FALSE(from.valid());
    EXPECT_EQ(to.get(), number);
    EXPECT_TRUE(isOpen(number));
}

TEST(ScopedFd, AssigningClosesTheFormer) {
    ScopedFd fd(openNull());
    const int former = fd.get();
    ScopedFd other(openNull());
    const int number = other.get();
    fd = std::move(other);
    EXPECT_FALSE(isOpen(former));
    EXPECT_EQ(fd.get(), number);
    EXPECT_TRUE(isOpen(number));
}

TEST(ScopedFd, AssigningToItselfKeepsIt) {
    ScopedFd fd(openNull());
    ScopedFd &same = fd;
    fd = std::move(same);
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(isOpen(fd.get()));
}

TEST(ScopedFd, ReleaseGivesUpOwnership) {
    int number = -1;
    {
        ScopedFd fd(openNull());
        number = fd.release();
        EXPECT_FALSE(fd.valid());
    }
    EXPECT_TRUE(isOpen(number));
    ::close(number);
}

TEST(ScopedFd, ResetClosesOnce) {
    ScopedFd fd(openNull());
    const int number = fd.get();
    fd.reset();
    EXPECT_FALSE(isOpen(number));
    // The number may be somebody else's by now.
    const ScopedFd next(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, number));
    fd.reset();
    EXPECT_TRUE(isOpen(next.get()));
}

} // namespace
} // namespace nixl
