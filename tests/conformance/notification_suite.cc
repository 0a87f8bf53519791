// Messages between two agents, alone and with transfers.
#include <gmock/gmock.h>

#include "conformance/pair.h"

namespace nixl::conformance {

namespace {

std::vector<Notification>
takeFromPeer(Pair &pair, std::size_t count) {
    return takeNotifications(
        [&](std::vector<Notification> &out) {
            for (Notification &notification : pair.peer->takeNotifications())
                out.push_back(std::move(notification));
        },
        count);
}

} // namespace

TEST_P(PairSuite, MessagesOfAnyContentArriveInOrder) {
    Pair pair(GetParam());
    std::vector<std::string> messages{"first", "", std::string("with\0zero", 9), pattern(1 << 20, 1),
                                      "\xff\xfe"};
    for (int i = 0; i < 200; ++i)
        messages.push_back("number " + std::to_string(i));
    for (const std::string &message : messages) {
        const Status status = pair.side.engine().notify(pair.known.get(), message);
        ASSERT_TRUE(status.ok()) << status.message();
    }
    const std::vector<Notification> taken = takeFromPeer(pair, messages.size());
    ASSERT_EQ(taken.size(), messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i) {
        EXPECT_EQ(taken[i].agent, "initiator");
        EXPECT_TRUE(taken[i].message == messages[i]) << "message " << i;
    }
    EXPECT_TRUE(pair.peer->takeNotifications().empty());
}

TEST_P(PairSuite, MessagesGoBothWays) {
    Pair pair(GetParam());
    for (int i = 0; i < 20; ++i) {
        const std::string ping = "ping " + std::to_string(i);
        ASSERT_TRUE(pair.side.engine().notify(pair.known.get(), ping).ok());
        ASSERT_EQ(takeFromPeer(pair, 1).at(0).message, ping);
        const Status status = pair.peer->notify("pong");
        ASSERT_TRUE(status.ok()) << status.message();
        const std::vector<Notification> taken = takeNotifications(pair.side.engine(), 1);
        ASSERT_EQ(taken.size(), 1u);
        EXPECT_EQ(taken[0].agent, "target");
        EXPECT_EQ(taken[0].message, "pong");
    }
}

TEST_P(PairSuite, TheMessageOfATransferArrivesAfterItsData) {
    constexpr std::size_t kLength = std::size_t{4} << 20;
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(kLength, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(kLength);
    Reached reached(pair, far);
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), {{0, 0, kLength}});
    for (unsigned round = 0; round < 5; ++round) {
        const std::string bytes = pattern(kLength, round);
        near->memory().store(0, bytes);
        const std::string message = "done " + std::to_string(round);
        const Progress posted = transfer.post(message);
        ASSERT_GE(posted.code, NIXL_SUCCESS) << posted.message;
        if (!GetParam().engine.notifiesWithoutPolling) {
            EXPECT_EQ(transfer.finish().code, NIXL_SUCCESS);
        }
        const std::vector<Notification> taken = takeFromPeer(pair, 1);
        ASSERT_EQ(taken.size(), 1u) << "round " << round;
        EXPECT_EQ(taken[0].message, message);
        EXPECT_TRUE(pair.peer->load(far.id, 0, kLength) == bytes) << "round " << round;
        EXPECT_EQ(transfer.finish().code, NIXL_SUCCESS);
    }
}

TEST_P(PairSuite, ReadsNotifyTheOwnerOfTheData) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached reached(pair, far);
    pair.peer->store(far.id, 0, pattern(1000, 2));
    Transfer transfer(pair.side.engine(), NIXL_READ, *near, reached.target(), {{0, 0, 1000}});
    EXPECT_EQ(transfer.run("").code, NIXL_SUCCESS);
    EXPECT_EQ(near->memory().load(0, 1000), pattern(1000, 2));
    const std::vector<Notification> taken = takeFromPeer(pair, 1);
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].message, "");
}

// C04: the message belongs to the post, not to the request.
TEST_P(PairSuite, EveryPostCarriesItsOwnMessage) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached reached(pair, far);
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), {{0, 0, 1000}});
    EXPECT_EQ(transfer.run("a").code, NIXL_SUCCESS);
    EXPECT_EQ(transfer.run("b").code, NIXL_SUCCESS);
    EXPECT_EQ(transfer.run().code, NIXL_SUCCESS);
    ASSERT_TRUE(pair.side.engine().notify(pair.known.get(), "last").ok());
    std::vector<std::string> messages;
    for (const Notification &notification : takeFromPeer(pair, 3))
        messages.push_back(notification.message);
    EXPECT_THAT(messages, ::testing::ElementsAre("a", "b", "last"));
}

} // namespace nixl::conformance
