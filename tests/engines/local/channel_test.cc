// Messages of a channel, seen from the other end of its socket.
#include "channel_fixture.h"

#include <sys/ioctl.h>

#include <atomic>

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

class ChannelTest : public ChannelFixture {
protected:
    void
    SetUp() override {
        ChannelFixture::SetUp();
        reader_.setLimit(64 * kMiB);
    }

    /// Fills socket and queue; the bytes of that.
    std::size_t
    fill() {
        const std::string filler(kMiB, 'f');
        std::size_t bytes = 0;
        while (channel_->send(filler, 0ms).ok())
            bytes += kHeaderBytes + filler.size();
        return bytes;
    }

    /// Reads exactly so many bytes of fillers.
    void
    drain(std::size_t bytes) {
        std::string buffer(kMiB, '\0');
        std::vector<ScopedFd> fds;
        EXPECT_TRUE(eventually([&] {
            bytes -= receiveSome(far_.get(), buffer.data(), std::min(bytes, buffer.size()), fds).bytes;
            return bytes == 0 || !channel_->alive();
        }));
    }

    /// The next frame that is no ping.
    Frame
    next() {
        Frame frame{};
        EXPECT_TRUE(eventually([&] {
            while (reader_.next(frame).value())
                if (frame.type != FrameType::kPing)
                    return true;
            reader_.readOnce(far_.get());
            return false;
        }));
        return frame;
    }

    FrameReader reader_;
    std::atomic<int> told_{0};
};

TEST_F(ChannelTest, AMessageOfWhichAPartIsSentGoesOn) {
    const std::size_t before = fill();
    const std::string message(4 * kMiB, 'm');
    ASSERT_FALSE(channel_->sendThen(message, this, [this](const Status &) { ++told_; }));
    drain(before);
    ASSERT_TRUE(eventually([&] {
        int bytes = 0;
        return ioctl(far_.get(), FIONREAD, &bytes) == 0 && bytes > 1000;
    }));
    EXPECT_EQ(channel_->withdraw(this, "why"), PeerChannel::Withdrawal::kTooLate);
    EXPECT_EQ(channel_->withdraw(this, "why"), PeerChannel::Withdrawal::kNotWaiting);
    const Frame frame = next();
    EXPECT_EQ(frame.type, FrameType::kNotification);
    EXPECT_TRUE(frame.payload == message);
    EXPECT_EQ(told_, 0);
    far_.reset();
    ASSERT_TRUE(eventually([&] { return !channel_->alive(); }));
    channel_->close(0ms); // whatever is to be told has been
    ASSERT_FALSE(undelivered().empty());
    EXPECT_EQ(undelivered().back().rfind("mmm", 0), 0U) << "on its way, and not counted";
}

TEST_F(ChannelTest, AFailureTakesThePlaceOfAMessageOnceThereIsRoom) {
    const std::size_t before = fill();
    const std::string message(2 * kMiB, 'm');
    ASSERT_FALSE(channel_->sendThen(message, this, [this](const Status &) { ++told_; }));
    constexpr std::size_t kRead = 4 * (kMiB + kHeaderBytes);
    drain(kRead);
    ASSERT_TRUE(eventually([&] { return channel_->send("after", 0ms).ok(); })); // there is room
    EXPECT_EQ(channel_->withdraw(this, "why"), PeerChannel::Withdrawal::kDone);
    drain(before - kRead);
    const Frame frame = next();
    ASSERT_EQ(frame.type, FrameType::kFailed);
    const FailedTransfer failed = decodeFailed(frame.payload).value();
    EXPECT_TRUE(failed.message == message);
    EXPECT_EQ(failed.why, "why");
    EXPECT_EQ(next().payload, "after");
    EXPECT_EQ(told_, 0);
}

TEST_F(ChannelTest, AfterBadBytesOfThePeerTheFateOfWhatIsSentIsNotKnown) {
    for (const char *text : {"a", "b", "c"})
        ASSERT_TRUE(channel_->send(text, 0ms).ok());
    table_.countMessage(slot_);
    say(std::string(100, 'x'));
    ASSERT_TRUE(eventually([&] { return undelivered().size() == 2; }));
    const std::string why = concat(" - the connection to agent 'lender' (process ", getpid(),
                                   ") was broken off; whether it takes the message in is not known");
    EXPECT_EQ(undelivered(), (std::vector<std::string>{"b" + why, "c" + why}));
}

TEST_F(ChannelTest, APeerThatReadsAndCountsNothingIsLeft) {
    const std::string message(kMiB, 'm');
    std::size_t sent = 0;
    while (sent < 200 && channel_->send(message, 0ms).ok()) {
        ++sent;
        drain(kHeaderBytes + message.size());
    }
    EXPECT_GT(sent, 64U) << "so much may be in a socket";
    EXPECT_LT(sent, 200U);
    ASSERT_TRUE(eventually([&] { return !channel_->alive(); }));
    EXPECT_GE(undelivered().size(), sent - 1) << "the last one may be told by its call";
    EXPECT_LE(undelivered().size(), sent);
    EXPECT_NE(channel_->gone().message().find("does not keep to the protocol"), std::string::npos);
}

TEST_F(ChannelTest, APeerThatCountsMayTakeAnyNumber) {
    const std::string message(kMiB, 'm');
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(channel_->send(message, 0ms).ok());
        drain(kHeaderBytes + message.size());
        table_.countMessage(slot_);
    }
    EXPECT_TRUE(channel_->alive());
}

TEST_F(ChannelTest, WhereAConnectionCountedNoOtherDoesForLong) {
    const std::uint32_t first = *table_.addConnection();
    table_.removeConnection(first);
    int others = 0;
    while (others < 5000 && *table_.addConnection() != first)
        ++others;
    EXPECT_EQ(others, 5000) << "it rests until a thousand others are free";
    for (std::uint32_t other = first - 1; other > first - 2000; --other)
        table_.removeConnection(other);
    EXPECT_EQ(*table_.addConnection(), first);
}

TEST_F(ChannelTest, APeerThatCountsTooMuchLosesOnlyItself) {
    for (int i = 0; i < 100; ++i)
        table_.countMessage(slot_);
    for (const char *text : {"a", "b"})
        ASSERT_TRUE(channel_->send(text, 0ms).ok());
    far_.reset();
    ASSERT_TRUE(eventually([&] { return !channel_->alive(); }));
    channel_->close(0ms);
    EXPECT_TRUE(undelivered().empty());
}

} // namespace

} // namespace nixl::local
