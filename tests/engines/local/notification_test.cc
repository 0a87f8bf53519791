// Messages between agents.
#include "local_fixture.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "util/log.h"

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::string
patterned(std::size_t bytes) {
    std::string text(bytes, '\0');
    fillPattern(text.data(), bytes, 9); // NULs included
    return text;
}

/// As a target answers to "n".
std::string
answerOf(const std::string &agent, const std::string &message) {
    return concat(agent, "\n", message.size(), "\n") + message;
}

/// A child that sends `count` numbered messages to the card that it gets, and then waits.
void
sendNumbered(Line &line, std::size_t count, const std::function<std::string(std::size_t)> &text) {
    const std::string card = line.receive();
    Node node("sender", 4096);
    Node::Remote &remote = node.load("target", card);
    for (std::size_t i = 0; i < count; ++i) {
        const Status status = node.engine().notify(remote.peer.get(), text(i));
        if (!status.ok()) {
            line.send(status.message());
            return;
        }
    }
    line.send("sent");
    line.receive();
}

TEST(Notifications, AllSizesBetweenProcesses) {
    TargetProcess target(4096);
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("target", target.card());
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{4096}, kMiB, 64 * kMiB}) {
        const std::string message = patterned(bytes);
        const Status status = node.engine().notify(remote.peer.get(), message);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(target.ask("n 1") == answerOf("initiator", message)) << bytes;
    }
}

TEST(Notifications, WithTransfersOfAllSizes) {
    TargetProcess target(4 * kMiB);
    Node node("initiator", 4 * kMiB);
    Node::Remote &remote = node.load("target", target.card());
    Move small(node, remote, NIXL_WRITE, {{0, 0, 8}});
    Move large(node, remote, NIXL_WRITE, {{0, 0, 4 * kMiB}});
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kMiB, 64 * kMiB})
        for (Move *move : {&small, &large}) {
            const std::string message = patterned(bytes);
            const Progress progress = move->run(message);
            ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            EXPECT_TRUE(target.ask("n 1") == answerOf("initiator", message)) << bytes;
        }
    ASSERT_EQ(small.run().code, NIXL_SUCCESS); // without a message
    ASSERT_EQ(small.run("last").code, NIXL_SUCCESS);
    EXPECT_EQ(target.ask("n 1"), answerOf("initiator", "last"));
}

TEST(Notifications, DataIsThereBeforeTheMessage) {
    TargetProcess target(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    for (std::uint32_t round = 0; round < 100; ++round) {
        fillPattern(node.memory(), kMiB, round);
        ASSERT_NE(move.run("written").code, NIXL_IN_PROG);
        target.ask("n 1");
        ASSERT_TRUE(target.ask(concat("m 0 ", kMiB)) == std::string(node.memory(), kMiB)) << round;
    }
}

TEST(Notifications, OrderIsKept) {
    constexpr std::size_t kCount = 20'000;
    const auto text = [](std::size_t i) { return concat("message ", i, std::string(i % 700, 'x')); };
    ChildProcess sender([&](Line &line) { sendNumbered(line, kCount, text); });
    Node target("target", 4096);
    sender.line().send(target.card());
    std::vector<Notification> got;
    ASSERT_TRUE(eventually([&] {
        (void)target.engine().takeNotifications(got);
        return got.size() >= kCount;
    }));
    ASSERT_EQ(got.size(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(got[i].message, text(i));
        ASSERT_EQ(got[i].agent, "sender");
    }
}

TEST(Notifications, WithinOneProcess) {
    Node target("target", 4096);
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.engine().notify(remote.peer.get(), std::string("a\0b", 3)).ok());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(move.run("").code, NIXL_SUCCESS);
    ASSERT_TRUE(node.engine().notify(nullptr, "to myself").ok());
    std::vector<Notification> got;
    ASSERT_TRUE(target.engine().takeNotifications(got).ok());
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got[0].message, std::string("a\0b", 3));
    EXPECT_EQ(got[1].message, "");
    ASSERT_TRUE(node.engine().takeNotifications(got).ok());
    ASSERT_EQ(got.size(), 3U); // appended
    EXPECT_EQ(got[2].agent, "initiator");
}

TEST(Notifications, AFullQueueWithinOneProcess) {
    Options options;
    options.notifMaxBytes = 1000; // the queue takes 64 MiB all the same
    Node target("target", 4096, options);
    options = {};
    options.notifTimeout = 50ms;
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    const std::string quarter(16 * kMiB, 'x');
    Status status;
    int sent = 0;
    for (; sent < 5; ++sent) {
        status = node.engine().notify(remote.peer.get(), quarter);
        if (!status.ok())
            break;
    }
    EXPECT_EQ(sent, 4);
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_EQ(status.message(), "agent 'target' does not read its notifications: its queue is full");
    std::vector<Notification> got;
    ASSERT_TRUE(target.engine().takeNotifications(got).ok());
    EXPECT_EQ(got.size(), 4U);
    EXPECT_TRUE(node.engine().notify(remote.peer.get(), "there is room again").ok());
}

TEST(Notifications, ASleepingReceiverIsWoken) {
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
    ChildProcess sender([](Line &line) { sendNumbered(line, 1, [](std::size_t) { return "wake up"; }); });
    Node target("target", 4096, {}, [&] {
        const std::lock_guard lock(mutex);
        woken = true;
        changed.notify_all();
    });
    sender.line().send(target.card());
    {
        std::unique_lock lock(mutex);
        ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return woken; }));
    }
    std::vector<Notification> got;
    ASSERT_TRUE(target.engine().takeNotifications(got).ok());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].message, "wake up");
}

TEST(Notifications, TheEndOfATransferWakes) {
    std::mutex mutex;
    std::condition_variable changed;
    int woken = 0;
    TargetProcess target(64 * kMiB);
    Node node("initiator", 64 * kMiB, {}, [&] {
        const std::lock_guard lock(mutex);
        ++woken;
        changed.notify_all();
    });
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 64 * kMiB}});
    ASSERT_EQ(move.post("done").code, NIXL_IN_PROG);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return woken > 0; }));
    EXPECT_EQ(move.check().code, NIXL_SUCCESS);
}

TEST(Notifications, AnEndWithinThePostWakesNobody) {
    std::atomic<int> woken{0};
    TargetProcess target(kMiB);
    Node node("initiator", kMiB, {}, [&] { ++woken; });
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(move.post().code, NIXL_SUCCESS);
        ASSERT_EQ(move.post("done").code, NIXL_SUCCESS);
    }
    EXPECT_EQ(woken, 0);
}

TEST(Notifications, TooLongNamesBothNumbers) {
    Options options;
    options.notifMaxBytes = 1000;
    Node target("target", 4096);
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    EXPECT_TRUE(node.engine().notify(remote.peer.get(), std::string(1000, 'x')).ok());
    const Status status = node.engine().notify(remote.peer.get(), std::string(1001, 'x'));
    EXPECT_EQ(status.code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(status.message(), "a notification of 1001 bytes; at most 1000 are sent");
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(move.run(std::string(1001, 'x')).message, status.message());
    EXPECT_EQ(move.run(std::string(1000, 'x')).code, NIXL_SUCCESS);
}

TEST(Notifications, AboveTheLimitOfTheReceiver) {
    Options options;
    options.notifMaxBytes = 1000;
    TargetProcess target(4096, options);
    Node node("initiator", 4096);
    Node::Remote &remote = node.load("target", target.card());
    EXPECT_TRUE(node.engine().notify(remote.peer.get(), std::string(1001, 'x')).ok());
    EXPECT_TRUE(eventually([&] {
        return node.engine().notify(remote.peer.get(), "y").message() ==
               concat("agent 'target' (process ", target.child().pid(), ") has closed the connection");
    }));
}

TEST(Notifications, AReceiverThatDoesNotReadIsBounded) {
    Options options;
    options.notifTimeout = 100ms;
    TargetProcess target(4096);
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.pathTo(remote).ok());
    target.child().stop();
    const std::string message(4 * kMiB, 'x');
    Status status;
    std::size_t sent = 0;
    for (; sent < 100; ++sent) {
        status = node.engine().notify(remote.peer.get(), message);
        if (!status.ok())
            break;
    }
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_ALLOWED);
    EXPECT_NE(status.message().find("does not read its notifications"), std::string::npos)
        << status.message();
    EXPECT_LT(sent, 20U);
    // A transfer is not done before its message is on its way.
    Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
    EXPECT_EQ(move.post(message).code, NIXL_IN_PROG);
    target.child().signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return move.check().code == NIXL_SUCCESS; }));
    std::string all;
    for (std::size_t i = 0; i <= sent; ++i)
        all += answerOf("initiator", message);
    EXPECT_TRUE(target.ask(concat("n ", sent + 1)) == all);
}

TEST(Notifications, ATransferWhoseMessageWaitsCanBeCanceled) {
    Options options;
    options.notifTimeout = 50ms;
    TargetProcess target(4096);
    Node node("initiator", 4096, options);
    Node::Remote &remote = node.load("target", target.card());
    ASSERT_TRUE(node.pathTo(remote).ok());
    target.child().stop();
    while (node.engine().notify(remote.peer.get(), std::string(4 * kMiB, 'x')).ok()) {
    }
    Move canceled(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(canceled.post(std::string(4 * kMiB, 'y')).code, NIXL_IN_PROG);
    EXPECT_TRUE(canceled.cancel(0ms));
    EXPECT_EQ(canceled.check().code, NIXL_ERR_CANCELED);
    Move ended(node, remote, NIXL_WRITE, {{0, 0, 8}});
    ASSERT_EQ(ended.post(std::string(4 * kMiB, 'z')).code, NIXL_IN_PROG);
    target.child().signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return ended.check().code == NIXL_ERR_REMOTE_DISCONNECT; }, 5s));
    EXPECT_EQ(canceled.check().code, NIXL_ERR_CANCELED);
}

TEST(Notifications, AFullInboxStopsSendersUntilItIsRead) {
    // More than the inbox takes (64 MiB), so that the target stops reading; nothing is lost.
    constexpr std::size_t kCount = 16;
    const auto text = [](std::size_t i) { return std::string(8 * kMiB, static_cast<char>('a' + i % 26)); };
    ChildProcess sender([&](Line &line) {
        Options patient;
        patient.notifTimeout = 20s;
        const std::string card = line.receive();
        Node node("sender", 4096, patient);
        Node::Remote &remote = node.load("target", card);
        for (std::size_t i = 0; i < kCount; ++i)
            if (!node.engine().notify(remote.peer.get(), text(i)).ok())
                _exit(1);
        line.send("sent");
        line.receive();
    });
    Options options;
    options.notifMaxBytes = 8 * kMiB;
    Node target("target", 4096, options);
    sender.line().send(target.card());
    std::size_t seen = 0;
    EXPECT_TRUE(eventually(
        [&] {
            std::vector<Notification> got;
            (void)target.engine().takeNotifications(got);
            for (const Notification &notification : got) {
                EXPECT_TRUE(notification.message == text(seen)) << seen;
                ++seen;
            }
            std::this_thread::sleep_for(20ms); // lets it fill up
            return seen == kCount;
        },
        100s));
}

TEST(Notifications, AMessageOfADeadSenderArrives) {
    ChildProcess sender([](Line &line) { sendNumbered(line, 100, [](std::size_t i) { return concat(i); }); });
    Node target("target", 4096);
    sender.line().send(target.card());
    ASSERT_EQ(sender.line().receive(), "sent");
    sender.signal(SIGKILL);
    std::vector<Notification> got;
    EXPECT_TRUE(eventually([&] {
        (void)target.engine().takeNotifications(got);
        return got.size() == 100;
    }));
}

} // namespace

} // namespace nixl::local
