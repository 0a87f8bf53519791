#include "engine/engine.h"

#include <gmock/gmock.h>

namespace nixl {

namespace {

struct NumberedRegion : LocalRegion {
    explicit NumberedRegion(std::uint64_t its) : number(its) {}

    const std::uint64_t number;
};

/// An engine that has only what it must have.
class LeastEngine : public Engine {
public:
    const Capabilities &
    capabilities() const override {
        return capabilities_;
    }

    /// Takes what lies below 100.
    Result<std::unique_ptr<LocalRegion>>
    registerRegion(const nixlBlobDesc &desc, nixl_mem_t) override {
        if (desc.addr >= 100)
            return Status(NIXL_ERR_BACKEND, concat("not ", desc.addr));
        return std::unique_ptr<LocalRegion>(std::make_unique<NumberedRegion>(desc.addr));
    }

    /// Ends even numbers only.
    Status
    deregisterRegion(LocalRegion &region) override {
        const auto number = static_cast<NumberedRegion &>(region).number;
        ended.push_back(number);
        return number % 2 == 0 ? Status() : Status(NIXL_ERR_BACKEND, concat(number, " is odd"));
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

    std::vector<std::uint64_t> ended;

private:
    const Capabilities capabilities_{};
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

TEST(Engine, ListsAreRegisteredInTheirOrderUntilOneFails) {
    LeastEngine engine;
    const std::vector<nixlBlobDesc> descs = {{1, 8, 0}, {2, 8, 0}, {100, 8, 0}, {3, 8, 0}};
    std::vector<std::unique_ptr<LocalRegion>> regions;
    const Status status = engine.registerRegions(descs, DRAM_SEG, regions);
    EXPECT_EQ(status.message(), "not 100");
    ASSERT_EQ(regions.size(), 2u);
    EXPECT_EQ(static_cast<NumberedRegion &>(*regions[1]).number, 2u);
}

TEST(Engine, AllOfAListAreEndedAndThoseThatFailAreNamed) {
    LeastEngine engine;
    NumberedRegion first(2), second(3), third(4), fourth(5);
    const std::vector<LocalRegion *> regions = {&first, &second, &third, &fourth};
    const auto unended = engine.deregisterRegions(regions);
    EXPECT_THAT(engine.ended, ::testing::ElementsAre(2, 3, 4, 5));
    ASSERT_EQ(unended.size(), 2u);
    EXPECT_EQ(unended[0].position, 1u);
    EXPECT_EQ(unended[1].position, 3u);
    EXPECT_EQ(unended[1].reason.message(), "5 is odd");
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
