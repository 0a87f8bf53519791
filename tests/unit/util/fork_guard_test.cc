#include "util/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nixl {
namespace {

/// Exit status of a child that runs `body` and leaves with its result; -1 if it did not exit.
template<typename Body>
int
inChild(Body body) {
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(body());
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

TEST(ForkGuard, IsNotInheritedWhereItWasMade) {
    EXPECT_FALSE(ForkGuard().inherited());
}

TEST(ForkGuard, IsInheritedByAChildAndNotChangedInTheParent) {
    const ForkGuard guard;
    EXPECT_EQ(inChild([&] { return guard.inherited() ? 3 : 4; }), 3);
    EXPECT_FALSE(guard.inherited());
}

TEST(ForkGuard, OfAChildIsItsOwn) {
    EXPECT_EQ(inChild([] { return ForkGuard().inherited() ? 3 : 4; }), 4);
}

TEST(ForkGuard, OfAChildIsInheritedByItsChild) {
    const ForkGuard outer;
    const auto grandchild = [&] {
        const ForkGuard inner;
        return inChild([&] { return inner.inherited() && outer.inherited() ? 3 : 4; });
    };
    EXPECT_EQ(inChild(grandchild), 3);
}

TEST(ForkGuard, DepthCountsForks) {
    const std::uint64_t here = forkDepth();
    const auto depth = [&] { return static_cast<int>(forkDepth() - here); };
    EXPECT_EQ(depth(), 0);
    EXPECT_EQ(inChild(depth), 1);
    EXPECT_EQ(inChild([&] { return inChild(depth); }), 2);
}

} // namespace
} // namespace nixl
