// Letters between two workers of one process: each taken in once, in order, whatever happens to connections.
#include "engines/ucx/outbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "engines/ucx/connection.h"
#include "engines/ucx/library.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/receiver.h"
#include "engines/ucx/settings.h"
#include "support/expect_log.h"
#include "util/options.h"

namespace nixl::ucx {
namespace {

constexpr std::uint64_t kInbox = 4000;

class OutboxTest : public ::testing::Test {
protected:
    OutboxTest()
        : settings_(parseSettings({{"engine_config", "TLS=tcp,NET_DEVICES=lo"}}).value()),
          near_(makeContext()), far_(makeContext()), inbox_(kInbox) {
        here_ = ProgressWorker::create(*near_, 0).value();
        there_ = ProgressWorker::create(*far_, 0).value();
        receiver_ = std::make_unique<Receiver>(*there_, inbox_, 1 << 20, nullptr);
        EXPECT_TRUE(receiver_->receive().ok());
        out_ = std::make_shared<Connection>(*here_, "far", there_->address().value(), true);
        here_->locked([&] {
            out_->tellUndelivered([this](const std::string &peer, const std::string &payload, LetterKind,
                                         const std::string &why) {
                undelivered_.push_back(peer + ": " + text(payload) + ": " + why);
            });
        });
    }

    ~OutboxTest() override {
        here_->with([&] { out_->giveUp(Status(NIXL_ERR_CANCELED, "the test ends")); });
        drive([&] { return here_->operations() == 0; });
        EXPECT_EQ(here_->operations(), 0U);
    }

    std::unique_ptr<Context>
    makeContext() {
        return Context::create(Library::get(Options()).value(), settings_).value();
    }

    static std::string
    text(const std::string &payload) {
        return decodeNotification(payload, 1 << 20).value().message;
    }

    void
    send(const std::string &message) {
        Outbox::send(out_, LetterKind::kNotification, encodeNotification("near", message),
                     [this](const Status &status) { sent_.push_back(status); });
    }

    bool
    drive(const std::function<bool()> &condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!condition() && std::chrono::steady_clock::now() < limit) {
            here_->progress();
            if (there_)
                there_->progress();
        }
        return condition();
    }

    bool
    driveUntilTaken() {
        return drive([&] {
            here_->locked([&] { out_->askForLetters(); });
            return here_->locked([&] { return out_->outbox().empty(); });
        });
    }

    std::vector<std::string>
    taken() {
        std::vector<Notification> arrived;
        inbox_.take(arrived);
        std::vector<std::string> messages;
        for (const Notification &one : arrived)
            messages.push_back(one.message);
        return messages;
    }

    static std::vector<std::string>
    numbers(int first, int end) {
        std::vector<std::string> expected;
        for (int i = first; i < end; ++i)
            expected.push_back(std::to_string(i));
        return expected;
    }

    test::ExpectLog log_;
    const Settings settings_;
    std::unique_ptr<Context> near_, far_;
    Inbox inbox_;
    std::unique_ptr<Receiver> receiver_;
    std::unique_ptr<ProgressWorker> here_, there_;
    std::shared_ptr<Connection> out_;
    std::vector<Status> sent_;
    std::vector<std::string> undelivered_;
};

TEST_F(OutboxTest, LettersArriveInOrderAndAreForgottenOnceTakenIn) {
    for (int i = 0; i < 20; ++i)
        send(std::to_string(i));
    ASSERT_TRUE(driveUntilTaken());
    EXPECT_EQ(taken(), numbers(0, 20));
    ASSERT_TRUE(drive([&] { return sent_.size() == 20; }));
    for (const Status &status : sent_)
        EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(here_->locked([&] { return out_->outbox().bytes(); }), 0U);
    EXPECT_TRUE(drive([&] { return here_->operations() == 0; })) << "nothing is left to do";
}

TEST_F(OutboxTest, WhatAFullPeerRefusesComesWhenThereIsRoomAgain) {
    const int count = 400; // many times what the inbox takes
    for (int i = 0; i < count; ++i)
        send(std::to_string(i));
    std::vector<std::string> all;
    bool full = false;
    ASSERT_TRUE(drive([&] {
        full |= !here_->locked([&] { return out_->outbox().room(); });
        if (full) // only then, so that it gets full
            for (const std::string &one : taken())
                all.push_back(one);
        return all.size() == count;
    }));
    EXPECT_TRUE(full);
    EXPECT_EQ(all, numbers(0, count));
    EXPECT_TRUE(driveUntilTaken());
    EXPECT_TRUE(here_->locked([&] { return out_->outbox().room(); }));
}

TEST_F(OutboxTest, ConnectionsThatBreakNeitherLoseNorRepeatAnything) {
    int next = 0;
    std::vector<std::string> all;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 10; ++i)
            send(std::to_string(next++));
        for (int i = 0; i < round * 20; ++i) { // so that it breaks at another moment each time
            here_->progress();
            there_->progress();
        }
        here_->with([&] { round % 2 == 0 ? out_->replace() : out_->cutOff(out_->open().value()); });
        ASSERT_TRUE(driveUntilTaken()) << round;
        for (const std::string &one : taken())
            all.push_back(one);
        EXPECT_EQ(all, numbers(0, next)) << round;
    }
    EXPECT_TRUE(undelivered_.empty());
}

TEST_F(OutboxTest, WhatIsNotTakenInWhenItIsGivenUpIsTold) {
    send("first");
    ASSERT_TRUE(driveUntilTaken());
    const std::string big(3900, 'x'); // leaves no room
    send(big);
    send("second");
    ASSERT_TRUE(
        drive([&] { return !here_->locked([&] { return out_->outbox().room(); }) || sent_.size() == 3; }));
    send("third");
    ASSERT_TRUE(drive([&] { return !here_->locked([&] { return out_->outbox().room(); }); }));
    here_->with([&] { out_->giveUp(Status(NIXL_ERR_REMOTE_DISCONNECT, "it is gone")); });
    ASSERT_FALSE(undelivered_.empty());
    for (const std::string &one : undelivered_)
        EXPECT_EQ(one.find("far: first"), std::string::npos) << "it was taken in";
    EXPECT_NE(undelivered_.back().find("it is gone"), std::string::npos) << undelivered_.back();
    send("fourth");
    ASSERT_TRUE(drive([&] { return sent_.size() == 5; }));
    EXPECT_EQ(sent_.back().code(), NIXL_ERR_REMOTE_DISCONNECT) << "its sender is told, and nobody else";
    EXPECT_TRUE(std::none_of(undelivered_.begin(), undelivered_.end(),
                             [](const std::string &one) { return one.find("fourth") != std::string::npos; }));
}

TEST_F(OutboxTest, APeerThatIsGoneEndsLettersByItself) {
    send("x");
    ASSERT_TRUE(driveUntilTaken());
    receiver_.reset();
    there_.reset();
    send("y");
    ASSERT_TRUE(drive([&] { return here_->locked([&] { return !out_->givenUp().ok(); }); }));
    EXPECT_TRUE(drive([&] { return undelivered_.size() + sent_.size() >= 3; }));
    EXPECT_TRUE(here_->locked([&] { return out_->outbox().empty(); }));
}

} // namespace
} // namespace nixl::ucx
