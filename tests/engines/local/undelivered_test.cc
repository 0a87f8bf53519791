// Messages that were taken and do not arrive: each is told once, and none that the peer has taken in.
#include "local_fixture.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "engines/local/unconfirmed.h"

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

/// Of any size up to some socket buffers; the number stands first.
std::string
numbered(std::size_t i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    const std::size_t bytes = i % 50 == 49 ? random() % (2 * kMiB) : random() % 300;
    return concat(i, ":", std::string(bytes, static_cast<char>('a' + i % 26)));
}

/// Checks that exactly `numbered(from)` to `numbered(to - 1)` were told, in this order.
void
expectTold(Node &node, std::size_t from, std::size_t to, const std::string &why) {
    ASSERT_TRUE(eventually([&] { return node.undelivered().size() >= to - from; }));
    const auto told = node.undelivered();
    ASSERT_EQ(told.size(), to - from);
    for (std::size_t i = from; i < to; ++i) {
        ASSERT_TRUE(told[i - from].message == numbered(i)) << i;
        ASSERT_EQ(told[i - from].peer, "target");
        ASSERT_NE(told[i - from].why.find(why), std::string::npos) << told[i - from].why;
    }
}

class UndeliveredTest : public ::testing::Test {
protected:
    void
    begin(const Options &theirs = {}) {
        target_ = std::make_unique<TargetProcess>(4096, theirs);
        Options options;
        options.localConnectTimeout = 300ms;
        options.notifTimeout = 50ms;
        node_ = std::make_unique<Node>("initiator", 4096, options);
        remote_ = &node_->load("target", target_->card());
    }

    Status
    notify(const std::string &message) {
        return node_->engine().notify(remote_->peer.get(), message);
    }

    /// Sends until `to` are sent or one is refused; how many there were in all.
    std::size_t
    send(std::size_t from, std::size_t to) {
        while (from < to && notify(numbered(from)).ok())
            ++from;
        return from;
    }

    std::unique_ptr<TargetProcess> target_; // forked before there are threads
    std::unique_ptr<Node> node_;
    Node::Remote *remote_ = nullptr;
};

TEST_F(UndeliveredTest, WhatADeadPeerHadNotTakenIn) {
    begin();
    ASSERT_EQ(send(0, 100), 100U);
    target_->ask("n 100");
    target_->child().stop();
    const std::size_t sent = send(100, 100'000); // the socket and the queue are full
    EXPECT_GT(sent, 200U);
    target_->child().signal(SIGKILL);
    expectTold(*node_, 100, sent, "is gone: its process has ended; it had not taken the message in");
    EXPECT_EQ(notify("x").code(), NIXL_ERR_REMOTE_DISCONNECT);
    node_->forget(*remote_);
    EXPECT_EQ(node_->undelivered().size(), sent - 100); // not a second time, and none that was refused
}

TEST_F(UndeliveredTest, NothingIsToldOfAPeerThatGoesOn) {
    begin();
    ASSERT_TRUE(node_->pathTo(*remote_).ok());
    target_->child().stop();
    const std::size_t sent = send(0, 2000);
    target_->child().signal(SIGCONT);
    const std::string got = target_->ask(concat("n ", sent));
    std::string expected;
    for (std::size_t i = 0; i < sent; ++i)
        expected += concat("initiator\n", numbered(i).size(), "\n", numbered(i));
    EXPECT_TRUE(got == expected);
    target_->child().signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return !node_->pathTo(*remote_).ok(); }));
    node_->forget(*remote_);
    EXPECT_TRUE(node_->undelivered().empty());
}

/// A child that takes messages as fast as they come and counts them where the test sees it.
struct Taker {
    std::atomic<std::size_t> *const taken = static_cast<std::atomic<std::size_t> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ChildProcess child{[this](Line &line) {
        Node node("target", 4096);
        line.send(node.card());
        for (std::vector<Notification> got;; got.clear()) {
            (void)node.engine().takeNotifications(got);
            *taken += got.size();
        }
    }};

    ~Taker() {
        munmap(taken, 4096);
    }
};

TEST_F(UndeliveredTest, AKillAtAnyMoment) {
    std::minstd_rand random(7);
    for (int round = 0; round < 20; ++round) {
        Taker taker;
        Node node("initiator", 4096);
        Node::Remote &remote = node.load("target", taker.child.line().receive());
        const std::size_t end = 50 + random() % 3000;
        std::size_t sent = 0;
        for (bool killed = false; node.engine().notify(remote.peer.get(), numbered(sent)).ok(); ++sent)
            if (!killed && sent >= end) {
                taker.child.signal(SIGKILL);
                killed = true;
            }
        taker.child.wait();
        node.forget(remote); // whatever is to be told has been
        const std::size_t told = node.undelivered().size();
        ASSERT_GE(sent - told, taker.taken->load()) << "none of those that the program has";
        // The program takes what the engine has taken in with the next call, which the kill prevents.
        expectTold(node, sent - told, sent, "is gone");
    }
}

TEST_F(UndeliveredTest, WhatDidNotFitIntoTheInboxOfAPeerThatEnds) {
    Options options;
    options.notifQueueBytes = 1; // one message
    begin(options);
    ASSERT_EQ(send(0, 40), 40U);
    ASSERT_EQ(target_->ask("n 1"), concat("initiator\n", numbered(0).size(), "\n", numbered(0)));
    target_->child().line().send("q");
    // That there was room for the next message is seen by the control thread or by the end, whichever is
    // first.
    ASSERT_TRUE(eventually([&] { return node_->undelivered().size() >= 38; }));
    target_->child().wait();
    EXPECT_EQ(node_->undelivered().front().message, numbered(2));
    expectTold(*node_, 2, 40, "it had not taken the message in");
}

TEST_F(UndeliveredTest, WhatIsLeftWhenThisSideEndsTheConnection) {
    begin();
    ASSERT_TRUE(node_->pathTo(*remote_).ok());
    ASSERT_TRUE(notify("x").ok());
    target_->ask("n 1");
    target_->child().stop();
    const std::size_t sent = send(0, 100'000);
    node_->forget(*remote_);
    const std::size_t left = node_->undelivered().size();
    EXPECT_GT(left, 0U);
    EXPECT_LT(left, sent) << "the socket has some";
    expectTold(*node_, sent - left, sent, "was ended before the message was sent");
    target_->child().signal(SIGCONT);
    std::string expected;
    for (std::size_t i = 0; i < sent - left; ++i)
        expected += concat("initiator\n", numbered(i).size(), "\n", numbered(i));
    EXPECT_TRUE(target_->ask(concat("n ", sent - left)) == expected);
}

TEST_F(UndeliveredTest, MessagesOfTransfers) {
    begin();
    ASSERT_TRUE(node_->pathTo(*remote_).ok());
    ASSERT_TRUE(notify("x").ok());
    target_->ask("n 1");
    target_->child().stop();
    Move first(*node_, *remote_, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(first.run("first").code, NIXL_SUCCESS);
    while (notify(std::string(kMiB, 'x')).ok()) {
    }
    Move waiting(*node_, *remote_, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(waiting.post(std::string(kMiB, 'y')).code, NIXL_IN_PROG);
    target_->child().signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return waiting.check().code == NIXL_ERR_REMOTE_DISCONNECT; }));
    const auto told = node_->undelivered();
    ASSERT_GT(told.size(), 1U);
    EXPECT_EQ(told.front().message, "first");
    // The end of the transfer says of its message what there is to say.
    EXPECT_TRUE(std::none_of(told.begin(), told.end(),
                             [](const auto &entry) { return entry.message.front() == 'y'; }));
}

TEST_F(UndeliveredTest, APeerOfAnOlderReleaseCountsNothing) {
    begin();
    std::string card = target_->card();
    card.replace(card.size() - 4, 4, std::string(4, '\0')); // the revision
    remote_ = &node_->load("target", card);
    ASSERT_TRUE(notify("x").ok());
    target_->ask("n 1");
    target_->child().stop();
    const std::size_t sent = send(0, 100'000);
    target_->child().signal(SIGKILL);
    target_->child().wait();
    ASSERT_TRUE(eventually([&] { return !node_->undelivered().empty(); }));
    node_->forget(*remote_); // whatever is to be told has been
    const std::size_t left = node_->undelivered().size();
    EXPECT_LT(left, sent) << "of what the socket had, nobody knows";
    expectTold(*node_, sent - left, sent, "is gone");
}

TEST(UnconfirmedTest, TakesAnyNumberFromThePeer) {
    Unconfirmed messages;
    messages.confirm(UINT64_MAX); // before there is one
    for (const char *text : {"a", "b", "c", "d"})
        messages.add(text);
    messages.confirm(2);
    messages.confirm(1); // less than before
    messages.confirm(3);
    EXPECT_EQ(messages.takeAll(), std::deque<std::string>{"d"});
    EXPECT_TRUE(messages.takeAll().empty());
}

} // namespace

} // namespace nixl::local
