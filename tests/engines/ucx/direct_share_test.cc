// When puts to an engine of ours are done.
#include "engines/ucx/direct_share.h"

#include <gtest/gtest.h>

#include <thread>

#include "engines/ucx/entry.h"
#include "engines/ucx/link_message.h"
#include "stranger.h"
#include "support/expect_log.h"

namespace nixl::ucx {
namespace {

/// The peer's UCX carries puts out, as always; what is above it is the test.
class DirectShareTest : public ::testing::Test {
protected:
    void
    start(bool marked) {
        Options options;
        options.ucxPackedBlocks = false;
        EngineConfig config;
        config.agentName = "initiator";
        config.params = kTcp;
        config.params["ucx_ep_close_force"] = "true"; // strangers do not take part in closing
        config.progressThread = true;
        config.options = std::make_shared<const Options>(options);
        config.onPeerChange = [this](const Peer *, PeerChange change, const std::string &) {
            const LockGuard lock(mutex_);
            changes_.push_back(change);
        };
        engine_ = makeUcxEngineFactory()->create(config).value();
        region_ = engine_->registerRegion({at(0), memory_.size(), 0, ""}, DRAM_SEG).value();
        const std::string address = stranger_.address();
        peer_ = engine_->loadPeer("stranger", marked ? markAddress(address) : address).value();
        EXPECT_TRUE(engine_->path(NIXL_WRITE, DRAM_SEG, DRAM_SEG, peer_.get()).ok());
        std::string key = engine_->publicData(*region_).value();
        if (!marked)
            key = std::string(splitMessageKey(key).packedKey);
        remote_ = engine_->loadRegion(*peer_, {at(0), memory_.size(), 0}, DRAM_SEG, key).value();
        local_ = {region_.get(), 0};
        far_ = {remote_.get(), 0};
        blocks_ = {{at(0), at(64), 8, 0, 0}};
        request_ = engine_
                       ->prepare({NIXL_WRITE, DRAM_SEG, DRAM_SEG, blocks_, 8, std::span(&local_, 1),
                                  std::span(&far_, 1), "stranger", peer_.get(), ""})
                       .value();
    }

    std::uint64_t
    at(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
    }

    /// Whether it ends while both sides work for a while.
    bool
    ends(std::chrono::milliseconds time) {
        const auto limit = std::chrono::steady_clock::now() + time;
        while (request_->check().code == NIXL_IN_PROG && std::chrono::steady_clock::now() < limit)
            stranger_.progress();
        return request_->check().code != NIXL_IN_PROG;
    }

    std::vector<PeerChange>
    changes() {
        const LockGuard lock(mutex_);
        return changes_;
    }

    void
    answer(const Stranger::Message &ping, std::uint32_t number) {
        std::string header(kPongBytes, '\0');
        encodePong({decodePing(ping.header).value().link, 0, LetterState::kTaken, number}, header.data());
        stranger_.send(ping.reply, kPong, header, "");
    }

    test::ExpectLog log_;
    Mutex mutex_;
    std::vector<PeerChange> changes_ NIXL_GUARDED_BY(mutex_);
    std::string memory_ = std::string("rightful") + std::string(120, 'm');
    Stranger stranger_{true};
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<LocalRegion> region_;
    std::shared_ptr<Peer> peer_;
    std::unique_ptr<RemoteRegion> remote_;
    LocalRegionRef local_{};
    RemoteRegionRef far_{};
    std::vector<Block> blocks_;
    std::unique_ptr<EngineRequest> request_;
};

TEST_F(DirectShareTest, PutsToAnEngineOfOursAreDoneWhenItHasAnsweredBehindThem) {
    start(true);
    ASSERT_EQ(request_->post(std::nullopt).code, NIXL_IN_PROG);
    EXPECT_FALSE(ends(200ms)) << "UCX has flushed them";
    EXPECT_EQ(memory_.substr(64, 8), "rightful");
    const Stranger::Message ping = stranger_.next();
    const auto asked = decodePing(ping.header);
    ASSERT_TRUE(asked.ok()) << asked.status().message();
    ASSERT_NE(ping.reply, nullptr);
    answer(ping, asked.value().number - 1);
    answer(ping, asked.value().number + 1000);
    EXPECT_FALSE(ends(200ms)) << "answers to something else";
    answer(ping, asked.value().number);
    EXPECT_TRUE(ends(20s));
    EXPECT_EQ(request_->check().code, NIXL_SUCCESS);
}

TEST_F(DirectShareTest, ARunThatWaitsForTheAnswerCanBeCancelled) {
    start(true);
    ASSERT_EQ(request_->post(std::nullopt).code, NIXL_IN_PROG);
    EXPECT_FALSE(ends(200ms));
    EXPECT_TRUE(request_->cancel(20s)) << "memory is quiet";
    EXPECT_EQ(request_->check().code, NIXL_ERR_CANCELED);
}

TEST_F(DirectShareTest, PutsToOthersAreDoneWhenTheyAreFlushed) {
    start(false);
    (void)request_->post(std::nullopt);
    EXPECT_TRUE(ends(20s));
    EXPECT_EQ(request_->check().code, NIXL_SUCCESS);
    EXPECT_EQ(memory_.substr(64, 8), "rightful");
}

/// A peer that cannot be asked is stalled when what waits for it does not go on.
TEST_F(DirectShareTest, APeerThatKnowsNoPingsStallsWhenNothingGoesOn) {
    start(false);
    ASSERT_EQ(request_->post(std::nullopt).code, NIXL_IN_PROG);
    const auto limit = std::chrono::steady_clock::now() + 20s; // ten times the promise
    while (changes().empty() && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(10ms);
    EXPECT_EQ(changes(), std::vector{PeerChange::kStalled});
    EXPECT_EQ(request_->check().code, NIXL_IN_PROG);
    EXPECT_TRUE(ends(20s));
    EXPECT_EQ(request_->check().code, NIXL_SUCCESS);
    while (changes().size() < 2 && std::chrono::steady_clock::now() < limit + 20s)
        std::this_thread::sleep_for(10ms);
    EXPECT_EQ(changes(), (std::vector{PeerChange::kStalled, PeerChange::kResumed}));
}

} // namespace
} // namespace nixl::ucx
