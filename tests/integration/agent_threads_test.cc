// One agent in the hands of many threads, over each engine. What it shows best it shows under
// ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nixl.h"
#include "nixl_ext.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = 1024;

struct Drive {
    const char *name;
    const char *backend;
    bool progressThread;
    nixl_thread_sync_t sync;
};

const Drive kDrives[] = {
    {"LOCAL", "LOCAL", true, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE},
    {"UCX", "UCX", true, nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE},
    {"UCX_no_thread", "UCX", false, nixl_thread_sync_t::NIXL_THREAD_SYNC_STRICT},
};

/// An agent of this process with memory that it knows the content of.
class Member {
public:
    Member(const std::string &name, const Drive &drive, std::size_t bytes, char fill)
        : name_(name), memory_(bytes, fill),
          agent_(name, nixlAgentConfig(drive.progressThread, false, 0, drive.sync)) {
        nixl_b_params_t params;
        if (std::string(drive.backend) == "UCX")
            params["engine_config"] = "TLS=tcp,NET_DEVICES=lo";
        nixlBackendH *backend = nullptr;
        EXPECT_EQ(agent_.createBackend(drive.backend, params, backend), NIXL_SUCCESS) << nixl_last_error();
        EXPECT_EQ(agent_.registerMem(region()), NIXL_SUCCESS) << nixl_last_error();
    }

    nixl_reg_dlist_t
    region() const {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(at(0), memory_.size(), 0, ""));
        return list;
    }

    nixl_blob_t
    metadata() {
        nixl_blob_t blob;
        EXPECT_EQ(agent_.getLocalMD(blob), NIXL_SUCCESS);
        return blob;
    }

    nixl_status_t
    learn(const nixl_blob_t &blob) {
        std::string who;
        return agent_.loadRemoteMD(blob, who);
    }

    /// Blocks `first`, `first + 2`, ... so that none continues another one.
    nixl_xfer_dlist_t
    blocks(std::size_t first, std::size_t count) const {
        nixl_xfer_dlist_t list(DRAM_SEG);
        for (std::size_t i = 0; i < count; ++i)
            list.addDesc(nixlBasicDesc(at((first + 2 * i) * kBlock), kBlock, 0));
        return list;
    }

    std::uintptr_t
    at(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
    }

    std::string &
    memory() {
        return memory_;
    }

    nixlAgent &
    operator*() {
        return agent_;
    }

    nixlAgent *
    operator->() {
        return &agent_;
    }

    const std::string &
    name() const {
        return name_;
    }

private:
    const std::string name_;
    std::string memory_;
    nixlAgent agent_;
};

/// The last status of a run.
nixl_status_t
finish(nixlAgent &agent, nixlXferReqH *request, nixl_status_t status) {
    const auto limit = Clock::now() + 60s;
    while (status == NIXL_IN_PROG && Clock::now() < limit)
        status = agent.getXferStatus(request);
    return status;
}

class AgentThreads : public ::testing::TestWithParam<Drive> {
protected:
    void
    SetUp() override {
        setenv("NIXL_LOCAL", std::string(GetParam().backend) == "LOCAL" ? "on" : "off", 1);
    }

    void
    TearDown() override {
        unsetenv("NIXL_LOCAL");
    }
};

// C44: peers come and go while others transfer, send and register.
TEST_P(AgentThreads, C44_EveryCallBesidesEveryOther) {
    const auto time = std::getenv("TEST_FULL") != nullptr ? 60s : 2s;
    constexpr std::size_t kBlocks = 16;
    constexpr std::size_t kBytes = 4 * kBlocks * kBlock;
    Member hub("hub", GetParam(), 4 * kBytes, 'h');
    Member steady("steady", GetParam(), 4 * kBytes, 's');
    std::vector<std::unique_ptr<Member>> guests;
    for (int i = 0; i < 4; ++i)
        guests.push_back(std::make_unique<Member>("guest" + std::to_string(i), GetParam(), kBytes, 'g'));
    ASSERT_EQ(hub.learn(steady.metadata()), NIXL_SUCCESS);
    ASSERT_EQ(steady.learn(hub.metadata()), NIXL_SUCCESS);
    std::vector<nixl_blob_t> blobs;
    for (const auto &guest : guests)
        blobs.push_back(guest->metadata());

    std::atomic<bool> stop{false};
    std::atomic<std::size_t> sent{0}, moved{0}, visits{0};
    std::vector<std::thread> threads;
    const auto loop = [&](std::function<void(std::size_t)> body) {
        threads.emplace_back([&stop, body = std::move(body)] {
            for (std::size_t round = 0; !stop.load(); ++round)
                body(round);
        });
    };
    const auto expect = [](nixl_status_t status, const std::set<nixl_status_t> &allowed, const char *call) {
        EXPECT_EQ(allowed.count(status), 1U)
            << call << ": " << nixlEnumStrings::statusStr(status) << ": " << nixl_last_error();
    };
    // Peers come and go, and are reached now and then, whatever becomes of it.
    loop([&](std::size_t round) {
        const std::size_t which = round % guests.size();
        expect(hub.learn(blobs[which]), {NIXL_SUCCESS}, "load");
        nixlXferReqH *request = nullptr;
        nixl_status_t status = hub->createXferReq(NIXL_WRITE, hub.blocks(192, 2), guests[which]->blocks(0, 2),
                                                  guests[which]->name(), request);
        expect(status, {NIXL_SUCCESS}, "create");
        if (request != nullptr) {
            expect(finish(*hub, request, hub->postXferReq(request)), {NIXL_SUCCESS}, "write to a guest");
            if (round % 2 == 0) {
                expect(hub->releaseXferReq(request), {NIXL_SUCCESS}, "release");
                request = nullptr;
            }
        }
        expect(hub->invalidateRemoteMD(guests[which]->name()), {NIXL_SUCCESS}, "invalidate");
        if (request != nullptr) {
            expect(hub->postXferReq(request), {NIXL_ERR_NOT_FOUND}, "post of a stale request");
            expect(hub->releaseXferReq(request), {NIXL_SUCCESS}, "release");
        }
        visits.fetch_add(1);
    });
    // Transfers with one who stays are never disturbed.
    for (std::size_t i = 0; i < 3; ++i) {
        loop([&, i](std::size_t round) {
            const std::size_t first = i * 2 * kBlocks;
            nixlXferReqH *request = nullptr;
            const nixl_xfer_op_t operation = round % 2 == 0 ? NIXL_WRITE : NIXL_READ;
            expect(hub->createXferReq(operation, hub.blocks(first, kBlocks), steady.blocks(first, kBlocks),
                                      "steady", request),
                   {NIXL_SUCCESS}, "create");
            if (request == nullptr)
                return;
            expect(finish(*hub, request, hub->postXferReq(request)), {NIXL_SUCCESS}, "transfer");
            expect(hub->releaseXferReq(request), {NIXL_SUCCESS}, "release");
            moved.fetch_add(1);
        });
    }
    loop([&](std::size_t) {
        expect(hub->genNotif("steady", "message"), {NIXL_SUCCESS}, "genNotif");
        sent.fetch_add(1);
        if (sent.load() % 16 == 0)
            std::this_thread::sleep_for(1ms);
    });
    loop([&](std::size_t round) {
        std::string memory(kBlock * (1 + round % 3), 'r');
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0, ""));
        expect(hub->registerMem(list), {NIXL_SUCCESS}, "register");
        nixl_blob_t blob;
        expect(hub->getLocalMD(blob), {NIXL_SUCCESS}, "metadata");
        expect(hub->deregisterMem(list), {NIXL_SUCCESS}, "deregister");
    });
    std::size_t received = 0;
    const auto take = [&](nixlAgent &agent) {
        nixl_notifs_t notifs;
        expect(agent.getNotifs(notifs), {NIXL_SUCCESS}, "getNotifs");
        return notifs["hub"].size();
    };
    const auto limit = Clock::now() + time;
    // Without a thread of its own an agent answers nobody but in its calls.
    while (Clock::now() < limit) {
        received += take(*steady);
        take(*hub);
        for (const auto &guest : guests)
            take(**guest);
    }
    stop.store(true);
    std::atomic<bool> joined{false};
    std::thread driver([&] {
        while (!joined.load()) {
            for (const auto &guest : guests)
                take(**guest);
            received += take(*steady);
        }
    });
    for (std::thread &thread : threads)
        thread.join();
    joined.store(true);
    driver.join();
    for (const auto end = Clock::now() + 60s; received < sent.load() && Clock::now() < end;) {
        take(*hub); // without a thread this sends what waits
        received += take(*steady);
    }
    EXPECT_EQ(received, sent.load());
    EXPECT_GT(moved.load(), 0U);
    EXPECT_GT(visits.load(), 0U);
    for (const auto &guest : guests)
        EXPECT_EQ(guest->memory().substr(0, kBlock), std::string(kBlock, 'h'));
}

// C46: handles of their own, one agent. Nothing is asserted about rates.
TEST_P(AgentThreads, C46_FourThreadsMoveWithHandlesOfTheirOwn) {
    constexpr std::size_t kBlocks = 128;
    constexpr std::size_t kThreads = 4;
    const std::size_t rounds = std::getenv("TEST_FULL") != nullptr ? 2000 : 50;
    Member here("here", GetParam(), 2 * kThreads * kBlocks * kBlock, 0);
    Member there("there", GetParam(), 2 * kThreads * kBlocks * kBlock, 0);
    ASSERT_EQ(here.learn(there.metadata()), NIXL_SUCCESS);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            const std::size_t first = thread * 2 * kBlocks;
            nixlXferReqH *request = nullptr;
            ASSERT_EQ(here->createXferReq(NIXL_WRITE, here.blocks(first, kBlocks),
                                          there.blocks(first, kBlocks), "there", request),
                      NIXL_SUCCESS)
                << nixl_last_error();
            for (std::size_t round = 1; round <= rounds; ++round) {
                for (std::size_t i = 0; i < kBlocks; ++i)
                    here.memory()[(first + 2 * i) * kBlock] = static_cast<char>(round + i);
                ASSERT_EQ(finish(*here, request, here->postXferReq(request)), NIXL_SUCCESS)
                    << nixl_last_error();
                for (std::size_t i = 0; i < kBlocks; ++i)
                    ASSERT_EQ(there.memory()[(first + 2 * i) * kBlock], static_cast<char>(round + i))
                        << "round " << round << ", block " << i;
            }
            EXPECT_EQ(here->releaseXferReq(request), NIXL_SUCCESS);
        });
    }
    // The target has no thread of its own where it is not given one.
    std::atomic<bool> stop{false};
    std::thread driver([&] {
        nixl_notifs_t notifs;
        while (!stop.load()) {
            EXPECT_EQ(there->getNotifs(notifs), NIXL_SUCCESS);
            std::this_thread::yield();
        }
    });
    for (std::thread &thread : threads)
        thread.join();
    stop.store(true);
    driver.join();
}

INSTANTIATE_TEST_SUITE_P(Engines, AgentThreads, ::testing::ValuesIn(kDrives),
                         [](const auto &drive) { return std::string(drive.param.name); });

} // namespace
