#include "engine/engine.h"

#include <gmock/gmock.h>

namespace nixl {

namespace {

/// An engine that has only what it must have.
class LeastEngine : public Engine {
public:
    const Capabilities &
    capabilities() const override {
        return capabilities_;
    }

    Result<std::unique_ptr<LocalRegion>>
    registerRegion(const nixlBlobDesc &, nixl_mem_t) override {
        return Status(NIXL_ERR_BACKEND, "none");
    }

    Status
    deregisterRegion(LocalRegion &) override {
        return {};
    }

    Result<std::unique_ptr<RemoteRegion>>
    loopbackRegion(LocalRegion &, const nixlBlobDesc &, nixl_mem_t) override {
        return Status(NIXL_ERR_BACKEND, "none");
    }

    Result<Path>
    path(nixl_xfer_op_t, nixl_mem_t, nixl_mem_t, Peer *) override {
        return Status(NIXL_ERR_BACKEND, "none");
    }

    Result<std::unique_ptr<EngineRequest>>
    prepare(const TransferSpec &) override {
        return Status(NIXL_ERR_BACKEND, "none");
    }

private:
    const Capabilities capabilities_;
};

struct AnyPeer : Peer {};

struct AnyRegion : LocalRegion {};

void
expectUnsupported(const Status &status) {
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_THAT(status.message(), ::testing::StartsWith("the engine has no "));
}

} // namespace

TEST(Engine, WhatIsNotOfferedIsRefusedWithWords) {
    LeastEngine engine;
    AnyPeer peer;
    AnyRegion region;
    std::vector<Notification> taken;
    expectUnsupported(engine.publicData(region).status());
    expectUnsupported(engine.queryMemory(nixl_reg_dlist_t(FILE_SEG)).status());
    expectUnsupported(engine.connectionInfo().status());
    expectUnsupported(engine.loadPeer("peer", "info").status());
    expectUnsupported(engine.connect(peer));
    expectUnsupported(engine.loadRegion(peer, nixlBasicDesc(0, 1, 0), DRAM_SEG, "data").status());
    expectUnsupported(engine.estimate({}).status());
    expectUnsupported(engine.notify(nullptr, "message"));
    expectUnsupported(engine.takeNotifications(taken));
}

TEST(Path, EstimatesByLatencyBandwidthAndBlocks) {
    Path path;
    path.latencyUs = 10;
    path.bytesPerUs = 100;
    path.perBlockUs = 2;
    EXPECT_DOUBLE_EQ(path.estimateUs(0, 0), 10);
    EXPECT_DOUBLE_EQ(path.estimateUs(5, 1000), 10 + 10 + 10);
}

TEST(Progress, AFailureCarriesItsCause) {
    const Progress progress = Progress::failed(Status(NIXL_ERR_NOT_FOUND, "gone"));
    EXPECT_EQ(progress.code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(progress.message, "gone");
}

} // namespace nixl
