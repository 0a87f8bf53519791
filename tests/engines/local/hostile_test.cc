// Bytes from peers that are not what they should be.
#include "local_fixture.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <random>

#include "engines/local/life_page.h"
#include "engines/local/marks.h"
#include "engines/local/protocol.h"
#include "util/log.h"
#include "util/socket.h"

namespace nixl::local {

namespace {

/// Keeps the lines of the log for the scope.
class LogKeeper {
public:
    LogKeeper()
        : former_(setLogSink([this](LogLevel, std::string_view text) {
              const std::lock_guard lock(mutex_);
              lines_.emplace_back(text);
          })) {}

    ~LogKeeper() {
        setLogSink(former_);
    }

    std::size_t
    count(const std::string &part) {
        const std::lock_guard lock(mutex_);
        return static_cast<std::size_t>(
            std::count_if(lines_.begin(), lines_.end(),
                          [&](const std::string &line) { return line.find(part) != std::string::npos; }));
    }

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
    LogSink former_;
};

class HostileTest : public ::testing::Test {
protected:
    HostileTest() : target_("target", 65536) {
        info_ = decodeConnectionInfo(target_.engine().connectionInfo().value()).value();
    }

    ScopedFd
    dial() {
        auto socket = connectAbstract(socketName(info_.incarnation), std::chrono::steady_clock::now() + 20s);
        EXPECT_TRUE(socket.ok()) << socket.status().message();
        return std::move(socket).value();
    }

    Hello
    hello() {
        Hello greeting;
        greeting.target = info_.incarnation;
        greeting.agent = "hostile";
        return greeting;
    }

    void
    send(const ScopedFd &socket, std::string_view bytes, std::vector<int> fds = {}) {
        sendSome(socket.get(), std::array{bytes}, fds);
    }

    /// Waits until the target closes its direction; what it said before.
    std::string
    readToEnd(const ScopedFd &socket) {
        std::string all;
        std::array<char, 4096> buffer;
        std::vector<ScopedFd> fds;
        EXPECT_TRUE(eventually([&] {
            const IoResult result = receiveSome(socket.get(), buffer.data(), buffer.size(), fds);
            all.append(buffer.data(), result.bytes);
            return result.state == IoState::kClosed;
        }));
        return all;
    }

    /// A connection that has shaken hands.
    ScopedFd
    befriend() {
        if (!page_) {
            marks_ = std::make_unique<SharedMarks>(SharedMarks::create().value());
            page_ = LifePage::create().value();
            keeper_ = std::thread([this] {
                (void)page_->adopt();
                adopted_ = true;
                while (!stop_)
                    std::this_thread::sleep_for(1ms);
                page_->end();
            });
            EXPECT_TRUE(eventually([this] { return adopted_.load(); }));
        }
        ScopedFd socket = dial();
        send(socket, encodeHello(hello()), {marks_->fd(), page_->fd()});
        FrameReader reader;
        Frame frame{};
        EXPECT_TRUE(eventually([&] {
            reader.readOnce(socket.get());
            return reader.next(frame).value();
        }));
        EXPECT_EQ(frame.type, FrameType::kWelcome);
        send(socket, frameHeader(FrameType::kReady, 0));
        return socket;
    }

    /// Others are served all the same.
    void
    expectAlive() {
        expectAlive(target_);
    }

    void
    expectAlive(Node &target) {
        ScopedFd socket = befriend();
        send(socket, frameHeader(FrameType::kNotification, 5) + "hello");
        std::vector<Notification> got;
        EXPECT_TRUE(eventually([&] {
            (void)target.engine().takeNotifications(got);
            return !got.empty() && got.back().message == "hello";
        }));
    }

    void
    TearDown() override {
        stop_ = true;
        if (keeper_.joinable())
            keeper_.join();
    }

    LogKeeper log_;
    Node target_;
    ConnectionInfo info_;
    std::unique_ptr<SharedMarks> marks_;
    std::unique_ptr<LifePage> page_;
    std::thread keeper_;
    std::atomic<bool> adopted_{false};
    std::atomic<bool> stop_{false};
};

TEST_F(HostileTest, RandomBytes) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        const ScopedFd socket = dial();
        std::string bytes(random() % 5000 + 16, '\0');
        for (char &byte : bytes)
            byte = static_cast<char>(random());
        send(socket, bytes);
        readToEnd(socket);
    }
    EXPECT_EQ(log_.count("no frame of version 1"), 200U); // one line each
    expectAlive();
}

TEST_F(HostileTest, HugeLengths) {
    for (const std::uint64_t length :
         {std::uint64_t{1} << 20, std::uint64_t{0xffffffff}, ~std::uint64_t{0}, ~std::uint64_t{0} - 15})
        for (const FrameType type : {FrameType::kHello, FrameType::kNotification}) {
            const ScopedFd socket = dial();
            send(socket, frameHeader(type, length) + std::string(100, 'x'));
            EXPECT_NE(readToEnd(socket).find(concat("a frame of ", length, " bytes")), std::string::npos);
        }
    ScopedFd friendly = befriend();
    send(friendly, frameHeader(FrameType::kNotification, ~std::uint64_t{0}));
    readToEnd(friendly);
    expectAlive();
}

TEST_F(HostileTest, FramesOutOfTurn) {
    for (const FrameType type : {FrameType::kWelcome, FrameType::kReady, FrameType::kNotification,
                                 FrameType::kRefuse, FrameType::kPing, FrameType::kPong, FrameType::kFailed,
                                 static_cast<FrameType>(0), static_cast<FrameType>(999)}) {
        const ScopedFd socket = dial();
        send(socket, frameHeader(type, 0));
        EXPECT_NE(readToEnd(socket).find("is not expected now"), std::string::npos);
    }
    for (const FrameType type :
         {FrameType::kHello, FrameType::kWelcome, FrameType::kReady, FrameType::kPong}) {
        ScopedFd socket = befriend();
        send(socket, frameHeader(type, 0));
        readToEnd(socket);
    }
    expectAlive();
}

TEST_F(HostileTest, HelloCutAtEveryByte) {
    const std::string whole = encodeHello(hello());
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const ScopedFd cut = dial(); // and closed in the middle
        send(cut, std::string_view(whole).substr(0, length));
        if (length < kHeaderBytes)
            continue;
        const ScopedFd shorter = dial(); // complete frame, payload too short
        send(shorter, frameHeader(FrameType::kHello, length - kHeaderBytes) +
                          whole.substr(kHeaderBytes, length - kHeaderBytes));
        EXPECT_NE(readToEnd(shorter).find("malformed hello"), std::string::npos) << length;
    }
    expectAlive();
}

TEST_F(HostileTest, HelloWithBadDescriptors) {
    const auto answer = [&](std::vector<int> fds) {
        const ScopedFd socket = dial();
        send(socket, encodeHello(hello()), std::move(fds));
        return readToEnd(socket);
    };
    EXPECT_NE(answer({}).find("a hello brings 2 descriptors, not 0"), std::string::npos);
    EXPECT_NE(answer({0}).find("not 1"), std::string::npos);
    EXPECT_NE(answer({0, 0, 0, 0}).find("not 4"), std::string::npos);
    EXPECT_NE(answer({0, 0}).find("is not a memfd"), std::string::npos);
    const ScopedFd loose(memfd_create("loose", MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(loose.get(), sizeof(MarkPage)), 0);
    EXPECT_NE(answer({loose.get(), loose.get()}).find("is not sealed"), std::string::npos);
    const auto marks = SharedMarks::create();
    // A life page whose owner never was.
    EXPECT_NE(answer({marks.value().fd(), marks.value().fd()}).find("the process has ended"),
              std::string::npos);
    expectAlive();
}

TEST_F(HostileTest, AnotherIncarnation) {
    const ScopedFd socket = dial();
    Hello greeting = hello();
    greeting.target[0] ^= 1;
    send(socket, encodeHello(greeting), {0, 0});
    EXPECT_NE(readToEnd(socket).find("you mean another incarnation"), std::string::npos);
}

TEST_F(HostileTest, DescriptorsInTheMiddleAreDropped) {
    ScopedFd socket = befriend();
    const std::size_t before = descriptors();
    for (int i = 0; i < 50; ++i)
        send(socket, frameHeader(FrameType::kNotification, 0), {0, 1, 2});
    std::vector<Notification> got;
    ASSERT_TRUE(eventually([&] {
        (void)target_.engine().takeNotifications(got);
        return got.size() == 50;
    }));
    EXPECT_EQ(descriptors(), before);
}

TEST_F(HostileTest, ASilentPeerIsLeft) {
    const ScopedFd socket = dial();
    EXPECT_NE(readToEnd(socket).find("the handshake takes too long"), std::string::npos);
}

TEST_F(HostileTest, ManySilentPeersDoNotKeepOthersOut) {
    std::vector<ScopedFd> silent;
    for (int i = 0; i < 200; ++i)
        silent.push_back(dial());
    expectAlive();
}

/// The next frame of the target.
Frame
nextFrame(const ScopedFd &socket, FrameReader &reader) {
    Frame frame{};
    EXPECT_TRUE(eventually([&] {
        if (reader.next(frame).value())
            return true;
        reader.readOnce(socket.get());
        return false;
    }));
    return frame;
}

TEST_F(HostileTest, QuestionsForMemory) {
    Node lender("lender", 65536, {}, nullptr, Kind::kSealed);
    info_ = decodeConnectionInfo(lender.engine().connectionInfo().value()).value();
    const std::uint64_t id = SealedMemory::covering(lender.address(), 1)->id();
    {
        const ScopedFd socket = dial(); // before the handshake
        send(socket, encodeAskMemory(id));
        EXPECT_NE(readToEnd(socket).find("is not expected now"), std::string::npos);
    }
    {
        const ScopedFd socket = befriend();
        FrameReader reader;
        send(socket, encodeAskMemory(id + 1000)); // no such memory: an answer, and nothing comes with it
        Frame frame = nextFrame(socket, reader);
        EXPECT_EQ(decodeMemory(frame.payload).value().length, 0U);
        EXPECT_TRUE(reader.fds.empty());
        send(socket, encodeAskMemory(id));
        frame = nextFrame(socket, reader);
        const LentPiece piece = decodeMemory(frame.payload).value();
        EXPECT_EQ(piece.id, id);
        EXPECT_EQ(piece.address, lender.address());
        EXPECT_EQ(piece.length, 65536U);
        ASSERT_EQ(reader.fds.size(), 1U);
        EXPECT_TRUE(mapForeignPiece(reader.fds[0].get(), piece.offset, piece.length).ok());
        send(socket, encodeAskMemory(id)); // twice
        readToEnd(socket);
    }
    for (const std::string &payload :
         {std::string(), std::string(7, 'x'), std::string(9, 'x'), std::string(8, '\0')}) {
        const ScopedFd socket = befriend();
        send(socket, frameHeader(FrameType::kAskMemory, payload.size()) + payload);
        readToEnd(socket);
    }
    for (const FrameType type : {FrameType::kMemory, FrameType::kMemoryEnded}) {
        const ScopedFd socket = befriend();
        send(socket, frameHeader(type, 8) + std::string(8, '\1'));
        readToEnd(socket);
    }
    EXPECT_EQ(log_.count("malformed name of memory"), 4U);
    expectAlive(lender);
}

TEST_F(HostileTest, AStormOfQuestionsWithoutReadingTheAnswers) {
    const ScopedFd socket = befriend();
    std::string questions;
    for (std::uint64_t id = 1; id <= 100'000; ++id)
        questions += encodeAskMemory(id << 32);
    std::size_t done = 0;
    EXPECT_TRUE(eventually([&] {
        const IoResult sent = sendSome(socket.get(), std::array{std::string_view(questions).substr(done)});
        done += sent.bytes;
        return sent.state == IoState::kClosed || log_.count("do not read the answers") == 1;
    }));
    readToEnd(socket);
    EXPECT_EQ(log_.count("do not read the answers"), 1U);
    expectAlive();
}

TEST_F(HostileTest, AStormOfPingsWithoutReadingTheAnswers) {
    const ScopedFd socket = befriend();
    std::string pings;
    for (int i = 0; i < 100'000; ++i)
        pings += frameHeader(FrameType::kPing, 0);
    pings += frameHeader(FrameType::kNotification, 3) + "end";
    std::size_t done = 0;
    std::vector<Notification> got;
    EXPECT_TRUE(eventually([&] {
        done += sendSome(socket.get(), std::array{std::string_view(pings).substr(done)}).bytes;
        (void)target_.engine().takeNotifications(got);
        return !got.empty();
    }));
    EXPECT_EQ(done, pings.size());
    EXPECT_EQ(log_.count("closes the connection"), 0U);
    // Answers that the socket held, and at most one that waited in the target.
    std::size_t answers = 0;
    FrameReader reader;
    Frame frame{};
    while (reader.readOnce(socket.get()) == IoState::kDone)
        while (reader.next(frame).value()) {
            EXPECT_EQ(frame.type, FrameType::kPong);
            ++answers;
        }
    EXPECT_GT(answers, 0U);
    EXPECT_LT(answers, 50'000U);
    send(socket, frameHeader(FrameType::kPing, 1) + "x");
    readToEnd(socket);
    expectAlive();
}

TEST_F(HostileTest, WordOfFailedTransfers) {
    std::vector<FailedNotification> got;
    {
        const ScopedFd socket = befriend();
        send(socket, encodeFailed("message", "why") + encodeFailed("", std::string(5000, 'w')));
        EXPECT_TRUE(eventually([&] {
            target_.engine().takeFailures(got);
            return got.size() == 2;
        }));
        EXPECT_EQ(got[0].agent, "hostile");
        EXPECT_EQ(got[0].message, "message");
        EXPECT_EQ(got[0].why, "why");
        EXPECT_EQ(got[1].why, std::string(1024, 'w'));
    }
    const std::uint32_t lengths[] = {1, 1025, 40'000, UINT32_MAX};
    for (const std::uint32_t length : lengths) {
        const ScopedFd socket = befriend();
        std::string payload(reinterpret_cast<const char *>(&length), sizeof length);
        payload.append(length == 1025 || length == 40'000 ? length : 0, 'w');
        send(socket, frameHeader(FrameType::kFailed, payload.size()) + payload);
        readToEnd(socket);
    }
    for (const std::size_t size : {0U, 3U}) {
        const ScopedFd socket = befriend();
        send(socket, frameHeader(FrameType::kFailed, size) + std::string(size, '\0'));
        readToEnd(socket);
    }
    EXPECT_EQ(log_.count("malformed word of a failed transfer"), 6U);
    expectAlive();
}

TEST_F(HostileTest, AStormOfFailuresThatNobodyTakes) {
    Options options;
    options.notifQueueBytes = 10'000;
    Node target("patient", 4096, options);
    info_ = decodeConnectionInfo(target.engine().connectionInfo().value()).value();
    {
        const ScopedFd socket = befriend();
        std::string words;
        for (int i = 0; i < 10'000; ++i)
            words += encodeFailed(concat(i), "why");
        for (std::size_t done = 0; done < words.size();)
            done += sendSome(socket.get(), std::array{std::string_view(words).substr(done)}).bytes;
    }
    expectAlive(target); // behind them, so that all of them are there
    std::vector<FailedNotification> got;
    EXPECT_TRUE(eventually([&] {
        target.engine().takeFailures(got);
        return !got.empty() && got.back().message == "9999";
    }));
    EXPECT_LT(got.size(), 10'000U);
}

TEST_F(HostileTest, AMarkThatStaysIsNamedAndBounded) {
    Options options;
    options.localQuiesceTimeout = 100ms;
    Node target("patient", 4096, options);
    info_ = decodeConnectionInfo(target.engine().connectionInfo().value()).value();
    ScopedFd socket = befriend();
    marks_->page().marks[7].word = 77;
    const Status status = target.leave();
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(status.message(),
              concat("agent 'hostile' (process ", getpid(),
                     ") is still in a copy to or from memory of this agent after 100 ms; is "
                     "it stopped?"));
    // Broken off for bad bytes, it may still be copying; its own end says that it is not.
    send(socket, std::string(100, 'x'));
    readToEnd(socket);
    EXPECT_FALSE(target.leave().ok());
    socket.reset();
    EXPECT_TRUE(eventually([&] { return target.leave().ok(); }));
}

TEST_F(HostileTest, TooManyHandshakesAtATime) {
    Options options;
    options.localConnectTimeout = 60s;
    Node target("patient", 4096, options);
    info_ = decodeConnectionInfo(target.engine().connectionInfo().value()).value();
    befriend(); // makes marks and page
    constexpr std::size_t kSlots = (32 << 10) / sizeof(Challenge);
    std::vector<ScopedFd> proving;
    Frame frame{};
    while (proving.size() < kSlots) {
        proving.push_back(dial());
        send(proving.back(), encodeHello(hello()), {marks_->fd(), page_->fd()});
    }
    for (const ScopedFd &socket : proving) {
        FrameReader answer;
        ASSERT_TRUE(eventually([&] {
            answer.readOnce(socket.get());
            return answer.next(frame).value();
        }));
        ASSERT_EQ(frame.type, FrameType::kWelcome) << frame.payload;
    }
    const ScopedFd late = dial();
    send(late, encodeHello(hello()), {marks_->fd(), page_->fd()});
    EXPECT_NE(readToEnd(late).find("too many handshakes at a time"), std::string::npos);
    proving.clear();
    expectAlive(target);
}

TEST(HostileBlobs, ConnectionInfo) {
    Node node("node", 4096);
    const std::string info = node.engine().connectionInfo().value();
    for (std::size_t length = 0; length < info.size(); ++length)
        EXPECT_EQ(node.engine().loadPeer("x", info.substr(0, length)).status().code(), NIXL_ERR_MISMATCH);
    EXPECT_EQ(node.engine().loadPeer("x", info + "y").status().code(), NIXL_ERR_MISMATCH);
    std::string newer = info;
    newer[4] = 2;
    EXPECT_EQ(node.engine().loadPeer("x", newer).status().message(),
              "agent 'x': connection info of version 2, this LOCAL reads version 1");
    for (std::size_t at = 0; at < info.size(); ++at) {
        std::string flipped = info;
        flipped[at] = static_cast<char>(~flipped[at]);
        const auto peer = node.engine().loadPeer("x", flipped); // whatever it says, it does not connect
        EXPECT_FALSE(peer.ok() && node.engine().connect(*peer.value()).ok()) << at;
    }
}

TEST(HostileBlobs, RegionData) {
    TargetProcess target(65536);
    Node node("node", 65536);
    Node::Remote &remote = node.load("target", target.card());
    const std::string data = target.card().substr(8, 16);
    for (std::size_t length = 0; length < data.size(); ++length)
        EXPECT_EQ(node.engine()
                      .loadRegion(*remote.peer, nixlBasicDesc(remote.address, 8, 0), DRAM_SEG,
                                  data.substr(0, length))
                      .status()
                      .code(),
                  NIXL_ERR_MISMATCH);
    for (std::size_t at = 0; at < data.size(); ++at) {
        std::string flipped = data;
        flipped[at] = static_cast<char>(flipped[at] ^ 1);
        auto region =
            node.engine().loadRegion(*remote.peer, nixlBasicDesc(remote.address, 8, 0), DRAM_SEG, flipped);
        if (!region.ok())
            continue;
        remote.region = std::move(region).value();
        Move move(node, remote, NIXL_WRITE, {{0, 0, 8}});
        EXPECT_EQ(move.run().code, NIXL_ERR_NOT_FOUND) << at;
    }
}

} // namespace

} // namespace nixl::local
