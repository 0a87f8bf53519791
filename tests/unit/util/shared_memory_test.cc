#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

#include "util/mapped_region.h"
#include "util/random.h"
#include "util/socket.h"

namespace nixl {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 8192;

TEST(SharedMemory, OthersSeeWhatTheOwnerWrites) {
    auto memory = createSharedMemory("test", kBytes).value();
    auto view = mapForeignMemory(memory.fd.get(), kBytes).value();
    memory.mapping.data()[kBytes - 1] = std::byte{7};
    EXPECT_EQ(view.data()[kBytes - 1], std::byte{7});
    EXPECT_EQ(view.data()[0], std::byte{0});
}

TEST(SharedMemory, OthersCannotChangeIt) {
    auto memory = createSharedMemory("test", kBytes).value();
    const int fd = memory.fd.get();
    EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
    EXPECT_EQ(ftruncate(fd, 0), -1);
    EXPECT_EQ(ftruncate(fd, 2 * kBytes), -1);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SharedMemory, WhatCouldShrinkIsNotMapped) {
    const ScopedFd loose(memfd_create("loose", MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(loose.get(), kBytes), 0);
    EXPECT_EQ(mapForeignMemory(loose.get(), kBytes).status().code(), NIXL_ERR_MISMATCH);
    ASSERT_EQ(fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    EXPECT_FALSE(mapForeignMemory(loose.get(), kBytes).ok());
    ASSERT_EQ(fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SEAL), 0);
    EXPECT_TRUE(mapForeignMemory(loose.get(), kBytes).ok());
    EXPECT_EQ(mapForeignMemory(loose.get(), kBytes + 4096).status().message(),
              "a memfd from a peer has 8192 bytes, not 12288");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_EQ(mapForeignMemory(ends[0], kBytes).status().message(),
              "a descriptor from a peer is not a memfd");
    close(ends[0]);
    close(ends[1]);
}

TEST(SharedMemory, PiecesThatPeersLendAreWritableAndChecked) {
    const ScopedFd loose(memfd_create("loose", MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(loose.get(), 4 * 4096), 0);
    EXPECT_EQ(mapForeignPiece(loose.get(), 0, 4096).status().message(),
              "its memfd is not sealed against shrinking (F_SEAL_SHRINK)");
    ASSERT_EQ(fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    {
        const auto piece = mapForeignPiece(loose.get(), 4096, 8192).value();
        piece.data()[8191] = std::byte{5};
        char byte = 0;
        ASSERT_EQ(pread(loose.get(), &byte, 1, 3 * 4096 - 1), 1);
        EXPECT_EQ(byte, 5);
    }
    for (const auto &[offset, size] : {std::pair<std::uint64_t, std::uint64_t>{0, 4 * 4096 + 1},
                                       {0, 0},
                                       {4 * 4096, 1},
                                       {4096, ~std::uint64_t{0}},
                                       {~std::uint64_t{0}, 4096}})
        EXPECT_EQ(mapForeignPiece(loose.get(), offset, size).status().message(),
                  concat("its memfd has 16384 bytes and cannot hold ", size, " at offset ", offset));
    EXPECT_EQ(mapForeignPiece(loose.get(), 17, 4096).status().code(), NIXL_ERR_BACKEND);
    ASSERT_EQ(fcntl(loose.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    EXPECT_EQ(mapForeignPiece(loose.get(), 0, 4096).status().code(), NIXL_ERR_BACKEND);
    for (const char *path : {"/dev/null", "/dev/zero", "/proc/self/maps", "/etc/passwd", "/dev/shm"}) {
        const ScopedFd other(open(path, O_RDONLY));
        EXPECT_EQ(mapForeignPiece(other.get(), 0, 4096).status().code(), NIXL_ERR_MISMATCH) << path;
    }
    EXPECT_EQ(mapForeignPiece(-1, 0, 4096).status().code(), NIXL_ERR_MISMATCH);
}

TEST(Socket, TellsWhoConnectedAndCarriesDescriptors) {
    const std::string name = concat("nixl-test-", randomKey());
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    EXPECT_EQ(connectAbstract(name, deadline).status().code(), NIXL_ERR_NOT_FOUND);
    auto listener = listenAbstract(name).value();
    EXPECT_FALSE(listenAbstract(name).ok());
    auto client = connectAbstract(name, deadline).value();
    const ScopedFd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    for (const int fd : {client.get(), server.get()}) {
        auto peer = peerCredentials(fd);
        ASSERT_TRUE(peer.ok()) << peer.status().message();
        EXPECT_EQ(peer.value().pid, getpid());
        EXPECT_EQ(peer.value().uid, geteuid());
        EXPECT_TRUE(peer.value().pidfd.valid());
    }

    std::vector<ScopedFd> fds;
    std::array<char, 16> buffer{};
    EXPECT_EQ(receiveSome(server.get(), buffer.data(), buffer.size(), fds).state, IoState::kAgain);
    const std::array<std::string_view, 2> parts{"ab", "cde"};
    EXPECT_EQ(sendSome(client.get(), parts, std::array{0, 1}).bytes, 5U);
    EXPECT_EQ(receiveSome(server.get(), buffer.data(), buffer.size(), fds).bytes, 5U);
    EXPECT_EQ(std::string(buffer.data(), 5), "abcde");
    ASSERT_EQ(fds.size(), 2U);
    EXPECT_NE(fcntl(fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);

    EXPECT_FALSE(waitReady(server.get(), 1 /* POLLIN */, std::chrono::steady_clock::now() + 1ms));
    client.reset();
    EXPECT_EQ(receiveSome(server.get(), buffer.data(), buffer.size(), fds).state, IoState::kClosed);
    EXPECT_EQ(sendSome(server.get(), parts).state, IoState::kClosed); // and no SIGPIPE
}

} // namespace

} // namespace nixl
