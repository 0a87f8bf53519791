// Memory of other processes that is mapped: what is mapped, for how long, and what becomes of everything
// else.
#include "local_fixture.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <new>

#include "engines/local/host_copy.h"

namespace nixl::local {

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::unique_ptr<TargetProcess>
sealedTarget(std::size_t bytes) {
    return std::make_unique<TargetProcess>(bytes, Options(), [] {}, Kind::kSealed);
}

/// Mappings of memory made by SealedMemory in this process.
std::size_t
mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("/memfd:nixl-alloc") != std::string::npos ? 1 : 0;
    return count;
}

TEST(Mapping, OncePerMemoryAndCopiesWithoutSystemCalls) {
    const auto target = sealedTarget(8 * kMiB);
    Node node("initiator", 8 * kMiB);
    Node::Remote &remote = node.load("target", target->card());
    ASSERT_TRUE(node.pathTo(remote).ok());
    EXPECT_EQ(mappings(), 0U); // not before it is needed
    const std::size_t open = descriptors();
    fillPattern(node.memory(), 8 * kMiB, 3);
    const std::uint64_t before = processVmCalls();
    for (int i = 0; i < 5; ++i) {
        Move move(node, remote, NIXL_WRITE, {{0, 0, 8 * kMiB}});
        EXPECT_EQ(move.path().lane, "shared mapping");
        EXPECT_TRUE(move.path().refused.empty());
        ASSERT_EQ(move.run().code, NIXL_SUCCESS);
        EXPECT_EQ(mappings(), 1U);
    }
    EXPECT_EQ(processVmCalls(), before);
    EXPECT_EQ(descriptors(), open); // the mapping needs none
    EXPECT_TRUE(target->ask(concat("m 0 ", 8 * kMiB)) == std::string(node.memory(), 8 * kMiB));
}

TEST(Mapping, EndsWithTheRegistration) {
    const auto target = sealedTarget(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target->card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    ASSERT_EQ(mappings(), 1U);
    EXPECT_EQ(target->ask("d"), "0 ");
    EXPECT_TRUE(eventually([] { return mappings() == 0; })); // although the request still exists
    const Progress stale = move.run();
    EXPECT_EQ(stale.code, NIXL_ERR_NOT_FOUND);
    EXPECT_NE(stale.message.find("is not registered any more"), std::string::npos) << stale.message;
    for (int i = 0; i < 3; ++i) { // and it comes back with the next one
        Node::Remote &again = node.load("target", target->ask("r"));
        Move more(node, again, NIXL_WRITE, {{0, 0, kMiB}});
        EXPECT_EQ(more.path().lane, "shared mapping");
        EXPECT_EQ(more.run().code, NIXL_SUCCESS);
        EXPECT_EQ(mappings(), 1U);
        EXPECT_EQ(target->ask("d"), "0 ");
        EXPECT_TRUE(eventually([] { return mappings() == 0; }));
    }
}

TEST(Mapping, EndsWithThePeer) {
    auto target = sealedTarget(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target->card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    ASSERT_EQ(move.run().code, NIXL_SUCCESS);
    target->child().signal(SIGKILL);
    target->child().wait();
    EXPECT_TRUE(eventually([] { return mappings() == 0; }));
    EXPECT_EQ(move.run().code, NIXL_ERR_REMOTE_DISCONNECT);
}

TEST(Mapping, APeerThatDiesDuringCopiesIsHarmless) {
    constexpr std::size_t kBytes = 64 * kMiB;
    for (int round = 0; round < 5; ++round) {
        const auto target = sealedTarget(kBytes);
        Node node("initiator", kBytes);
        Node::Remote &remote = node.load("target", target->card());
        Move move(node, remote, round % 2 == 0 ? NIXL_WRITE : NIXL_READ, {{0, 0, kBytes}});
        ASSERT_EQ(move.path().lane, "shared mapping");
        ASSERT_EQ(move.run().code, NIXL_SUCCESS);
        std::thread killer([&] { target->child().signal(SIGKILL); });
        Progress progress;
        do
            progress = move.run();
        while (progress.code == NIXL_SUCCESS);
        killer.join();
        EXPECT_EQ(progress.code, NIXL_ERR_REMOTE_DISCONNECT) << progress.message;
    }
}

TEST(Mapping, NoByteLandsAfterDeregistration) {
    constexpr std::size_t kBytes = 4 * kMiB;
    for (int round = 0; round < 10; ++round) {
        ChildProcess writer([&](Line &line) {
            Node node("writer", kBytes);
            std::memset(node.memory(), 0x5a, kBytes);
            Node::Remote &remote = node.load("target", line.receive());
            Move move(node, remote, NIXL_WRITE, {{0, 0, kBytes}});
            line.send(move.path().lane);
            Progress progress;
            do
                progress = move.run();
            while (progress.code == NIXL_SUCCESS);
            line.send(concat(progress.code, " ", progress.message));
            line.receive();
        });
        Node target("target", kBytes, {}, nullptr, Kind::kSealed);
        writer.line().send(target.card());
        ASSERT_EQ(writer.line().receive(), "shared mapping");
        ASSERT_TRUE(eventually([&] { return target.memory()[kBytes - 1] == 0x5a; }));
        std::this_thread::sleep_for(std::chrono::microseconds(300 * round)); // another moment each time
        const Status status = target.leave();
        ASSERT_TRUE(status.ok()) << status.message();
        std::memset(target.memory(), 1, kBytes);
        const std::string outcome = writer.line().receive(); // it has noticed, and copies no more
        EXPECT_TRUE(
            std::all_of(target.memory(), target.memory() + kBytes, [](char byte) { return byte == 1; }));
        EXPECT_EQ(outcome.find(concat(NIXL_ERR_NOT_FOUND, " block 0: the memory at ")), 0U) << outcome;
    }
}

TEST(Mapping, DeregistrationOfLocalMemoryDuringACopy) {
    constexpr std::size_t kBytes = 256 * kMiB;
    const auto target = sealedTarget(kBytes);
    Node node("initiator", kBytes);
    Node::Remote &remote = node.load("target", target->card());
    Move move(node, remote, NIXL_READ, {{0, 0, kBytes}});
    ASSERT_EQ(move.path().lane, "shared mapping");
    ASSERT_EQ(move.post().code, NIXL_IN_PROG);
    ASSERT_TRUE(node.leave().ok());
    std::memset(node.memory(), 3, kBytes);
    ASSERT_TRUE(eventually([&] { return move.check().code != NIXL_IN_PROG; }));
    EXPECT_EQ(move.check().code, NIXL_ERR_NOT_FOUND);
    EXPECT_TRUE(std::all_of(node.memory(), node.memory() + kBytes, [](char byte) { return byte == 3; }));
}

TEST(Mapping, RegistrationsInOneMemoryShareIt) {
    ChildProcess target([](Line &line) {
        const auto memory = SealedMemory::create(kMiB, false).value();
        Node node("target");
        std::vector<std::unique_ptr<LocalRegion>> regions;
        std::string cards = node.engine().connectionInfo().value();
        for (std::uint64_t at = 0; at < kMiB; at += kMiB / 8) {
            regions.push_back(node.engine()
                                  .registerRegion(nixlBlobDesc(memory->address() + at, kMiB / 8, 0), DRAM_SEG)
                                  .value());
            cards += node.engine().publicData(*regions.back()).value();
        }
        line.send(concat(memory->address()));
        line.send(cards);
        line.receive();
        for (std::size_t i = 0; i + 1 < regions.size(); ++i)
            (void)node.engine().deregisterRegion(*regions[i]);
        line.send("all but one");
        line.receive();
        (void)node.engine().deregisterRegion(*regions.back());
        line.send("all");
        line.receive();
    });
    const std::uint64_t address = std::stoull(target.line().receive());
    const std::string cards = target.line().receive();
    Node node("initiator", kMiB);
    constexpr std::size_t kInfo = 84;
    for (std::size_t i = 0; i < 8; ++i) {
        std::string card(reinterpret_cast<const char *>(&address), sizeof address);
        card += cards.substr(kInfo + 16 * i, 16) + cards.substr(0, kInfo);
        Node::Remote &remote = node.load("target", card);
        Move move(node, remote, NIXL_WRITE, {{0, i * kMiB / 8, 4096}});
        EXPECT_EQ(move.path().lane, "shared mapping");
        EXPECT_EQ(move.run().code, NIXL_SUCCESS);
        Move beyond(node, remote, NIXL_WRITE, {{0, (i * kMiB / 8) ^ (kMiB / 8), 4096}});
        EXPECT_EQ(beyond.run().code, NIXL_ERR_NOT_FOUND); // mapped, but of another registration
    }
    EXPECT_EQ(mappings(), 8U); // a connection for each load of the peer
    target.line().send("go on");
    target.line().receive();
    EXPECT_EQ(mappings(), 8U);
    target.line().send("go on");
    target.line().receive();
    EXPECT_TRUE(eventually([] { return mappings() == 0; }));
}

TEST(Mapping, PrivateMemoryIsNotMappedAndThePathSaysSo) {
    TargetProcess target(kMiB);
    Node node("initiator", kMiB, {}, nullptr, Kind::kSealed); // of the initiator it does not matter
    Node::Remote &remote = node.load("target", target.card());
    Move move(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    EXPECT_EQ(move.path().lane, "process_vm");
    ASSERT_EQ(move.path().refused.size(), 1U);
    EXPECT_EQ(move.path().refused[0].first, "shared mapping");
    EXPECT_EQ(move.path().refused[0].second,
              concat("remote region 0 at ", Hex{remote.address},
                     " is not memory that can be mapped (nixl.alloc, or a shared memfd that is sealed with "
                     "F_SEAL_SHRINK and was made known)"));
    EXPECT_EQ(move.run().code, NIXL_SUCCESS);
}

TEST(Mapping, AReadIntoReadOnlyMemoryIsAnErrorAsEver) {
    const auto target = sealedTarget(kMiB);
    Node node("initiator", kMiB);
    Node::Remote &remote = node.load("target", target->card());
    ASSERT_EQ(mprotect(node.memory(), kMiB, PROT_READ), 0);
    Move write(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
    EXPECT_EQ(write.path().lane, "shared mapping");
    EXPECT_EQ(write.run().code, NIXL_SUCCESS);
    Move read(node, remote, NIXL_READ, {{0, 0, kMiB}});
    EXPECT_EQ(read.path().lane, "process_vm");
    EXPECT_EQ(read.path().refused.at(0).second,
              concat("local address ", Hex{node.address()}, " cannot be written"));
    EXPECT_EQ(read.run().code, NIXL_ERR_BACKEND);
}

TEST(Mapping, AStoppedPeerIsNotWaitedForTwice) {
    Options options;
    options.localConnectTimeout = 200ms;
    const auto target = sealedTarget(kMiB);
    Node node("initiator", kMiB, options);
    Node::Remote &remote = node.load("target", target->card());
    ASSERT_TRUE(node.pathTo(remote).ok());
    target->child().stop();
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) {
        Move move(node, remote, NIXL_WRITE, {{0, 0, kMiB}});
        EXPECT_EQ(move.path().lane, "process_vm");
        EXPECT_EQ(move.path().refused.at(0).second, "remote region 0: the peer has not handed it over yet");
        EXPECT_EQ(move.run().code, NIXL_SUCCESS); // a stopped peer can be written to
    }
    EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
    target->child().signal(SIGCONT);
    EXPECT_TRUE(eventually(
        [&] { return Move(node, remote, NIXL_WRITE, {{0, 0, kMiB}}).path().lane == "shared mapping"; }));
}

TEST(Mapping, WritableEnds) {
    constexpr std::size_t kPage = 4096;
    auto *memory = static_cast<char *>(
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    std::memset(memory, 7, 3 * kPage);
    EXPECT_EQ(unwritableEnd(address + 1, 3 * kPage - 2), std::nullopt);
    EXPECT_TRUE(std::all_of(memory, memory + 3 * kPage, [](char byte) { return byte == 7; }));
    ASSERT_EQ(mprotect(memory + 2 * kPage, kPage, PROT_READ), 0);
    EXPECT_EQ(unwritableEnd(address + 1, 3 * kPage - 2), address + 3 * kPage - 2);
    EXPECT_EQ(unwritableEnd(address, 2 * kPage), std::nullopt);
    munmap(memory, kPage);
    EXPECT_EQ(unwritableEnd(address, 2 * kPage), address);
    munmap(memory + kPage, 2 * kPage);
}

} // namespace

} // namespace nixl::local
