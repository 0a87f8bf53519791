// What messages about blocks can do to an engine, from a peer that writes them itself.
#include <chrono>
#include <list>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/ucx/block_message.h"
#include "engines/ucx/entry.h"
#include "stranger.h"
#include "support/expect_log.h"

namespace nixl::ucx {
namespace {

class BlockServerTest : public ::testing::Test {
protected:
    BlockServerTest() {
        EngineConfig config;
        config.agentName = "target";
        config.params = kTcp;
        config.progressThread = true;
        config.options = std::make_shared<const Options>();
        engine_ = makeUcxEngineFactory()->create(config).value();
        region_ = engine_->registerRegion(desc(), DRAM_SEG).value();
        key_ = splitMessageKey(engine_->publicData(*region_).value()).messageKey;
    }

    nixlBlobDesc
    desc() {
        return {at(0), memory_.size(), 0, ""};
    }

    std::uint64_t
    at(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
    }

    /// Sends a request for pieces and returns the answer.
    BlockAnswer
    ask(unsigned id, const std::vector<MessagePiece> &pieces, const std::string &bytes,
        std::string *got = nullptr) {
        if (endpoint_ == nullptr)
            endpoint_ = stranger_.connect(engine_->connectionInfo().value());
        std::string header(kRequestBytes + kPieceBytes * pieces.size(), '\0');
        encodeRequest({{11, 22}, 33}, pieces, header.data());
        stranger_.send(endpoint_, id, header, bytes);
        const Stranger::Message message = stranger_.next();
        const auto answer = decodeAnswer(message.header);
        EXPECT_TRUE(answer.ok()) << answer.status().message();
        if (!answer.ok())
            return {};
        EXPECT_EQ(answer.value().run.secret, 11U);
        EXPECT_EQ(answer.value().run.place, 22U);
        EXPECT_EQ(answer.value().message, 33U);
        if (got != nullptr)
            *got = message.bytes;
        return answer.value();
    }

    test::ExpectLog log_;
    std::string memory_ = std::string(1 << 20, 'm');
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<LocalRegion> region_;
    std::uint64_t key_;
    Stranger stranger_;
    ucp_ep_h endpoint_ = nullptr;
};

TEST_F(BlockServerTest, MovesPiecesInBothDirections) {
    EXPECT_EQ(
        ask(kPutBlocks, {{key_, at(10), 3}, {key_, at(1000), 2}, {key_, at(memory_.size() - 1), 1}}, "abcdef")
            .code,
        NIXL_SUCCESS);
    std::string expected(memory_.size(), 'm');
    expected.replace(10, 3, "abc").replace(1000, 2, "de").replace(expected.size() - 1, 1, "f");
    EXPECT_TRUE(memory_ == expected);
    std::string got;
    EXPECT_EQ(ask(kGetBlocks, {{key_, at(999), 4}, {key_, at(9), 5}}, "", &got).code, NIXL_SUCCESS);
    EXPECT_EQ(got, "mdemmabcm");
}

TEST_F(BlockServerTest, RefusesWhatIsNotRegistered) {
    const std::vector<MessagePiece> wrong{
        {key_ + 1, at(0), 4},          {0, at(0), 4},        {key_, at(memory_.size() - 3), 4},
        {key_, at(memory_.size()), 4}, {key_, at(0) - 1, 4}, {key_, ~0ULL - 1, 4},
    };
    for (const MessagePiece &piece : wrong) {
        for (const unsigned id : {kPutBlocks, kGetBlocks}) {
            std::string got;
            const BlockAnswer answer =
                ask(id, {{key_, at(0), 1}, piece}, id == kPutBlocks ? "mxxxx" : "", &got);
            EXPECT_EQ(answer.code, NIXL_ERR_NOT_FOUND) << std::hex << piece.address;
            EXPECT_EQ(answer.piece, 1U);
            EXPECT_EQ(got, "");
        }
    }
    EXPECT_TRUE(memory_ == std::string(memory_.size(), 'm'));
    ASSERT_TRUE(engine_->deregisterRegion(*region_).ok());
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "xxxx").code, NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(ask(kGetBlocks, {{key_, at(0), 4}}, "").code, NIXL_ERR_NOT_FOUND);
    EXPECT_TRUE(memory_ == std::string(memory_.size(), 'm'));
}

TEST_F(BlockServerTest, DropsNonsenseAndServesOn) {
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "xxx").code, NIXL_ERR_MISMATCH);
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "xxxxx").code, NIXL_ERR_MISMATCH);
    log_.allow("a message is dropped");
    for (const unsigned id : {kPutBlocks, kBlocksPut, kGetBlocks, kBlocksGot}) {
        for (const std::size_t length : {0, 1, 15, 17, 24, 100})
            stranger_.send(endpoint_, id, std::string(length, '\7'), "bytes");
    }
    std::string huge(kRequestBytes + 2 * kPieceBytes, '\0');
    const std::array pieces{MessagePiece{key_, at(0), kMessageBytes}, MessagePiece{key_, at(0), 1}};
    encodeRequest({}, pieces, huge.data());
    stranger_.send(endpoint_, kGetBlocks, huge, "");
    const std::vector<MessagePiece> many(kMessagePieces + 1, MessagePiece{key_, at(0), 1});
    std::string long_(kRequestBytes + kPieceBytes * many.size(), '\0');
    encodeRequest({}, many, long_.data());
    stranger_.send(endpoint_, kGetBlocks, long_, "");
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "mmmm").code, NIXL_SUCCESS);
    EXPECT_TRUE(memory_ == std::string(memory_.size(), 'm'));
}

TEST_F(BlockServerTest, ServesNothingAndPiecesOfNothing) {
    EXPECT_EQ(ask(kPutBlocks, {}, "").code, NIXL_SUCCESS);
    EXPECT_EQ(ask(kGetBlocks, {}, "").code, NIXL_SUCCESS);
    std::string got;
    EXPECT_EQ(ask(kGetBlocks, {{key_, at(5), 0}, {key_, at(7), 1}}, "", &got).code, NIXL_SUCCESS);
    EXPECT_EQ(got, "m");
}

TEST_F(BlockServerTest, APeerThatTakesNoAnswersIsNotServedForEver) {
    EXPECT_EQ(ask(kPutBlocks, {}, "").code, NIXL_SUCCESS);
    log_.allow("does not take the answers");
    std::string header(kRequestBytes + kPieceBytes, '\0');
    const MessagePiece piece{key_, at(0), kMessageBytes};
    encodeRequest({}, std::span(&piece, 1), header.data());
    constexpr std::size_t kRequests = 3000; // far more than the sockets take of their answers
    for (std::size_t i = 0; i < kRequests; ++i)
        stranger_.send(endpoint_, kGetBlocks, header, "");
    std::this_thread::sleep_for(300ms); // it serves, and nobody reads
    const std::size_t answers = stranger_.count();
    EXPECT_GE(answers, 256U);
    EXPECT_LT(answers, kRequests);
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "mmmm").code, NIXL_SUCCESS);
}

TEST_F(BlockServerTest, DeregistrationWaitsForAnswersThatPeersDoNotTake) {
    EXPECT_EQ(ask(kPutBlocks, {}, "").code, NIXL_SUCCESS); // connects
    std::string header(kRequestBytes + kPieceBytes, '\0');
    const MessagePiece piece{key_, at(0), kMessageBytes};
    encodeRequest({{1, 2}, 3}, std::span(&piece, 1), header.data());
    log_.allow("does not take the answers");
    for (int i = 0; i < 1000; ++i) // more than the socket takes
        stranger_.send(endpoint_, kGetBlocks, header, "");
    std::vector<Stranger::Message> answers;
    std::this_thread::sleep_for(200ms); // it serves, and nobody reads
    Status status;
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!(status = engine_->deregisterRegion(*region_)).ok() && std::chrono::steady_clock::now() < limit) {
        EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
        EXPECT_THAT(status.message(), ::testing::HasSubstr("do not take"));
        for (int i = 0; i < 150; ++i)
            answers.push_back(stranger_.next());
    }
    EXPECT_TRUE(status.ok()) << status.message();
    memory_.assign(memory_.size(), 'z'); // nobody sees this
    stranger_.send(endpoint_, kGetBlocks, header, "");
    for (bool refused = false; !refused;) {
        answers.push_back(stranger_.next());
        const auto answer = decodeAnswer(answers.back().header);
        ASSERT_TRUE(answer.ok());
        refused = answer.value().code == NIXL_ERR_NOT_FOUND;
        EXPECT_TRUE(refused || answers.back().bytes == std::string(kMessageBytes, 'm'));
    }
}

// All are closed before the wait, and the wait is one for all.
TEST_F(BlockServerTest, AListIsDeregisteredWithinOneWait) {
    constexpr std::size_t kRegions = 16;
    std::vector<std::unique_ptr<LocalRegion>> regions;
    std::vector<MessagePiece> pieces;
    for (std::size_t i = 0; i < kRegions; ++i) {
        regions.push_back(engine_->registerRegion({at(i * 4000), 3000, 0, ""}, DRAM_SEG).value());
        pieces.push_back(
            {splitMessageKey(engine_->publicData(*regions.back()).value()).messageKey, at(i * 4000), 3000});
    }
    EXPECT_EQ(ask(kPutBlocks, {}, "").code, NIXL_SUCCESS); // connects
    std::string header(kRequestBytes + kPieceBytes * kRegions, '\0');
    encodeRequest({{1, 2}, 3}, pieces, header.data());
    for (int i = 0; i < 1000; ++i)
        stranger_.send(endpoint_, kGetBlocks, header, "");
    log_.allow("does not take the answers");
    std::this_thread::sleep_for(200ms); // it serves, and nobody reads
    std::vector<LocalRegion *> list;
    for (const auto &region : regions)
        list.push_back(region.get());
    std::vector<Engine::Unended> unended;
    const auto begin = std::chrono::steady_clock::now();
    unended = engine_->deregisterRegions(list);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    for (const Engine::Unended &one : unended)
        EXPECT_EQ(one.reason.code(), NIXL_ERR_BACKEND);
    const auto limit = begin + 60s;
    while (!unended.empty() && std::chrono::steady_clock::now() < limit) {
        for (int i = 0; i < 150; ++i)
            stranger_.next();
        unended = engine_->deregisterRegions(list);
    }
    EXPECT_TRUE(unended.empty());
}

} // namespace
} // namespace nixl::ucx
