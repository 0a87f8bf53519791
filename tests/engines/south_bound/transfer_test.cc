// Requests of a plugin: posting, progress without polling, cancel, and what outlives what.
#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "engines/south_bound/scripted_plugin.h"
#include "support/expect_log.h"

namespace nixl {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{30000};

bool
eventually(const std::function<bool()> &condition) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

template<typename T>
T
valueOf(Result<T> result) {
    if (!result.ok())
        throw std::runtime_error(result.status().message());
    return std::move(result).value();
}

class SouthBoundTransfer : public ::testing::Test {
protected:
    SouthBoundTransfer() : engine_(plugin_.makeEngine()) {
        region_ = valueOf(engine_->registerRegion(nixlBlobDesc(0x1000, 4096, 3), DRAM_SEG));
        peer_ = valueOf(engine_->loadPeer("peer", "their info"));
        remote_ = valueOf(engine_->loadRegion(*peer_, nixlBasicDesc(0x9000, 4096, 5), DRAM_SEG, "their key"));
        point();
        plugin_.clearCalls();
    }

    void
    point() {
        localRef_ = {region_.get(), 3};
        remoteRef_ = {remote_.get(), 5};
        spec_ = {NIXL_WRITE,      DRAM_SEG,         DRAM_SEG, blocks_,     30,
                 {&localRef_, 1}, {&remoteRef_, 1}, "peer",   peer_.get(), "custom"};
    }

    std::unique_ptr<EngineRequest>
    prepare() {
        return valueOf(engine_->prepare(spec_));
    }

    test::ExpectLog log_;
    ScriptedPlugin plugin_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<LocalRegion> region_;
    std::shared_ptr<Peer> peer_;
    std::unique_ptr<RemoteRegion> remote_;
    std::vector<Block> blocks_{{0x1000, 0x9010, 10, 0, 0}, {0x1100, 0x9100, 20, 0, 0}};
    LocalRegionRef localRef_{};
    RemoteRegionRef remoteRef_{};
    TransferSpec spec_{};
};

} // namespace

TEST_F(SouthBoundTransfer, HandsOverListsNamesAndArguments) {
    const auto request = prepare();
    EXPECT_EQ(request->post("a message").code, NIXL_SUCCESS);
    EXPECT_EQ(plugin_.lastAgent, "peer");
    EXPECT_TRUE(plugin_.lastArgs.hasNotif);
    EXPECT_EQ(plugin_.lastArgs.notifMsg, "a message");
    EXPECT_EQ(plugin_.lastArgs.customParam, "custom");
    ASSERT_EQ(plugin_.lastLocal.size(), 2u);
    EXPECT_EQ(static_cast<nixlBasicDesc &>(plugin_.lastLocal[0]), nixlBasicDesc(0x1000, 10, 3));
    EXPECT_EQ(static_cast<nixlBasicDesc &>(plugin_.lastRemote[1]), nixlBasicDesc(0x9100, 20, 5));
    EXPECT_NE(plugin_.lastLocal[0].metadataP, nullptr);
    EXPECT_NE(plugin_.lastLocal[0].metadataP, plugin_.lastRemote[0].metadataP);
    EXPECT_EQ(request->post("").code, NIXL_SUCCESS);
    EXPECT_TRUE(plugin_.lastArgs.hasNotif) << "an empty message is one too";
    EXPECT_EQ(request->post(std::nullopt).code, NIXL_SUCCESS);
    EXPECT_FALSE(plugin_.lastArgs.hasNotif);
    EXPECT_EQ(plugin_.lastArgs.notifMsg, "");
}

TEST_F(SouthBoundTransfer, EndsWithoutHelpOfTheProgram) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_IN_PROG);
    const auto request = prepare();
    EXPECT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
    ASSERT_TRUE(eventually([&] { return plugin_.count("checkXfer") > 3; })) << "nobody polls";
    plugin_.answer("checkXfer", NIXL_SUCCESS);
    const std::size_t polls = plugin_.count("checkXfer");
    ASSERT_TRUE(eventually([&] { return plugin_.count("checkXfer") > polls; }));
    const Progress progress = request->check();
    EXPECT_EQ(progress.code, NIXL_SUCCESS);
    EXPECT_TRUE(progress.ended.has_value());
}

TEST_F(SouthBoundTransfer, PassesErrorsUp) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_ERR_REMOTE_DISCONNECT);
    const auto request = prepare();
    request->post(std::nullopt);
    Progress progress;
    ASSERT_TRUE(eventually([&] { return (progress = request->check()).code != NIXL_IN_PROG; }));
    EXPECT_EQ(progress.code, NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_THAT(progress.message, HasSubstr("checkXfer"));
    plugin_.throwIn("postXfer");
    progress = request->post(std::nullopt);
    EXPECT_EQ(progress.code, NIXL_ERR_BACKEND);
    EXPECT_THAT(progress.message, HasSubstr("scripted"));
    plugin_.answer("postXfer", NIXL_SUCCESS);
    EXPECT_EQ(request->post(std::nullopt).code, NIXL_SUCCESS) << "again after an error";
    plugin_.answer("prepXfer", NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(engine_->prepare(spec_).status().code(), NIXL_ERR_INVALID_PARAM);
}

TEST_F(SouthBoundTransfer, CancelReleasesThePluginsHandle) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_IN_PROG);
    const auto request = prepare();
    request->post(std::nullopt);
    EXPECT_TRUE(request->cancel(std::chrono::milliseconds(0)));
    EXPECT_EQ(request->check().code, NIXL_ERR_CANCELED);
    EXPECT_EQ(plugin_.liveHandles, 0);
    plugin_.answer("postXfer", NIXL_SUCCESS);
    EXPECT_EQ(request->post(std::nullopt).code, NIXL_SUCCESS) << "a new handle is made";
    EXPECT_EQ(plugin_.count("prepXfer"), 2u);
}

TEST_F(SouthBoundTransfer, CancelWaitsForAPluginThatCannotStopAtOnce) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_IN_PROG);
    plugin_.answer("releaseReqH", NIXL_ERR_REPOST_ACTIVE);
    const auto request = prepare();
    request->post(std::nullopt);
    EXPECT_FALSE(request->cancel(std::chrono::milliseconds(5)));
    EXPECT_EQ(request->check().code, NIXL_IN_PROG);
    std::thread ending([&] {
        eventually([&] { return plugin_.count("releaseReqH") >= 2; });
        plugin_.answer("checkXfer", NIXL_ERR_CANCELED);
    });
    EXPECT_TRUE(request->cancel(kLong));
    ending.join();
    EXPECT_EQ(request->check().code, NIXL_ERR_CANCELED);
    plugin_.answer("releaseReqH", NIXL_SUCCESS);
}

TEST_F(SouthBoundTransfer, EstimatesComeFromThePlugin) {
    const auto estimate = engine_->estimate(spec_);
    ASSERT_TRUE(estimate.ok()) << estimate.status().message();
    EXPECT_EQ(estimate.value().first, std::chrono::microseconds(10));
    EXPECT_EQ(estimate.value().second, std::chrono::microseconds(7));
    EXPECT_EQ(plugin_.liveHandles, 0);
    plugin_.answer("estimateXferCost", NIXL_ERR_NOT_SUPPORTED);
    EXPECT_EQ(engine_->estimate(spec_).status().code(), NIXL_ERR_NOT_SUPPORTED);
}

TEST_F(SouthBoundTransfer, EventsOfThePluginAreHandedOut) {
    EXPECT_TRUE(engine_->takeTelemetry().empty());
    EXPECT_EQ(prepare()->post(std::nullopt).code, NIXL_SUCCESS);
    const std::vector<nixlTelemetryEvent> events = engine_->takeTelemetry();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].eventType_, nixl_telemetry_event_type_t::AGENT_XFER_TIME);
    EXPECT_EQ(events[0].value_, 5u);
    EXPECT_TRUE(engine_->takeTelemetry().empty());
}

TEST_F(SouthBoundTransfer, DeregistrationComesAfterEverythingThatUsesTheMemory) {
    auto loopback = valueOf(engine_->loopbackRegion(*region_, nixlBlobDesc(0x1000, 4096, 3), DRAM_SEG));
    const auto request = prepare();
    plugin_.clearCalls();
    EXPECT_TRUE(engine_->deregisterRegion(*region_).ok());
    EXPECT_THAT(plugin_.calls(), ElementsAre("releaseReqH", "unloadMD", "deregisterMem"));
    const Progress progress = request->post(std::nullopt);
    EXPECT_EQ(progress.code, NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(progress.message, HasSubstr("deregistered"));
    EXPECT_EQ(plugin_.count("postXfer"), 0u);
    EXPECT_EQ(engine_->prepare(spec_).status().code(), NIXL_ERR_NOT_FOUND);
}

TEST_F(SouthBoundTransfer, DeregistrationWaitsForTransfersAndCanBeRepeated) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_IN_PROG);
    const auto request = prepare();
    request->post(std::nullopt);
    const Status busy = engine_->deregisterRegion(*region_);
    EXPECT_EQ(busy.code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(busy.message(), HasSubstr("still running"));
    EXPECT_EQ(plugin_.count("deregisterMem"), 0u);
    plugin_.answer("checkXfer", NIXL_SUCCESS);
    plugin_.answer("deregisterMem", NIXL_ERR_BACKEND);
    EXPECT_EQ(engine_->deregisterRegion(*region_).code(), NIXL_ERR_BACKEND);
    plugin_.answer("deregisterMem", NIXL_SUCCESS);
    EXPECT_TRUE(engine_->deregisterRegion(*region_).ok());
    EXPECT_EQ(request->check().code, NIXL_SUCCESS) << "how it ended stays known";
}

TEST_F(SouthBoundTransfer, RegionsAreUnloadedBeforeThePeerIsDisconnected) {
    ASSERT_TRUE(engine_->connect(*peer_).ok());
    ASSERT_TRUE(engine_->connect(*peer_).ok());
    EXPECT_EQ(plugin_.count("connect peer"), 1u);
    peer_.reset();
    EXPECT_EQ(plugin_.count("disconnect peer"), 0u) << "a region still uses it";
    remote_.reset();
    EXPECT_THAT(plugin_.calls(), ElementsAre("connect peer", "unloadMD", "disconnect peer"));
}

TEST_F(SouthBoundTransfer, LoadingAPeerAgainEndsItsFormerLife) {
    auto request = prepare();
    plugin_.answer("postXfer", NIXL_IN_PROG);
    plugin_.answer("checkXfer", NIXL_IN_PROG);
    request->post(std::nullopt);
    plugin_.clearCalls();
    const std::shared_ptr<Peer> again = valueOf(engine_->loadPeer("peer", "new info"));
    std::vector<std::string> calls = plugin_.calls();
    calls.erase(std::remove(calls.begin(), calls.end(), "checkXfer"), calls.end());
    EXPECT_THAT(
        calls, ElementsAre("releaseReqH", "unloadMD", "disconnect peer", "loadRemoteConnInfo peer=new info"));
    EXPECT_EQ(request->check().code, NIXL_ERR_CANCELED);
    EXPECT_EQ(request->post(std::nullopt).code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(engine_->connect(*peer_).code(), NIXL_ERR_NOT_FOUND);
    EXPECT_TRUE(engine_->connect(*again).ok());
    request.reset();
    remote_.reset();
    peer_.reset();
    EXPECT_EQ(plugin_.count("disconnect peer"), 1u) << "the new life stays connected";
}

TEST_F(SouthBoundTransfer, CallsIntoAnEngineNeverOverlap) {
    plugin_.answer("postXfer", NIXL_IN_PROG);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 100; ++round) {
                const auto request = prepare();
                request->post("x");
                eventually([&] { return request->check().code != NIXL_IN_PROG; });
                std::vector<Notification> taken;
                EXPECT_TRUE(engine_->takeNotifications(taken).ok());
                EXPECT_TRUE(engine_->notify(peer_.get(), "y").ok());
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(plugin_.overlaps, 0);
}

TEST_F(SouthBoundTransfer, ARegionThatTheCoreLeavesBehindIsDeregistered) {
    plugin_.clearCalls();
    region_.reset();
    EXPECT_THAT(plugin_.calls(), ElementsAre("deregisterMem"));
}

} // namespace nixl
