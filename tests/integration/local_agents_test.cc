// Programs of the public interface over LOCAL: agents of one process, and of two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "nixl.h"
#include "nixl_ext.h"
#include "support/child_process.h"

namespace {

using nixl::ChildProcess;
using nixl::Line;
using ::testing::HasSubstr;

std::string
statusName(nixl_status_t status) {
    return nixlEnumStrings::statusStr(status);
}

#define EXPECT_STATUS(call, expected) EXPECT_EQ(statusName(call), statusName(expected)) << nixl_last_error()
#define ASSERT_STATUS(call, expected) ASSERT_EQ(statusName(call), statusName(expected)) << nixl_last_error()

bool
full() {
    return std::getenv("TEST_FULL") != nullptr;
}

/// Memory whose every 8-byte word differs, and differs from that of another seed.
class Memory {
public:
    Memory(std::size_t bytes, std::uint64_t seed) : words_(bytes / 8) {
        fill(seed);
    }

    void
    fill(std::uint64_t seed) {
        for (std::size_t i = 0; i < words_.size(); ++i)
            words_[i] = word(i, seed);
    }

    static std::uint64_t
    word(std::size_t i, std::uint64_t seed) {
        return (seed << 56) + i * 0x9E3779B97F4A7C15u;
    }

    std::uintptr_t
    at(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(words_.data()) + offset;
    }

    std::size_t
    size() const {
        return words_.size() * 8;
    }

    nixl_reg_dlist_t
    region() const {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(at(), size(), 0, ""));
        return list;
    }

    /// Block `block` of `bytes` holds the source's block `from` of a memory of this seed.
    bool
    holds(std::size_t block, std::size_t bytes, std::size_t from, std::uint64_t seed) const {
        for (std::size_t i = 0; i < bytes / 8; ++i) {
            if (words_[block * bytes / 8 + i] != word(from * bytes / 8 + i, seed))
                return false;
        }
        return true;
    }

private:
    std::vector<std::uint64_t> words_;
};

/// An agent with LOCAL.
std::unique_ptr<nixlAgent>
makeAgent(const std::string &name, bool telemetry = false) {
    auto agent = std::make_unique<nixlAgent>(
        name, nixlAgentConfig(true, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE, 1, 0, 0, telemetry));
    nixlBackendH *backend = nullptr;
    EXPECT_STATUS(agent->createBackend("LOCAL", {}, backend), NIXL_SUCCESS);
    return agent;
}

std::string
metadata(nixlAgent &agent) {
    nixl_blob_t blob;
    EXPECT_STATUS(agent.getLocalMD(blob), NIXL_SUCCESS);
    return blob;
}

nixl_status_t
run(nixlAgent &agent, nixlXferReqH *request, const nixl_opt_args_t *args = nullptr) {
    nixl_status_t status = agent.postXferReq(request, args);
    while (status == NIXL_IN_PROG)
        status = agent.getXferStatus(request);
    return status;
}

/// Waits for messages from `from`.
std::vector<std::string>
messages(nixlAgent &agent, const std::string &from, std::size_t count) {
    nixl_notifs_t notifs;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (notifs[from].size() < count && std::chrono::steady_clock::now() < end) {
        EXPECT_STATUS(agent.getNotifs(notifs), NIXL_SUCCESS);
        std::this_thread::yield();
    }
    return notifs[from];
}

nixl_xfer_dlist_t
blockList(const Memory &memory, const std::vector<std::size_t> &order, std::size_t bytes) {
    nixl_xfer_dlist_t list(DRAM_SEG);
    for (const std::size_t block : order)
        list.addDesc(nixlBasicDesc(memory.at(block * bytes), bytes, 0));
    return list;
}

std::vector<std::size_t>
shuffled(std::size_t count, unsigned seed) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

/// Scattered blocks in both directions between `agent` and a peer whose memory is at `remote`.
void
moveScattered(nixlAgent &agent, Memory &memory, const std::string &peer, std::uintptr_t remote,
              const std::function<void(std::uint64_t seed)> &refill,
              const std::function<bool(const std::vector<std::size_t> &, std::size_t,
                                       const std::vector<std::size_t> &)> &check) {
    for (const std::size_t bytes : {std::size_t{512}, std::size_t{4096}}) {
        const std::size_t count = memory.size() / bytes;
        const auto from = shuffled(count, 1), to = shuffled(count, 2);
        nixl_xfer_dlist_t there(DRAM_SEG);
        for (const std::size_t block : to)
            there.addDesc(nixlBasicDesc(remote + block * bytes, bytes, 0));
        std::vector<int> indices(count);
        std::iota(indices.begin(), indices.end(), 0);
        nixlDlistH *localSide = nullptr, *remoteSide = nullptr;
        ASSERT_STATUS(agent.prepXferDlist(blockList(memory, from, bytes), localSide), NIXL_SUCCESS);
        ASSERT_STATUS(agent.prepXferDlist(peer, there, remoteSide), NIXL_SUCCESS);
        nixlXferReqH *write = nullptr, *read = nullptr;
        ASSERT_STATUS(agent.makeXferReq(NIXL_WRITE, localSide, indices, remoteSide, indices, write),
                      NIXL_SUCCESS);
        ASSERT_STATUS(agent.makeXferReq(NIXL_READ, localSide, indices, remoteSide, indices, read),
                      NIXL_SUCCESS);
        memory.fill(1);
        ASSERT_STATUS(run(agent, write), NIXL_SUCCESS);
        ASSERT_TRUE(check(to, bytes, from)) << "WRITE of " << bytes;
        refill(2);
        ASSERT_STATUS(run(agent, read), NIXL_SUCCESS);
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_TRUE(memory.holds(from[i], bytes, to[i], 2)) << "READ of " << bytes << ", block " << i;
        for (nixlXferReqH *request : {write, read})
            EXPECT_STATUS(agent.releaseXferReq(request), NIXL_SUCCESS);
        for (nixlDlistH *list : {localSide, remoteSide})
            EXPECT_STATUS(agent.releasedDlistH(list), NIXL_SUCCESS);
    }
}

TEST(LocalAgents, ScatteredBlocksWithinAProcess) {
    auto a = makeAgent("a"), b = makeAgent("b");
    Memory here(4 << 20, 1), there(4 << 20, 2);
    ASSERT_STATUS(a->registerMem(here.region()), NIXL_SUCCESS);
    ASSERT_STATUS(b->registerMem(there.region()), NIXL_SUCCESS);
    std::string who;
    ASSERT_STATUS(a->loadRemoteMD(metadata(*b), who), NIXL_SUCCESS);
    moveScattered(
        *a, here, "b", there.at(), [&](std::uint64_t seed) { there.fill(seed); },
        [&](const auto &to, std::size_t bytes, const auto &from) {
            for (std::size_t i = 0; i < to.size(); ++i) {
                if (!there.holds(to[i], bytes, from[i], 1))
                    return false;
            }
            return true;
        });
}

/// The other process: registers memory, then does what it is asked.
void
peerProcess(Line &line) {
    auto agent = makeAgent("b");
    Memory memory(std::stoull(line.receive()), 2);
    ASSERT_STATUS(agent->registerMem(memory.region()), NIXL_SUCCESS);
    line.send(metadata(*agent));
    line.send(std::to_string(memory.at()));
    for (std::string order = line.receive(); order != "quit"; order = line.receive()) {
        if (order == "fill") {
            memory.fill(std::stoull(line.receive()));
            line.send("ok");
        } else if (order == "check") {
            const std::size_t bytes = std::stoull(line.receive());
            const std::size_t count = memory.size() / bytes;
            const auto from = shuffled(count, 1), to = shuffled(count, 2);
            bool right = true;
            for (std::size_t i = 0; i < count; ++i)
                right = right && memory.holds(to[i], bytes, from[i], 1);
            line.send(right ? "right" : "wrong");
        } else if (order == "notifs") {
            std::string all;
            for (const std::string &message : messages(*agent, "a", std::stoull(line.receive())))
                all += message + ",";
            line.send(all);
        } else if (order == "deregister") {
            line.send(statusName(agent->deregisterMem(memory.region())));
        }
    }
}

class LocalProcesses : public ::testing::Test {
protected:
    void
    SetUp() override {
        child_ = std::make_unique<ChildProcess>(peerProcess);
        agent_ = makeAgent("a", true);
        memory_ = std::make_unique<Memory>(4 << 20, 1);
        ASSERT_STATUS(agent_->registerMem(memory_->region()), NIXL_SUCCESS);
        ask(std::to_string(memory_->size()));
        std::string who;
        ASSERT_STATUS(agent_->loadRemoteMD(child_->line().receive(), who), NIXL_SUCCESS);
        remote_ = std::stoull(child_->line().receive());
    }

    void
    TearDown() override {
        ask("quit");
    }

    void
    ask(const std::string &order) {
        child_->line().send(order);
    }

    nixlXferReqH *
    request(nixl_xfer_op_t operation, std::size_t bytes, const nixl_opt_args_t *args = nullptr) {
        nixl_xfer_dlist_t here(DRAM_SEG), there(DRAM_SEG);
        here.addDesc(nixlBasicDesc(memory_->at(), bytes, 0));
        there.addDesc(nixlBasicDesc(remote_, bytes, 0));
        nixlXferReqH *made = nullptr;
        EXPECT_STATUS(agent_->createXferReq(operation, here, there, "b", made, args), NIXL_SUCCESS);
        return made;
    }

    std::unique_ptr<ChildProcess> child_;
    std::unique_ptr<nixlAgent> agent_;
    std::unique_ptr<Memory> memory_;
    std::uintptr_t remote_ = 0;
};

TEST_F(LocalProcesses, ScatteredBlocks) {
    moveScattered(
        *agent_, *memory_, "b", remote_,
        [&](std::uint64_t seed) {
            ask("fill");
            ask(std::to_string(seed));
            ASSERT_EQ(child_->line().receive(), "ok");
        },
        [&](const auto &, std::size_t bytes, const auto &) {
            ask("check");
            ask(std::to_string(bytes));
            return child_->line().receive() == "right";
        });
}

TEST_F(LocalProcesses, ExplainTellsTheLane) {
    nixlPathExplanation why;
    ASSERT_STATUS(nixlExplain(*agent_, request(NIXL_WRITE, 64), why), NIXL_SUCCESS);
    EXPECT_EQ(why.backend, "LOCAL");
    EXPECT_EQ(why.path, "process_vm");
    EXPECT_THAT(why.toString(), HasSubstr("process_vm"));
}

// C04 over a real engine.
TEST_F(LocalProcesses, C04_RepostWithAnotherNotification) {
    nixl_opt_args_t first, second, none;
    first.notif = "a";
    second.notif = "b";
    nixlXferReqH *write = request(NIXL_WRITE, 4096, &first);
    EXPECT_STATUS(run(*agent_, write), NIXL_SUCCESS);
    EXPECT_STATUS(run(*agent_, write, &second), NIXL_SUCCESS);
    EXPECT_STATUS(run(*agent_, write), NIXL_SUCCESS);
    EXPECT_STATUS(run(*agent_, write, &none), NIXL_SUCCESS);
    EXPECT_STATUS(run(*agent_, write), NIXL_SUCCESS);
    EXPECT_STATUS(agent_->genNotif("b", "end"), NIXL_SUCCESS);
    ask("notifs");
    ask("4");
    EXPECT_EQ(child_->line().receive(), "a,b,b,end,");
}

TEST_F(LocalProcesses, MemoryThatThePeerDeregisteredIsRefused) {
    nixlXferReqH *write = request(NIXL_WRITE, 4096);
    ASSERT_STATUS(run(*agent_, write), NIXL_SUCCESS);
    ask("deregister");
    ASSERT_EQ(child_->line().receive(), "NIXL_SUCCESS");
    EXPECT_STATUS(run(*agent_, write), NIXL_ERR_NOT_FOUND);
}

TEST_F(LocalProcesses, TelemetryTellsWhatWasMoved) {
    nixlXferReqH *write = request(NIXL_WRITE, 3 << 20);
    ASSERT_STATUS(run(*agent_, write), NIXL_SUCCESS);
    nixl_xfer_telem_t times;
    ASSERT_STATUS(agent_->getXferTelemetry(write, times), NIXL_SUCCESS);
    EXPECT_EQ(times.totalBytes, std::size_t{3} << 20);
    EXPECT_EQ(times.descCount, 1u);
    EXPECT_GT(times.xferDuration.count(), 0);
}

// 0 under sanitizers: they keep freed memory, and report leaks by themselves.
/// Memory that stays resident may grow by `slack`. Sanitizers keep freed memory, so there it says nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EXPECT_NO_GROWTH(before, slack) (void)(before)
#else
#define EXPECT_NO_GROWTH(before, slack) EXPECT_LT(residentBytes(), (before) + (std::size_t{slack} << 20))
#endif

std::size_t
residentBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#endif
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident * 4096;
}

// C12: the memory of a process that makes and releases requests without end stays flat.
TEST_F(LocalProcesses, C12_NoLeakOverManyRequests) {
    const int rounds = full() ? 1000000 : 20000;
    const auto cycle = [&](int count) {
        for (int i = 0; i < count; ++i) {
            nixlXferReqH *write = request(NIXL_WRITE, 4096);
            ASSERT_EQ(run(*agent_, write), NIXL_SUCCESS);
            ASSERT_EQ(agent_->releaseXferReq(write), NIXL_SUCCESS);
        }
    };
    cycle(rounds / 10);
    const std::size_t before = residentBytes();
    cycle(rounds);
    EXPECT_NO_GROWTH(before, 5);
}

TEST(LocalMemory, C12_NoLeakOverFailingPreparations) {
    auto agent = makeAgent("a");
    Memory memory(1 << 20, 1);
    ASSERT_STATUS(agent->registerMem(memory.region()), NIXL_SUCCESS);
    nixl_xfer_dlist_t list(DRAM_SEG);
    list.addDesc(nixlBasicDesc(memory.at(), 64, 0));
    list.addDesc(nixlBasicDesc(0x1000, 64, 0));
    ::testing::internal::CaptureStderr();
    const auto cycle = [&](int count) {
        for (int i = 0; i < count; ++i) {
            nixlDlistH *handle = nullptr;
            ASSERT_EQ(agent->prepXferDlist(list, handle), NIXL_ERR_NOT_FOUND);
            ASSERT_EQ(handle, nullptr);
        }
    };
    cycle(1000);
    const std::size_t before = residentBytes();
    cycle(full() ? 100000 : 5000);
    EXPECT_NO_GROWTH(before, 5);
    (void)::testing::internal::GetCapturedStderr();
}

// C13 over a real engine.
TEST(LocalMemory, C13_RegisteredTwiceIsDeregisteredTwice) {
    auto agent = makeAgent("a");
    Memory memory(1 << 20, 1);
    nixl_reg_dlist_t twice = memory.region();
    twice.addDesc(memory.region()[0]);
    for (int round = 0; round < 3; ++round) {
        ASSERT_STATUS(agent->registerMem(memory.region()), NIXL_SUCCESS);
        ASSERT_STATUS(agent->registerMem(memory.region()), NIXL_SUCCESS);
        EXPECT_STATUS(agent->deregisterMem(twice), NIXL_SUCCESS);
        EXPECT_STATUS(agent->deregisterMem(memory.region()), NIXL_ERR_NOT_FOUND);
    }
}

// C17: many views of one buffer, registered and deregistered again and again: no round does more than
// another. Work is counted in bytes of memory that stay; time is for people.
TEST(LocalMemory, C17_ManyViewsManyRounds) {
    auto agent = makeAgent("a");
    const std::size_t views = full() ? 10000 : 2000, bytes = 200 * 1000;
    const std::size_t total = views * bytes;
    void *buffer =
        mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(buffer, MAP_FAILED);
    nixl_reg_dlist_t list(DRAM_SEG);
    for (std::size_t i = 0; i < views; ++i)
        list.addDesc(nixlBlobDesc(reinterpret_cast<std::uintptr_t>(buffer) + i * bytes, bytes, 0, ""));
    std::size_t after_second = 0;
    double second = 0, last = 0;
    for (int round = 1; round <= 60; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        ASSERT_STATUS(agent->registerMem(list), NIXL_SUCCESS);
        ASSERT_STATUS(agent->deregisterMem(list), NIXL_SUCCESS);
        last = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (round == 2) {
            second = last;
            after_second = residentBytes();
        }
    }
    RecordProperty("round_2_ms", std::to_string(second * 1e3));
    RecordProperty("round_60_ms", std::to_string(last * 1e3));
    EXPECT_NO_GROWTH(after_second, 2);
    munmap(buffer, total);
}

// C19 over a real engine: the bytes behind the larger registration really move.
TEST(LocalMemory, C19_PointerRecycledWithALargerSize) {
    auto agent = makeAgent("a");
    Memory memory(64 << 10, 1), target(64 << 10, 2);
    nixl_reg_dlist_t small(DRAM_SEG);
    small.addDesc(nixlBlobDesc(memory.at(), 16 << 10, 0, ""));
    ASSERT_STATUS(agent->registerMem(small), NIXL_SUCCESS);
    ASSERT_STATUS(agent->registerMem(memory.region()), NIXL_SUCCESS);
    ASSERT_STATUS(agent->registerMem(target.region()), NIXL_SUCCESS);
    nixl_xfer_dlist_t here(DRAM_SEG), there(DRAM_SEG);
    here.addDesc(nixlBasicDesc(memory.at(), memory.size(), 0));
    there.addDesc(nixlBasicDesc(target.at(), target.size(), 0));
    nixlXferReqH *write = nullptr;
    ASSERT_STATUS(agent->createXferReq(NIXL_WRITE, here, there, "a", write), NIXL_SUCCESS);
    EXPECT_STATUS(run(*agent, write), NIXL_SUCCESS);
    EXPECT_TRUE(target.holds(0, target.size(), 0, 1));
    EXPECT_STATUS(agent->releaseXferReq(write), NIXL_SUCCESS);
    EXPECT_STATUS(agent->deregisterMem(small), NIXL_SUCCESS);
    EXPECT_STATUS(agent->deregisterMem(memory.region()), NIXL_SUCCESS);
}

} // namespace
