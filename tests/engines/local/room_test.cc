// Messages for an agent of the same process whose inbox is full.
#include "local_fixture.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>

namespace nixl::local {

namespace {

using Clock = std::chrono::steady_clock;

/// An inbox takes messages in as long as fewer bytes than this wait: one.
constexpr std::uint64_t kOneMessage = 1;

Options
patient(std::chrono::milliseconds patience) {
    Options options;
    options.notifQueueBytes = kOneMessage;
    options.notifTimeout = patience;
    return options;
}

std::vector<std::string>
take(Node &node) {
    std::vector<Notification> got;
    EXPECT_TRUE(node.engine().takeNotifications(got).ok());
    std::vector<std::string> texts;
    for (const Notification &notification : got)
        texts.push_back(notification.message);
    return texts;
}

using Texts = std::vector<std::string>;

class RoomTest : public ::testing::Test {
protected:
    explicit RoomTest(std::chrono::milliseconds patience = 20s)
        : target_("target", 4096, patient(patience), [this] { ++woken_; }),
          node_("initiator", 4096, patient(patience)), remote_(node_.load("target", target_.card())) {
        EXPECT_TRUE(notify("first").ok());
    }

    Status
    notify(const std::string &message) {
        return node_.engine().notify(remote_.peer.get(), message);
    }

    std::atomic<int> woken_{0};
    Node target_;
    Node node_;
    Node::Remote &remote_;
};

class ImpatientTest : public RoomTest {
protected:
    ImpatientTest() : RoomTest(100ms) {}
};

TEST_F(ImpatientTest, AMessageIsRefusedWhenNobodyMakesRoom) {
    const auto begin = Clock::now();
    const Status status = notify("second");
    EXPECT_GE(Clock::now() - begin, 100ms);
    EXPECT_LT(Clock::now() - begin, 10 * 100ms);
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_EQ(status.message(), "agent 'target' does not read its notifications: its queue is full");
    EXPECT_EQ(take(target_), Texts{"first"});
    EXPECT_EQ(take(target_), Texts{}) << "what was refused does not come";
    EXPECT_TRUE(notify("third").ok());
    EXPECT_EQ(take(target_), Texts{"third"});
}

TEST_F(ImpatientTest, AnAgentThatSendsToItself) {
    EXPECT_TRUE(node_.engine().notify(nullptr, "a").ok());
    const auto begin = Clock::now();
    EXPECT_EQ(node_.engine().notify(nullptr, "b").code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_LT(Clock::now() - begin, 10 * 100ms);
    EXPECT_EQ(take(node_), Texts{"a"});
}

TEST_F(ImpatientTest, AgentsThatSendToEachOtherDoNotBlockEachOther) {
    Node::Remote &back = target_.load("initiator", node_.card());
    std::atomic<std::size_t> taken{0};
    std::atomic<std::size_t> sent{0};
    const auto talk = [&](Node &self, Node::Remote &other) {
        for (int i = 0; i < 20; ++i) {
            const bool ok = self.engine().notify(other.peer.get(), "x").ok();
            sent += ok ? 1 : 0;
            if (!ok)
                taken += take(self).size();
        }
    };
    const auto begin = Clock::now();
    auto there = std::async(std::launch::async, [&] { talk(node_, remote_); });
    talk(target_, back);
    there.get();
    EXPECT_LT(Clock::now() - begin, 10 * 20 * 100ms);
    for (Node *node : {&node_, &target_})
        for (std::size_t count = 1; count > 0; taken += count)
            count = take(*node).size();
    EXPECT_EQ(taken, sent + 1) << "each once, and what was refused not at all";
}

TEST_F(RoomTest, AMessageWaitsForRoomAndItsReceiverIsWoken) {
    auto second = std::async(std::launch::async, [&] { return notify("second"); });
    EXPECT_EQ(second.wait_for(100ms), std::future_status::timeout);
    const int before = woken_;
    EXPECT_EQ(take(target_), Texts{"first"});
    EXPECT_TRUE(second.get().ok());
    EXPECT_GT(woken_, before);
    EXPECT_EQ(take(target_), Texts{"second"});
}

TEST_F(RoomTest, ATransferGoesOnUntilThereIsRoomForItsMessage) {
    Move move(node_, remote_, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(move.post("second").code, NIXL_IN_PROG);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(move.check().code, NIXL_IN_PROG);
    auto third = std::async(std::launch::async, [&] { return notify("third"); });
    EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout);
    EXPECT_EQ(take(target_), Texts{"first"});
    EXPECT_EQ(move.check().code, NIXL_SUCCESS);
    EXPECT_EQ(take(target_), Texts{"second"}) << "before what was sent later";
    EXPECT_TRUE(third.get().ok());
    EXPECT_EQ(take(target_), Texts{"third"});
    EXPECT_EQ(move.run("fourth").code, NIXL_SUCCESS);
    EXPECT_EQ(take(target_), Texts{"fourth"});
}

TEST_F(RoomTest, ATransferThatWaitsForRoomCanBeCanceled) {
    Move canceled(node_, remote_, NIXL_WRITE, {{0, 0, 8}});
    Move other(node_, remote_, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(canceled.post("canceled").code, NIXL_IN_PROG);
    EXPECT_EQ(other.post("other").code, NIXL_IN_PROG);
    EXPECT_TRUE(canceled.cancel(0ms));
    EXPECT_EQ(canceled.check().code, NIXL_ERR_CANCELED);
    EXPECT_EQ(take(target_), Texts{"first"});
    EXPECT_EQ(other.check().code, NIXL_SUCCESS);
    EXPECT_EQ(take(target_), Texts{"other"});
    EXPECT_TRUE(other.cancel(0ms));
    EXPECT_EQ(other.check().code, NIXL_SUCCESS);
    EXPECT_EQ(canceled.run("again").code, NIXL_SUCCESS);
    EXPECT_EQ(take(target_), Texts{"again"});
}

TEST(Room, TheEndOfTheReceiverEndsTheWait) {
    auto target = std::make_unique<Node>("target", 4096, patient(20s));
    Node node("initiator", 4096, patient(20s));
    Node::Remote &remote = node.load("target", target->card());
    ASSERT_TRUE(node.engine().notify(remote.peer.get(), "first").ok());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(move.post("second").code, NIXL_IN_PROG);
    auto third =
        std::async(std::launch::async, [&] { return node.engine().notify(remote.peer.get(), "third"); });
    EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout);
    target.reset();
    EXPECT_EQ(third.get().code(), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_EQ(move.check().code, NIXL_ERR_REMOTE_DISCONNECT);
}

TEST(Room, ThreadsOfManyAgentsWithOneReader) {
    constexpr int kSenders = 4;
    constexpr int kEach = 300;
    Node target("target", 4096, patient(20s));
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::future<void>> senders;
    for (int i = 0; i < kSenders; ++i) {
        nodes.push_back(std::make_unique<Node>(concat("sender ", i), 4096, patient(20s)));
        Node &node = *nodes.back();
        Node::Remote &remote = node.load("target", target.card());
        const std::size_t own = static_cast<std::size_t>(i) * 8;
        senders.push_back(std::async(std::launch::async, [&node, &remote, own] {
            Move move(node, remote, NIXL_WRITE, {{own, own, 8}});
            for (int n = 0; n < kEach; n += 2) {
                EXPECT_TRUE(node.engine().notify(remote.peer.get(), concat(n)).ok());
                EXPECT_EQ(move.run(concat(n + 1)).code, NIXL_SUCCESS);
            }
        }));
    }
    std::map<std::string, int> next;
    EXPECT_TRUE(eventually([&] {
        std::vector<Notification> got;
        (void)target.engine().takeNotifications(got);
        for (const Notification &notification : got)
            EXPECT_EQ(notification.message, concat(next[notification.agent]++));
        return next.size() == kSenders &&
               std::all_of(next.begin(), next.end(), [](const auto &entry) { return entry.second == kEach; });
    }));
    for (auto &sender : senders)
        sender.get();
}

} // namespace

} // namespace nixl::local
