// What a share does with the answers of a peer that writes them itself.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/ucx/entry.h"
#include "stranger.h"
#include "support/expect_log.h"

namespace nixl::ucx {
namespace {

class PackedShareTest : public ::testing::Test {
protected:
    PackedShareTest() {
        EngineConfig config;
        config.agentName = "initiator";
        config.params = kTcp;
        config.params["ucx_ep_close_force"] = "true"; // strangers do not take part in closing
        config.progressThread = true;
        config.options = std::make_shared<const Options>();
        engine_ = makeUcxEngineFactory()->create(config).value();
        region_ = engine_->registerRegion({at(0), memory_.size(), 0, ""}, DRAM_SEG).value();
        peer_ = engine_->loadPeer("stranger", markAddress(stranger_.address())).value();
        EXPECT_TRUE(engine_->path(NIXL_READ, DRAM_SEG, DRAM_SEG, peer_.get()).ok());
        const std::string key = engine_->publicData(*region_).value();
        remote_ = engine_->loadRegion(*peer_, {0x5000, memory_.size(), 0}, DRAM_SEG, key).value();
    }

    std::uint64_t
    at(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
    }

    /// `blocks` live as long as the request.
    std::unique_ptr<EngineRequest>
    prepare(nixl_xfer_op_t operation, const std::vector<Block> &blocks) {
        std::uint64_t bytes = 0;
        for (const Block &block : blocks)
            bytes += block.length;
        return engine_
            ->prepare({operation, DRAM_SEG, DRAM_SEG, blocks, bytes, std::span(&local_, 1),
                       std::span(&far_, 1), "stranger", peer_.get(), ""})
            .value();
    }

    struct Asked {
        BlockRequest request;
        std::vector<MessagePiece> pieces;
        std::string bytes;
        ucp_ep_h reply;
    };

    Asked
    nextRequest() {
        const Stranger::Message message = stranger_.next();
        const auto asked = decodeRequest(message.header);
        EXPECT_TRUE(asked.ok()) << asked.status().message();
        Asked result{asked.ok() ? asked.value().request : BlockRequest{}, {}, message.bytes, message.reply};
        for (std::size_t i = 0; asked.ok() && i < asked.value().pieces; ++i)
            result.pieces.push_back(pieceAt(message.header, i));
        return result;
    }

    void
    answer(const Asked &asked, nixl_status_t code, std::uint32_t piece, const std::string &bytes) {
        std::string header(kAnswerBytes, '\0');
        encodeAnswer({asked.request.run, asked.request.message, code, piece}, header.data());
        stranger_.send(asked.reply, bytes.empty() ? kBlocksPut : kBlocksGot, header, bytes);
    }

    Progress
    finish(EngineRequest &request) {
        Progress progress;
        const auto limit = std::chrono::steady_clock::now() + 30s;
        while ((progress = request.check()).code == NIXL_IN_PROG && std::chrono::steady_clock::now() < limit)
            stranger_.progress();
        return progress;
    }

    test::ExpectLog log_;
    std::string memory_ = std::string(8 << 20, 'm');
    Stranger stranger_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<LocalRegion> region_;
    std::shared_ptr<Peer> peer_;
    std::unique_ptr<RemoteRegion> remote_;
    const LocalRegionRef &local_ = localRef_;
    const RemoteRegionRef &far_ = farRef_;

private:
    LocalRegionRef localRef_{};
    RemoteRegionRef farRef_{};

protected:
    void
    SetUp() override {
        localRef_ = {region_.get(), 0};
        farRef_ = {remote_.get(), 0};
    }
};

// An engine that reads from a stranger writes into its memory what it asked for, and nothing else.
TEST_F(PackedShareTest, ForgedAnswersWriteNothing) {
    const std::vector<Block> blocks{{at(100), 0x5000, 8, 0, 0}};
    for (const bool honest : {true, false}) {
        auto request = prepare(NIXL_READ, blocks);
        ASSERT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
        const Stranger::Message message = stranger_.next();
        const auto asked = decodeRequest(message.header);
        ASSERT_TRUE(asked.ok());
        ASSERT_NE(message.reply, nullptr);
        const RunId run = asked.value().request.run;
        const auto reply = [&](const BlockAnswer &answer, const std::string &bytes) {
            std::string header(kAnswerBytes, '\0');
            encodeAnswer(answer, header.data());
            stranger_.send(message.reply, kBlocksGot, header, bytes);
        };
        reply({{run.secret + 1, run.place}, 0, NIXL_SUCCESS, 0}, "forged!!");
        reply({{run.secret, run.place + 1}, 0, NIXL_SUCCESS, 0}, "forged!!");
        reply({run, 1, NIXL_SUCCESS, 0}, "forged!!");
        reply({run, 0, NIXL_SUCCESS, 0}, honest ? "rightful" : "too long!");
        Progress progress;
        const auto limit = std::chrono::steady_clock::now() + 30s;
        while ((progress = request->check()).code == NIXL_IN_PROG && std::chrono::steady_clock::now() < limit)
            stranger_.progress();
        EXPECT_EQ(progress.code, honest ? NIXL_SUCCESS : NIXL_ERR_MISMATCH) << progress.message;
        EXPECT_EQ(memory_.substr(96, 16), "mmmmrightfulmmmm");
        reply({run, 0, NIXL_SUCCESS, 0}, "too late");
        for (int i = 0; i < 1000; ++i) {
            stranger_.progress();
            request->check();
        }
        EXPECT_EQ(memory_.substr(96, 16), "mmmmrightfulmmmm");
    }
}

TEST_F(PackedShareTest, AnswersMayComeInAnyOrder) {
    constexpr std::size_t kBlocks = 100;
    std::vector<Block> blocks;
    std::string expected = memory_;
    for (std::size_t i = 0; i < kBlocks; ++i) {
        blocks.push_back({at(i * kMessageBytes), 0x5000 + i * kMessageBytes, kMessageBytes, 0, 0});
        expected.replace(i * kMessageBytes, kMessageBytes, kMessageBytes, static_cast<char>('0' + i % 10));
    }
    auto request = prepare(NIXL_READ, blocks);
    ASSERT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
    std::vector<bool> seen(kBlocks);
    for (std::size_t done = 0; done < kBlocks;) {
        std::vector<Asked> window; // the next comes only when one of these is answered
        for (std::size_t i = 0; i < std::min<std::size_t>(25, kBlocks - done); ++i)
            window.push_back(nextRequest());
        std::reverse(window.begin(), window.end());
        for (const Asked &asked : window) {
            ASSERT_LT(asked.request.message, kBlocks);
            EXPECT_FALSE(seen[asked.request.message]) << "asked twice";
            seen[asked.request.message] = true;
            ASSERT_EQ(asked.pieces.size(), 1U);
            EXPECT_EQ(asked.pieces[0].address, 0x5000 + asked.request.message * kMessageBytes);
            answer(asked, NIXL_SUCCESS, 0,
                   std::string(kMessageBytes, static_cast<char>('0' + asked.request.message % 10)));
        }
        done += window.size();
    }
    EXPECT_EQ(finish(*request).code, NIXL_SUCCESS);
    EXPECT_TRUE(memory_ == expected);
}

TEST_F(PackedShareTest, ARefusalNamesTheBlock) {
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < 10; ++i) // the sixth is cut by the end of a message
        blocks.push_back({at(i * 20000), 0x5000 + i * 20000, 11000, 0, 0});
    auto request = prepare(NIXL_WRITE, blocks);
    ASSERT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
    const Asked first = nextRequest(), second = nextRequest();
    ASSERT_EQ(first.pieces.size(), 6U);
    ASSERT_EQ(second.pieces.size(), 5U);
    EXPECT_EQ(first.bytes.size(), kMessageBytes);
    answer(first, NIXL_SUCCESS, 0, "");
    answer(second, NIXL_ERR_NOT_FOUND, 2, "");
    const Progress progress = finish(*request);
    EXPECT_EQ(progress.code, NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(progress.message, ::testing::HasSubstr(concat("block 7 ")));
    EXPECT_THAT(progress.message, ::testing::HasSubstr(concat(Hex{0x5000 + 7 * 20000})));
    EXPECT_THAT(progress.message, ::testing::HasSubstr("'stranger'"));
}

TEST_F(PackedShareTest, ACancelledReadWritesNothingMore) {
    const std::vector<Block> blocks{{at(0), 0x5000, 8, 0, 0}};
    auto request = prepare(NIXL_READ, blocks);
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
        const Asked cancelled = nextRequest();
        ASSERT_TRUE(request->cancel(1s));
        EXPECT_EQ(request->check().code, NIXL_ERR_CANCELED);
        ASSERT_EQ(request->post(std::nullopt).code, NIXL_IN_PROG);
        const Asked again = nextRequest();
        answer(cancelled, NIXL_SUCCESS, 0, "too late");
        const std::string bytes = concat("round ", round, ".");
        answer(again, NIXL_SUCCESS, 0, bytes);
        EXPECT_EQ(finish(*request).code, NIXL_SUCCESS);
        EXPECT_EQ(memory_.substr(0, 9), bytes + "m");
    }
}

} // namespace
} // namespace nixl::ucx
