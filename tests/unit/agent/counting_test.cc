// What calls cost, counted rather than timed: allocations, look-ups, calls of the kernel.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <numeric>

#include "agent/prepared_list.h"
#include "support/counted_new.h"
#include "unit/agent/agent_fixture.h"

namespace {

std::atomic<std::size_t> randomCalls{0};

} // namespace

/// In the place of libc's.
extern "C" ssize_t
getrandom(void *bytes, size_t count, unsigned flags) {
    randomCalls.fetch_add(1, std::memory_order_relaxed);
    return ::syscall(SYS_getrandom, bytes, count, flags);
}

namespace nixl {
namespace {

/// Moves nothing and allocates only the objects that it must return, so that what is counted is the core's.
class StillEngine : public Engine {
public:
    class Region : public LocalRegion {};

    class LoopbackRegion : public RemoteRegion {};

    class Request : public EngineRequest {
    public:
        Progress
        post(const std::optional<std::string> &) override {
            return {};
        }

        Progress
        check() override {
            return {NIXL_SUCCESS, {}, {}};
        }

        bool
        cancel(std::chrono::milliseconds) override {
            return true;
        }
    };

    const Capabilities &
    capabilities() const override {
        return capabilities_;
    }

    Result<std::unique_ptr<LocalRegion>>
    registerRegion(const nixlBlobDesc &, nixl_mem_t) override {
        return std::unique_ptr<LocalRegion>(std::make_unique<Region>());
    }

    Status
    deregisterRegion(LocalRegion &) override {
        return {};
    }

    Result<std::unique_ptr<RemoteRegion>>
    loopbackRegion(LocalRegion &, const nixlBlobDesc &, nixl_mem_t) override {
        return std::unique_ptr<RemoteRegion>(std::make_unique<LoopbackRegion>());
    }

    Result<Path>
    path(nixl_xfer_op_t, nixl_mem_t, nixl_mem_t, Peer *) override {
        Path path;
        path.lane = "still";
        return path;
    }

    Result<std::unique_ptr<EngineRequest>>
    prepare(const TransferSpec &) override {
        return std::unique_ptr<EngineRequest>(std::make_unique<Request>());
    }

private:
    const Capabilities capabilities_{{DRAM_SEG}, true, false, false};
};

class StillFactory : public EngineFactory {
public:
    explicit StillFactory(const std::string &type) {
        info_.name = type;
        info_.memories = {DRAM_SEG};
    }

    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &) const override {
        return std::unique_ptr<Engine>(std::make_unique<StillEngine>());
    }

private:
    EngineInfo info_;
};

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kMemoryBytes = 1 << 20;

/// An agent with two engines, ONE and TWO. Its memory is never touched.
class Counting : public ::testing::Test {
protected:
    Counting() {
        const std::vector<std::shared_ptr<EngineFactory>> factories = {std::make_shared<StillFactory>("ONE"),
                                                                       std::make_shared<StillFactory>("TWO")};
        overrideProcessRegistry(std::make_shared<EngineRegistry>(factories, std::vector<ModuleAdapter>(),
                                                                 std::vector<std::string>()));
        agent = std::make_unique<nixlAgent>("a", nixlAgentConfig());
        EXPECT_OK(agent->createBackend("ONE", {}, one));
        EXPECT_OK(agent->createBackend("TWO", {}, two));
    }

    ~Counting() override {
        agent.reset();
        overrideProcessRegistry(nullptr);
    }

    /// `count` regions one behind the other.
    static nixl_reg_dlist_t
    regions(std::size_t count, std::size_t bytes) {
        nixl_reg_dlist_t list(DRAM_SEG);
        for (std::size_t i = 0; i < count; ++i)
            list.addDesc(nixlBlobDesc(kBase + i * bytes, bytes, 0, ""));
        return list;
    }

    /// Blocks in an order without runs.
    static nixl_xfer_dlist_t
    scattered(std::size_t count) {
        nixl_xfer_dlist_t list(DRAM_SEG);
        for (std::size_t i = 0; i < count; ++i)
            list.addDesc(nixlBasicDesc(kBase + i * 7919 % count * kBlockBytes, kBlockBytes, 0));
        return list;
    }

    nixlDlistH *
    prepared(const std::string &side, const nixl_xfer_dlist_t &blocks) {
        nixlDlistH *list = nullptr;
        EXPECT_OK(agent->prepXferDlist(side, blocks, list));
        return list;
    }

    template<typename Call>
    static std::size_t
    allocationsOf(Call call) {
        const std::size_t before = test::allocations.load();
        call();
        return test::allocations.load() - before;
    }

    static constexpr std::uintptr_t kBase = 0x10000000;
    std::unique_ptr<nixlAgent> agent;
    nixlBackendH *one = nullptr, *two = nullptr;
};

TEST_F(Counting, ARepostAllocatesNothing) {
    ASSERT_OK(agent->registerMem(regions(1, kMemoryBytes)));
    nixlXferReqH *request = nullptr;
    const nixl_xfer_dlist_t blocks = scattered(1000);
    ASSERT_OK(agent->createXferReq(NIXL_WRITE, blocks, blocks, "a", request));
    const auto run = [&] {
        EXPECT_STATUS(agent->postXferReq(request), NIXL_IN_PROG);
        EXPECT_OK(agent->getXferStatus(request));
    };
    run();
    EXPECT_EQ(allocationsOf(run), 0u);
    EXPECT_OK(agent->releaseXferReq(request));
}

TEST_F(Counting, MakingARequestAllocatesNothingByTheBlock) {
    ASSERT_OK(agent->registerMem(regions(1, kMemoryBytes)));
    nixlDlistH *local = prepared("", scattered(8192)), *remote = prepared("a", scattered(8192));
    std::vector<int> indices(8192);
    std::iota(indices.begin(), indices.end(), 0);
    const auto make = [&](std::size_t count) {
        nixlXferReqH *request = nullptr;
        const std::span<const int> some(indices.data(), count);
        EXPECT_OK(agent->makeXferReq(NIXL_WRITE, *local, some, *remote, some, request));
        EXPECT_OK(agent->releaseXferReq(request));
    };
    make(8192);
    const std::size_t few = allocationsOf([&] { make(16); });
    EXPECT_LE(allocationsOf([&] { make(8192); }), few + 3) << "the texts of explain differ by the number";
    EXPECT_LE(few, 60u);
}

TEST_F(Counting, PreparingAListAllocatesTheSameForAnyNumberOfBlocks) {
    ASSERT_OK(agent->registerMem(regions(1, kMemoryBytes)));
    const nixl_xfer_dlist_t small = scattered(16), large = scattered(8192);
    const auto prepare = [&](const nixl_xfer_dlist_t &blocks) {
        EXPECT_OK(agent->releasedDlistH(prepared("", blocks)));
    };
    prepare(large);
    const std::size_t few = allocationsOf([&] { prepare(small); });
    EXPECT_EQ(allocationsOf([&] { prepare(large); }), few);
}

TEST_F(Counting, KeysOfRegistrationsAreFetchedManyAtATime) {
    const nixl_reg_dlist_t many = regions(1000, 4096);
    const std::size_t before = randomCalls.load();
    ASSERT_OK(agent->registerMem(many));
    EXPECT_LE(randomCalls.load() - before, 2 * (1000 / 32 + 1)) << "two engines";
}

/// Registrations of one kind of memory in two engines, without an agent.
class SharedLists : public ::testing::Test {
protected:
    SharedLists() {
        for (const char *type : {"ONE", "TWO"}) {
            const StillFactory factory(type);
            engines.push_back(
                std::make_shared<EngineSlot>(factory.info(), factory.create(EngineConfig()).value()));
        }
    }

    ~SharedLists() override {
        EXPECT_TRUE(memory.removeAll([](const LocalEntryPtr &) { return Status(); }).ok());
    }

    void
    add(std::size_t engine, std::uintptr_t address, std::size_t length) {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(address, length, 0, ""));
        ASSERT_TRUE(memory.add(engines[engine], list).ok());
    }

    Result<ResolvedList>
    resolveIn(std::size_t engine, const ResolvedList *known) {
        return resolve(BlockInput(blocks), memory, engines[engine], known);
    }

    LocalMemory memory;
    EngineList engines;
    nixl_xfer_dlist_t blocks{DRAM_SEG};
};

TEST_F(SharedLists, EnginesWithTheSameMemoryShareTheBlocks) {
    for (const std::size_t engine : {0u, 1u}) {
        add(engine, 1000, 100);
        add(engine, 2000, 100);
    }
    blocks.addDesc(nixlBasicDesc(2000, 10, 0));
    blocks.addDesc(nixlBasicDesc(1090, 10, 0));
    const auto first = resolveIn(0, nullptr);
    ASSERT_TRUE(first.ok());
    const auto second = resolveIn(1, &first.value());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second.value().blocks, first.value().blocks);
    EXPECT_EQ(second.value().engine, engines[1]);
    ASSERT_EQ(second.value().regions.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(second.value().regions[i]->engine, engines[1]);
        EXPECT_EQ(second.value().regions[i]->desc, first.value().regions[i]->desc);
    }
    EXPECT_EQ(second.value().regions[0]->desc.addr, 2000u) << "numbered as the list meets them";
}

TEST_F(SharedLists, ALargerRegistrationServesTheSameBlocks) {
    add(0, 1000, 100);
    add(0, 1100, 100);
    add(1, 500, 5000);
    blocks.addDesc(nixlBasicDesc(1000, 10, 0));
    blocks.addDesc(nixlBasicDesc(1190, 10, 0));
    const auto first = resolveIn(0, nullptr);
    const auto second = resolveIn(1, &first.value());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second.value().blocks, first.value().blocks);
    ASSERT_EQ(second.value().regions.size(), 2u);
    EXPECT_EQ(second.value().regions[0], second.value().regions[1]);
    EXPECT_EQ(second.value().regions[0]->desc.addr, 500u);
}

TEST_F(SharedLists, WhereMemoryIsRegisteredOtherwiseBlocksAreLookedUp) {
    add(0, 1000, 200);
    add(1, 1000, 100);
    add(1, 1100, 100);
    blocks.addDesc(nixlBasicDesc(1190, 10, 0));
    blocks.addDesc(nixlBasicDesc(1000, 10, 0));
    const auto first = resolveIn(0, nullptr);
    const auto second = resolveIn(1, &first.value());
    ASSERT_TRUE(second.ok());
    EXPECT_NE(second.value().blocks, first.value().blocks);
    ASSERT_EQ(second.value().regions.size(), 2u);
    EXPECT_EQ(second.value().regions[0]->desc.addr, 1100u);
    BlockList::Cursor cursor(*second.value().blocks);
    EXPECT_EQ(cursor.at(0).region, 0u);
    EXPECT_EQ(cursor.at(1).region, 1u);

    blocks.addDesc(nixlBasicDesc(1095, 10, 0)); // across the border of the two
    const auto whole = resolveIn(0, nullptr);
    ASSERT_TRUE(whole.ok());
    const auto refused = resolveIn(1, &whole.value());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("block 2"));
}

} // namespace
} // namespace nixl
