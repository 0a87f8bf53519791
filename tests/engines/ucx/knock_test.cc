#include "engines/ucx/knock.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "engines/ucx/packed_samples.h"

namespace nixl::ucx {
namespace {

using Answer = Knock::Answer;

/// A socket of this process on the loopback device.
struct Listening {
    explicit Listening(int backlog) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        auto &in = reinterpret_cast<sockaddr_in &>(address.bytes);
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.length = sizeof in;
        EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr *>(&in), sizeof in), 0);
        EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&in), &address.length), 0);
        EXPECT_EQ(::listen(socket.get(), backlog), 0);
    }

    SocketAddress address;
    ScopedFd socket;
};

/// Looks until there is an answer, at most so long.
Answer
lookFor(Knock &knock, std::chrono::milliseconds time) {
    const auto end = Knock::Clock::now() + time;
    for (;;) {
        const Answer answer = knock.look(Knock::Clock::now());
        if (answer != Answer::kNone || Knock::Clock::now() >= end)
            return answer;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

constexpr std::chrono::milliseconds kSilence{2000};
constexpr std::chrono::seconds kLong{20}; // ten times as long

TEST(Knock, WhoListensIsThereAlsoIfItNeverAccepts) {
    Listening peer(16);
    Knock knock({peer.address}, kSilence);
    EXPECT_EQ(lookFor(knock, kLong), Answer::kThere);
    EXPECT_EQ(knock.look(Knock::Clock::now()), Answer::kThere) << "it stays so";
    peer.socket.reset();
    EXPECT_EQ(lookFor(knock, std::chrono::milliseconds(0)), Answer::kRefused) << "its end is seen";
}

TEST(Knock, WhoHasEndedRefuses) {
    SocketAddress address;
    {
        const Listening ended(1);
        address = ended.address;
    }
    Knock knock({address}, kSilence);
    EXPECT_EQ(lookFor(knock, kLong), Answer::kRefused);
}

TEST(Knock, OneAddressThatAnswersIsEnough) {
    const Listening peer(16);
    SocketAddress ended;
    {
        const Listening other(1);
        ended = other.address;
    }
    Knock knock({ended, peer.address}, kSilence);
    EXPECT_EQ(lookFor(knock, kLong), Answer::kThere);
}

/// Its queue is full: it takes no more connections, and says nothing.
struct Silent : Listening {
    Silent() : Listening(0) {
        for (int i = 0; i < 3; ++i) {
            queued.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            (void)::connect(queued.back().get(), reinterpret_cast<const sockaddr *>(&address.bytes),
                            address.length);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }

    std::vector<ScopedFd> queued;
};

TEST(Knock, TimeInWhichNobodyLooksShowsNothing) {
    const Silent peer;
    Knock knock({peer.address}, kSilence);
    const auto begin = Knock::Clock::now();
    EXPECT_EQ(knock.look(begin), Answer::kNone);
    EXPECT_EQ(knock.look(begin + std::chrono::seconds(100)), Answer::kNone);
    EXPECT_EQ(knock.look(begin + std::chrono::milliseconds(100'100)), Answer::kNone);
}

int
descriptors() {
    const auto folder = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<int>(std::distance(begin(folder), end(folder)));
}

TEST(Knock, TakesFewDescriptors) {
    const Silent peer;
    const int before = descriptors();
    Knock knock({peer.address, peer.address}, std::chrono::hours(1));
    const auto begin = Knock::Clock::now();
    for (int i = 0; i < 50; ++i)
        EXPECT_EQ(knock.look(begin + i * std::chrono::milliseconds(400)), Answer::kNone);
    EXPECT_LE(descriptors(), before + 4) << "two attempts for each address";
}

TEST(Knock, WithoutDescriptorsNothingIsKnown) {
    const Silent peer;
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none{0, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    Knock knock({peer.address}, kSilence);
    const auto begin = Knock::Clock::now();
    for (int i = 0; i < 50; ++i)
        EXPECT_EQ(knock.look(begin + i * std::chrono::milliseconds(400)), Answer::kNone);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(Knock, WhoDoesNotAnswerIsSilent) {
    const Silent peer;
    Knock knock({peer.address}, kSilence);
    EXPECT_EQ(knock.look(Knock::Clock::now()), Answer::kNone) << "not at once";
    const auto begin = Knock::Clock::now();
    EXPECT_EQ(lookFor(knock, kLong), Answer::kSilent);
    EXPECT_GE(Knock::Clock::now() - begin, std::chrono::milliseconds(1500))
        << "a network may lose some packets";
}

TEST(Knock, WithoutAnAddressNothingIsKnown) {
    Knock knock({}, kSilence);
    EXPECT_EQ(knock.look(Knock::Clock::now()), Answer::kThere);
}

std::string
textOf(const SocketAddress &address) {
    const auto &in = reinterpret_cast<const sockaddr_in &>(address.bytes);
    char text[INET_ADDRSTRLEN];
    return in.sin_family == AF_INET && inet_ntop(AF_INET, &in.sin_addr, text, sizeof text) != nullptr
               ? std::string(text) + ":" + std::to_string(ntohs(in.sin_port))
               : "another family";
}

TEST(TcpAddresses, AreThoseAtWhichTheWorkerListens) {
    for (const auto &sample : test::addressSamples) {
        const std::string bytes = sample.bytes();
        if (bytes.find("\xcf\x19") == std::string::npos)
            continue;
        const auto foreign = tcpAddresses(bytes, "");
        if (std::string_view(sample.name).find("every transport") == std::string_view::npos)
            continue;
        ASSERT_EQ(foreign.size(), 1U) << sample.name << ": not the loopback device of another host";
        EXPECT_EQ(textOf(foreign.front()).substr(0, 10), "192.0.2.2:") << sample.name;
        const auto same = tcpAddresses(bytes, bytes);
        ASSERT_EQ(same.size(), 2U) << sample.name;
        EXPECT_EQ(textOf(same.back()).substr(0, 10), "127.0.0.1:") << sample.name;
    }
}

TEST(TcpAddresses, OfOtherBytesThereAreNone) {
    EXPECT_TRUE(tcpAddresses("", "").empty());
    EXPECT_TRUE(tcpAddresses(std::string(300, '\xcf'), "").empty());
    const std::string bytes = test::addressSamples.front().bytes();
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_TRUE(tcpAddresses(bytes.substr(0, length), bytes).empty()) << length;
}

} // namespace
} // namespace nixl::ucx
