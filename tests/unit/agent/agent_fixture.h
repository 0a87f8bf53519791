// Agents over fake engines.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/process_registry.h"
#include "nixl.h"
#include "nixl_ext.h"
#include "support/fake_engine.h"
#include "support/log_capture.h"

namespace nixl {

inline std::string
name(nixl_status_t status) {
    return nixlEnumStrings::statusStr(status);
}

/// Compares statuses by name, so that failures read well.
#define EXPECT_STATUS(call, expected)                                                                        \
    EXPECT_EQ(::nixl::name(call), ::nixl::name(expected)) << nixl_last_error()
#define ASSERT_STATUS(call, expected)                                                                        \
    ASSERT_EQ(::nixl::name(call), ::nixl::name(expected)) << nixl_last_error()
#define EXPECT_OK(call) EXPECT_STATUS(call, NIXL_SUCCESS)
#define ASSERT_OK(call) ASSERT_STATUS(call, NIXL_SUCCESS)

/// Two agents, "a" and "b", with an engine FAKE each; more engines by addEngine before makeAgents.
class AgentTest : public ::testing::Test {
protected:
    AgentTest() {
        fake = addEngine("FAKE");
    }

    ~AgentTest() override {
        a.reset();
        b.reset();
        overrideProcessRegistry(nullptr);
        for (const auto &settings : engines_) {
            EXPECT_THAT(settings->violations(), ::testing::IsEmpty());
            const FakeLive live = settings->live();
            EXPECT_EQ(live.engines, 0);
            EXPECT_EQ(live.localRegions, 0);
            EXPECT_EQ(live.remoteRegions, 0);
            EXPECT_EQ(live.peers, 0);
            EXPECT_EQ(live.requests, 0);
        }
    }

    std::shared_ptr<FakeSettings>
    addEngine(const std::string &type) {
        auto settings = std::make_shared<FakeSettings>();
        settings->name = type;
        engines_.push_back(settings);
        return settings;
    }

    /// Makes the agents and creates every engine in both, in the order of addEngine.
    void
    makeAgents(const nixlAgentConfig &config = nixlAgentConfig()) {
        useRegistry();
        a = std::make_unique<nixlAgent>("a", config);
        b = std::make_unique<nixlAgent>("b", config);
        for (const auto &settings : engines_) {
            nixlBackendH *backend = nullptr;
            ASSERT_OK(a->createBackend(settings->name, {}, backend));
            backendsOfA.push_back(backend);
            ASSERT_OK(b->createBackend(settings->name, {}, backend));
            backendsOfB.push_back(backend);
        }
    }

    void
    useRegistry() {
        std::vector<std::shared_ptr<EngineFactory>> factories;
        for (const auto &settings : engines_)
            factories.push_back(std::make_shared<FakeEngineFactory>(settings));
        overrideProcessRegistry(std::make_shared<EngineRegistry>(
            std::move(factories), std::vector<ModuleAdapter>(), std::vector<std::string>()));
    }

    /// Registers `memoryA` and `memoryB` and lets a know b.
    void
    connect() {
        fill();
        ASSERT_OK(a->registerMem(regions(memoryA)));
        ASSERT_OK(b->registerMem(regions(memoryB)));
        load();
    }

    void
    load() {
        nixl_blob_t blob;
        std::string who;
        ASSERT_OK(b->getLocalMD(blob));
        ASSERT_OK(a->loadRemoteMD(blob, who));
        ASSERT_EQ(who, "b");
    }

    void
    fill() {
        for (std::size_t i = 0; i < memoryA.size(); ++i) {
            memoryA[i] = static_cast<char>('A' + i % 23);
            memoryB[i] = static_cast<char>('a' + i % 19);
        }
    }

    static nixl_reg_dlist_t
    regions(const std::string &memory) {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(address(memory), memory.size(), 0, ""));
        return list;
    }

    static std::uintptr_t
    address(const std::string &memory, std::size_t offset = 0) {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
    }

    /// Blocks (offset, length) of a memory.
    static nixl_xfer_dlist_t
    blocks(const std::string &memory, const std::vector<std::pair<std::size_t, std::size_t>> &pieces) {
        nixl_xfer_dlist_t list(DRAM_SEG);
        for (const auto &[offset, length] : pieces)
            list.addDesc(nixlBasicDesc(address(memory, offset), length, 0));
        return list;
    }

    /// A request of one block of 64 bytes at offset 0 on both sides.
    nixlXferReqH *
    simpleRequest(nixl_xfer_op_t operation = NIXL_WRITE, const nixl_opt_args_t *args = nullptr) {
        nixlXferReqH *request = nullptr;
        EXPECT_OK(a->createXferReq(operation, blocks(memoryA, {{0, 64}}), blocks(memoryB, {{0, 64}}), "b",
                                   request, args));
        return request;
    }

    void
    script(const std::function<void(FakeScript &)> &change) {
        fake->edit(change);
    }

    std::shared_ptr<FakeSettings> fake;
    std::string memoryA = std::string(4096, 0), memoryB = std::string(4096, 0);
    std::unique_ptr<nixlAgent> a, b;
    std::vector<nixlBackendH *> backendsOfA, backendsOfB;

private:
    std::vector<std::shared_ptr<FakeSettings>> engines_;
};

} // namespace nixl
