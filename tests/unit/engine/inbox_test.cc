#include "engine/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/log_capture.h"

namespace nixl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string>
texts(const std::vector<Notification> &messages) {
    std::vector<std::string> texts;
    for (const Notification &one : messages)
        texts.push_back(one.agent + ":" + one.message);
    return texts;
}

std::vector<std::string>
failuresOf(Inbox &inbox) {
    std::vector<FailedNotification> failures;
    inbox.takeFailures(failures);
    std::vector<std::string> texts;
    for (const FailedNotification &one : failures)
        texts.push_back(one.agent + ":" + one.message + ":" + one.why);
    return texts;
}

TEST(Inbox, GivesWhatCameOnceAndInOrder) {
    Inbox inbox(1 << 20);
    EXPECT_TRUE(inbox.push("a", "1"));
    EXPECT_TRUE(inbox.push("b", "2"));
    EXPECT_TRUE(inbox.push("a", ""));
    std::vector<Notification> out{{"before", "0"}};
    EXPECT_FALSE(inbox.take(out)) << "nobody was refused";
    EXPECT_THAT(texts(out), ElementsAre("before:0", "a:1", "b:2", "a:")) << "appended";
    out.clear();
    EXPECT_FALSE(inbox.take(out));
    EXPECT_THAT(out, IsEmpty());
}

TEST(Inbox, RefusesWhileItIsFullAndSaysSoOnce) {
    Inbox inbox(1000);
    EXPECT_TRUE(inbox.push("a", std::string(5000, 'x'))) << "one message may be longer than the limit";
    std::string next = "kept by the caller";
    EXPECT_FALSE(inbox.push("a", std::move(next)));
    EXPECT_EQ(next, "kept by the caller"); // NOLINT(bugprone-use-after-move)
    EXPECT_FALSE(inbox.push("a", ""));
    std::vector<Notification> out;
    EXPECT_TRUE(inbox.take(out)) << "who waits for room can go on";
    EXPECT_EQ(out.size(), 1U);
    EXPECT_TRUE(inbox.push("a", std::move(next)));
    EXPECT_FALSE(inbox.take(out)) << "told once";
    EXPECT_EQ(out.size(), 2U);
}

TEST(Inbox, EmptyMessagesAndNamesTakeRoomToo) {
    Inbox inbox(1000);
    int taken = 0;
    while (taken < 1000 && inbox.push("", ""))
        ++taken;
    EXPECT_LT(taken, 100);
    std::vector<Notification> out;
    inbox.take(out);
    taken = 0;
    while (taken < 1000 && inbox.push(std::string(400, 'n'), ""))
        ++taken;
    EXPECT_EQ(taken, 3);
}

TEST(Inbox, KeepsTheNewestFailures) {
    Inbox inbox(1000);
    test::LogCapture log;
    EXPECT_THAT(failuresOf(inbox), IsEmpty());
    inbox.pushFailure({"a", "1", "why"});
    inbox.pushFailure({"b", "2", "other"});
    EXPECT_THAT(failuresOf(inbox), ElementsAre("a:1:why", "b:2:other"));
    EXPECT_THAT(failuresOf(inbox), IsEmpty()) << "given once";
    EXPECT_THAT(log.lines(), IsEmpty());

    for (int i = 0; i < 100; ++i)
        inbox.pushFailure({"a", std::to_string(i), std::string(200, 'w')});
    const auto left = failuresOf(inbox);
    EXPECT_THAT(left, ElementsAre(::testing::StartsWith("a:97:"), ::testing::StartsWith("a:98:"),
                                  ::testing::StartsWith("a:99:")));
    EXPECT_EQ(log.count("word of 'a' that a transfer failed is dropped", LogLevel::kWarn), 97U);

    inbox.pushFailure({"a", "short", "why"});
    inbox.pushFailure({"a", "long", std::string(5000, 'w')});
    EXPECT_THAT(failuresOf(inbox), ElementsAre(::testing::StartsWith("a:long:")))
        << "one may be longer than the limit";
    inbox.pushFailure({"a", "1", "why"});
    inbox.pushFailure({"a", "2", "why"});
    EXPECT_THAT(failuresOf(inbox), ElementsAre("a:1:why", "a:2:why")) << "what was taken counts no more";
}

TEST(Inbox, FailuresAndMessagesDoNotTakeEachOthersRoom) {
    Inbox inbox(1000);
    EXPECT_TRUE(inbox.push("a", std::string(1000, 'x')));
    inbox.pushFailure({"a", "1", "why"});
    inbox.pushFailure({"a", "2", "why"});
    EXPECT_FALSE(inbox.push("a", "full"));
    EXPECT_EQ(failuresOf(inbox).size(), 2U);
    std::vector<Notification> out;
    EXPECT_TRUE(inbox.take(out));
    EXPECT_EQ(out.size(), 1U);
}

TEST(Inbox, FromManyThreads) {
    constexpr int kEach = 2000;
    Inbox inbox(4096);
    std::atomic<int> senders{2};
    std::vector<std::thread> threads;
    for (const char *agent : {"a", "b"})
        threads.emplace_back([&inbox, &senders, agent] {
            for (int i = 0; i < kEach; ++i) {
                while (!inbox.push(agent, std::to_string(i)))
                    std::this_thread::yield();
            }
            --senders;
        });
    std::map<std::string, int> next;
    for (bool last = false; !last;) {
        last = senders.load() == 0;
        std::vector<Notification> out;
        inbox.take(out);
        for (const Notification &one : out)
            EXPECT_EQ(one.message, std::to_string(next[one.agent]++));
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(next["a"], kEach);
    EXPECT_EQ(next["b"], kEach);
}

} // namespace
} // namespace nixl
