// A target that lends what it should not, seen from the initiator: nothing of it is mapped.
#include "channel_fixture.h"

#include <fcntl.h>

#include <algorithm>

#include "engines/local/peer_memory.h"

namespace nixl::local {

namespace {

constexpr std::size_t kPage = 4096;

ScopedFd
memfd(int seals, std::size_t bytes = kPage) {
    ScopedFd fd(memfd_create("lent", MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
}

class LenderTest : public ChannelFixture {
protected:
    /// What becomes of an answer to a question; "" if it is mapped.
    std::string
    outcome(const LentPiece &piece, const std::vector<int> &fds) {
        EXPECT_TRUE(channel_->askFor(piece.id, 20s).ok());
        say(encodeMemory(piece), fds);
        const auto mapping = channel_->mapping(piece.id, 20s);
        return mapping.ok() ? "" : mapping.status().message();
    }
};

TEST_F(LenderTest, OnlyWhatCannotShrinkIsMapped) {
    EXPECT_EQ(outcome({1, 0x10000, kPage, 0}, {memfd(F_SEAL_SHRINK).get()}), "");
    EXPECT_EQ(outcome({2, 0x10000, kPage, 0}, {memfd(F_SEAL_GROW).get()}),
              "its memfd is not sealed against shrinking (F_SEAL_SHRINK)");
    EXPECT_EQ(outcome({3, 0x10000, kPage, 0}, {memfd(F_SEAL_SHRINK, kPage - 1).get()}),
              "its memfd has 4095 bytes and cannot hold 4096 at offset 0");
    EXPECT_EQ(outcome({4, 0x10000, kPage, kPage}, {memfd(F_SEAL_SHRINK).get()}),
              "its memfd has 4096 bytes and cannot hold 4096 at offset 4096");
    EXPECT_EQ(outcome({5, 0x10000, kPage, ~std::uint64_t{0}}, {memfd(F_SEAL_SHRINK).get()}),
              "its memfd has 4096 bytes and cannot hold 4096 at offset 18446744073709551615");
    const ScopedFd null(open("/dev/null", O_RDWR));
    EXPECT_EQ(outcome({6, 0x10000, kPage, 0}, {null.get()}), "its descriptor is not of a memfd");
    EXPECT_EQ(outcome({7, 0x10000, kPage, 0}, {far_.get()}), "its descriptor is not of a memfd");
    const ScopedFd sealed = memfd(F_SEAL_SHRINK);
    const ScopedFd readable(open(concat("/proc/self/fd/", sealed.get()).c_str(), O_RDONLY));
    EXPECT_EQ(outcome({8, 0x10000, kPage, 0}, {readable.get()}),
              "its 4096 bytes cannot be mapped: Permission denied");
    EXPECT_EQ(outcome({9, 0, 0, 0}, {}), "the peer lends its memory no more");
    EXPECT_TRUE(channel_->alive());
    EXPECT_TRUE(channel_->mapping(1, 0ms).ok());
    // Of each, the descriptor is closed, mapped or not: the next look sees the same number.
    const std::size_t open = descriptors();
    EXPECT_EQ(outcome({10, 0x10000, kPage, 0}, {sealed.get()}), "");
    EXPECT_TRUE(eventually([&] { return descriptors() == open; }));
}

TEST_F(LenderTest, AnswersThatNobodyAskedForEndTheConnection) {
    say(encodeMemory({1, 0x10000, kPage, 0}), {memfd(F_SEAL_SHRINK).get()});
    EXPECT_TRUE(eventually([&] { return !channel_->alive(); }));
    EXPECT_FALSE(channel_->mapping(1, 0ms).ok());
}

TEST_F(LenderTest, ASecondAnswerEndsTheConnection) {
    const ScopedFd sealed = memfd(F_SEAL_SHRINK);
    EXPECT_EQ(outcome({1, 0x10000, kPage, 0}, {sealed.get()}), "");
    const auto held = channel_->mapping(1, 0ms).value();
    say(encodeMemory({1, 0x20000, kPage, 0}), {sealed.get()});
    EXPECT_TRUE(eventually([&] { return !channel_->alive(); }));
    held->find(0x10000, 1)[0] = std::byte{1}; // what a run holds stays mapped
    EXPECT_EQ(held->find(0x20000, 1), nullptr);
}

TEST_F(LenderTest, TooManyOrNoDescriptorsEndTheConnection) {
    const std::size_t before = descriptors();
    const ScopedFd sealed = memfd(F_SEAL_SHRINK);
    EXPECT_TRUE(channel_->askFor(1, 20s).ok());
    say(encodeMemory({1, 0x10000, kPage, 0}), {sealed.get(), sealed.get(), sealed.get(), sealed.get()});
    EXPECT_TRUE(eventually([&] { return !channel_->alive(); }));
    EXPECT_FALSE(channel_->mapping(1, 20s).ok());
    EXPECT_TRUE(eventually([&] { return descriptors() == before + 1; }));
}

TEST_F(LenderTest, MalformedFramesEndTheConnection) {
    EXPECT_TRUE(channel_->askFor(1, 20s).ok());
    std::string wraps = encodeMemory({1, ~std::uint64_t{0} - 8, kPage, 0});
    say(wraps, {memfd(F_SEAL_SHRINK).get()});
    EXPECT_TRUE(eventually([&] { return !channel_->alive(); }));
}

TEST_F(LenderTest, AStormOfDescriptorsIsBounded) {
    const std::size_t before = descriptors();
    const ScopedFd sealed = memfd(F_SEAL_SHRINK);
    const std::string frame = encodeMemoryEnded(7);
    std::size_t most = 0;
    for (int i = 0; i < 1000; ++i) { // ends of memory that it never had, each with descriptors
        sendSome(far_.get(), std::array{std::string_view(frame)}, std::array{sealed.get(), sealed.get()});
        most = std::max(most, descriptors());
    }
    EXPECT_LE(most, before + 1 + 8); // those of the reader, and those of one read
    far_.reset();
    EXPECT_TRUE(eventually([&] { return !channel_->alive(); }));
}

TEST_F(LenderTest, AnswersInOneReadFindTheirDescriptors) {
    std::vector<ScopedFd> fds;
    for (std::uint64_t id = 1; id <= 20; ++id) {
        EXPECT_TRUE(channel_->askFor(id, 20s).ok());
        fds.push_back(memfd(F_SEAL_SHRINK));
        const char mark = static_cast<char>(id);
        ASSERT_EQ(pwrite(fds.back().get(), &mark, 1, 0), 1);
    }
    for (std::uint64_t id = 1; id <= 20; ++id) {
        say(encodeMemoryEnded(id + 100));
        say(encodeMemory({id, id * kPage, kPage, 0}), {fds[id - 1].get()});
    }
    for (std::uint64_t id = 1; id <= 20; ++id) {
        const auto mapping = channel_->mapping(id, 20s);
        ASSERT_TRUE(mapping.ok()) << mapping.status().message();
        EXPECT_EQ(*mapping.value()->find(id * kPage, kPage), static_cast<std::byte>(id));
        EXPECT_EQ(mapping.value()->find(id * kPage, kPage + 1), nullptr);
        EXPECT_EQ(mapping.value()->find(id * kPage - 1, 1), nullptr);
        EXPECT_EQ(mapping.value()->find(id * kPage + 1, ~std::uint64_t{0}), nullptr);
    }
}

TEST_F(LenderTest, NoMoreThanTheLimit) {
    for (std::uint64_t id = 1; id <= kMostLent; ++id)
        ASSERT_TRUE(channel_->askFor(id, 20s).ok());
    EXPECT_TRUE(channel_->askFor(kMostLent + 1, 20s).ok());
    EXPECT_EQ(channel_->mapping(kMostLent + 1, 0ms).status().message(),
              "1024 memories of the peer are mapped already");
    EXPECT_EQ(channel_->mapping(1, 0ms).status().message(), "the peer has not handed it over yet");
}

} // namespace

} // namespace nixl::local
