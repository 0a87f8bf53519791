// An engine that is watched works by itself and tells of what happens, in every mode of progress.
#include <functional>

#include "conformance/pair.h"

namespace nixl::conformance {

namespace {

/// As a waiter does: between the questions, of which the first may be answered, the engine gets no call.
bool
waitFor(Side &side, const std::function<bool()> &look) {
    for (;;) {
        const unsigned seen = side.activity();
        if (look())
            return true;
        if (!side.engine().watch() || !eventually([&] { return side.activity() != seen; }))
            return false;
    }
}

void
watch(Pair &pair) {
    const PeerMemory far = pair.peer->allocate(std::size_t{4} << 20, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(std::size_t{4} << 20);
    Reached reached(pair, far);
    const auto ends = [&](Transfer &transfer, const std::optional<std::string> &message) {
        Progress progress = transfer.post(message);
        EXPECT_TRUE(waitFor(pair.side, [&] {
            return progress.code != NIXL_IN_PROG ||
                   (progress = transfer.request().check()).code != NIXL_IN_PROG;
        })) << "nothing is told of the end of a transfer";
        EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
    };
    for (const nixl_xfer_op_t operation : {NIXL_WRITE, NIXL_READ}) {
        Transfer large(pair.side.engine(), operation, *near, reached.target(),
                       {{0, 0, std::size_t{4} << 20}});
        Transfer small(pair.side.engine(), operation, *near, reached.target(), {{0, 0, 100}});
        for (Transfer *transfer : {&large, &small}) {
            ends(*transfer, std::nullopt);
            ends(*transfer, "done");
        }
    }
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(pair.peer->notify("hello").ok());
        std::vector<Notification> taken;
        EXPECT_TRUE(waitFor(pair.side, [&] {
            return !pair.side.engine().takeNotifications(taken).ok() || !taken.empty();
        })) << "nothing is told of a message";
        ASSERT_EQ(taken.size(), 1u);
        EXPECT_EQ(taken[0].message, "hello");
    }
}

} // namespace

TEST_P(PairSuite, AWatchedEngineTellsOfEndsAndMessages) {
    Pair pair(GetParam());
    watch(pair);
}

TEST_P(PairSuite, AWatchedEngineTellsOfEndsAndMessagesWithoutAProgressThread) {
    Pair pair(GetParam(), false);
    watch(pair);
}

TEST_P(PairSuite, AnEngineTellsOfWhatCameBeforeItWasWatched) {
    Pair pair(GetParam(), false);
    ASSERT_TRUE(pair.peer->notify("early").ok());
    ASSERT_TRUE(pair.side.engine().watch());
    EXPECT_TRUE(eventually([&] { return pair.side.activity() > 0; }));
    EXPECT_EQ(takeNotifications(pair.side.engine(), 1).at(0).message, "early");
}

} // namespace nixl::conformance
