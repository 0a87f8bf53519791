// What a target hears of transfers that failed and would have brought a message.
#include "local_fixture.h"

#include <algorithm>

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::vector<FailedNotification>
failures(Node &node) {
    std::vector<FailedNotification> got;
    node.engine().takeFailures(got);
    return got;
}

TEST(FailedTransfers, WithinOneProcess) {
    int woken = 0;
    Node target("target", 4096, {}, [&] { ++woken; });
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(move.run("done").code, NIXL_SUCCESS);
    ASSERT_TRUE(target.leave().ok());
    ASSERT_EQ(move.run().code, NIXL_ERR_NOT_FOUND); // promised nothing
    EXPECT_TRUE(failures(target).empty());
    woken = 0;
    const Progress progress = move.run("never");
    ASSERT_EQ(progress.code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(woken, 1);
    const auto got = failures(target);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].agent, "initiator");
    EXPECT_EQ(got[0].message, "never");
    EXPECT_EQ(got[0].why, progress.message);
    EXPECT_TRUE(failures(target).empty());
    std::vector<Notification> messages;
    (void)target.engine().takeNotifications(messages);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_EQ(messages[0].message, "done");
}

TEST(FailedTransfers, ACancelWhileTheInboxIsFull) {
    Options options;
    options.notifQueueBytes = 1;
    Node target("target", 4096, options);
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.engine().notify(remote.peer.get(), "first").ok());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(move.post("second").code, NIXL_IN_PROG);
    ASSERT_TRUE(move.cancel(0ms));
    const auto got = failures(target);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].message, "second");
    EXPECT_EQ(got[0].why, "canceled");
}

TEST(FailedTransfers, BetweenProcesses) {
    TargetProcess target(4 * kMiB);
    Node node("initiator", 4 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    Move small(node, remote, NIXL_WRITE, {{0, 0, 8}});
    Move large(node, remote, NIXL_WRITE, {{0, 0, 4 * kMiB}});
    ASSERT_EQ(small.run("done").code, NIXL_SUCCESS);
    ASSERT_EQ(target.ask("n 1"), "initiator\n4\ndone");
    ASSERT_EQ(target.ask("d").substr(0, 2), "0 ");
    const Progress first = small.run("small");
    const Progress second = large.run("large");
    ASSERT_EQ(first.code, NIXL_ERR_NOT_FOUND);
    ASSERT_EQ(second.code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(target.ask("e 2"),
              concat("initiator|small|", first.message, "\ninitiator|large|", second.message, "\n"));
    ASSERT_TRUE(node.engine().notify(remote.peer.get(), "after").ok());
    EXPECT_EQ(target.ask("n 1"), "initiator\n5\nafter");
}

TEST(FailedTransfers, OfAMessageAsLongAsTheTargetAccepts) {
    Options options;
    options.notifMaxBytes = 1000;
    TargetProcess target(4096, options);
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(target.ask("d").substr(0, 2), "0 ");
    const std::string message(1000, 'x');
    const Progress progress = move.run(message);
    ASSERT_EQ(progress.code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(target.ask("e 1"), concat("initiator|", message, "|", progress.message, "\n"));
}

TEST(FailedTransfers, ACancelInTheMiddleTellsOrDelivers) {
    TargetProcess target(64 * kMiB);
    Node node("initiator", 64 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 64 * kMiB}});
    int canceled = 0;
    std::string expected;
    for (int i = 0; i < 20; ++i) {
        (void)move.post(concat("run ", i));
        ASSERT_TRUE(move.cancel(20s));
        const Progress progress = move.check();
        if (progress.code == NIXL_ERR_CANCELED) {
            EXPECT_EQ(target.ask("e 1"), concat("initiator|run ", i, "|canceled\n"));
            ++canceled;
        } else {
            ASSERT_EQ(progress.code, NIXL_SUCCESS);
            EXPECT_EQ(target.ask("n 1"), concat("initiator\n", concat("run ", i).size(), "\nrun ", i));
        }
    }
    EXPECT_GT(canceled, 0);
}

TEST(FailedTransfers, ACancelWhileTheSocketIsFull) {
    Options options;
    options.notifTimeout = 50ms;
    TargetProcess target(4096);
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.pathTo(remote).ok());
    target.child().stop();
    const std::string filler(kMiB, 'x');
    int fillers = 0;
    while (node.engine().notify(remote.peer.get(), filler).ok())
        ++fillers;
    Move dropped(node, remote, NIXL_WRITE, {{0, 0, 8}});
    for (int i = 0; i < 100; ++i) { // each leaves nothing in the queue, which has no room
        ASSERT_EQ(dropped.post(std::string(kMiB, 'd')).code, NIXL_IN_PROG);
        ASSERT_TRUE(dropped.cancel(0ms));
        ASSERT_EQ(dropped.check().code, NIXL_ERR_CANCELED);
    }
    Move kept(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(kept.post(std::string(kMiB, 'k')).code, NIXL_IN_PROG);
    target.child().signal(SIGCONT);
    ASSERT_TRUE(eventually([&] { return kept.check().code == NIXL_SUCCESS; }));
    const std::string got = target.ask(concat("n ", fillers + 1));
    EXPECT_EQ(got.find('d'), std::string::npos);
    EXPECT_EQ(target.ask("e 0"), "");
    EXPECT_EQ(static_cast<std::size_t>(std::count(got.begin(), got.end(), 'k')), kMiB);
}

TEST(FailedTransfers, ATargetOfAnOlderReleaseIsNotTold) {
    TargetProcess target(4096);
    Node node("initiator", 4096);
    std::string card = target.card();
    card.replace(card.size() - 4, 4, std::string(4, '\0')); // the revision
    Node::Remote &remote = node.load("target", card);
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(target.ask("d").substr(0, 2), "0 ");
    ASSERT_EQ(move.run("never").code, NIXL_ERR_NOT_FOUND);
    ASSERT_TRUE(node.engine().notify(remote.peer.get(), "after").ok());
    EXPECT_EQ(target.ask("n 1"), "initiator\n5\nafter");
    EXPECT_EQ(target.ask("e 0"), "");
}

} // namespace

} // namespace nixl::local
