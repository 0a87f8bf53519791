// What messages about blocks can do to an engine, from a peer that writes them itself.
#include <chrono>
#include <list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/ucx/block_message.h"
#include "engines/ucx/entry.h"
#include "engines/ucx/library.h"
#include "engines/ucx/settings.h"
#include "engines/ucx/worker.h"
#include "support/expect_log.h"

namespace nixl::ucx {
namespace {

using namespace std::chrono_literals;

const nixl_b_params_t kTcp{{"engine_config", "TLS=tcp,NET_DEVICES=lo"}};

/// A program that speaks UCX, without an engine.
class Stranger {
public:
    Stranger() {
        auto settings = parseSettings(kTcp);
        context_ = Context::create(Library::get(Options()).value(), settings.value(), false).value();
        worker_ = ProgressWorker::create(*context_, 0).value();
        for (const unsigned id : {kPutBlocks, kBlocksPut, kGetBlocks, kBlocksGot})
            EXPECT_TRUE(worker_->receive(id, onMessage, this).ok());
    }

    ~Stranger() {
        for (ucp_ep_h endpoint : endpoints_) {
            ucp_request_param_t param{};
            param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
            param.flags = UCP_EP_CLOSE_FLAG_FORCE;
            release(api().ep_close_nbx(endpoint, &param));
        }
    }

    struct Message {
        std::string header;
        std::string bytes;
        ucp_ep_h reply;
    };

    ucp_ep_h
    connect(std::string_view info) {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        const std::string address(unmarkAddress(info).address);
        params.address = reinterpret_cast<const ucp_address_t *>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        ucp_ep_h endpoint = nullptr;
        EXPECT_EQ(api().ep_create(worker_->handle(), &params, &endpoint), UCS_OK);
        endpoints_.push_back(endpoint);
        return endpoint;
    }

    /// Without waiting; the bytes are copied.
    void
    send(ucp_ep_h endpoint, unsigned id, const std::string &header, const std::string &bytes) {
        sent_.push_back(bytes);
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER;
        release(api().am_send_nbx(endpoint, id, header.data(), header.size(), sent_.back().data(),
                                  sent_.back().size(), &param));
    }

    /// The next message that arrives; one without header after 10 s.
    Message
    next() {
        const auto limit = std::chrono::steady_clock::now() + 10s;
        while (arrived_.empty() && std::chrono::steady_clock::now() < limit)
            worker_->progress();
        if (arrived_.empty())
            return {"", "", nullptr};
        Message first = std::move(arrived_.front());
        arrived_.erase(arrived_.begin());
        return first;
    }

    std::string
    address() const {
        return worker_->address().value();
    }

    void
    progress() {
        worker_->progress();
    }

private:
    const Api &
    api() const {
        return worker_->api();
    }

    void
    release(void *request) {
        if (UCS_PTR_IS_PTR(request))
            api().request_free(request);
    }

    static ucs_status_t
    onMessage(void *self, const void *header, std::size_t headerLength, void *data, std::size_t length,
              const ucp_am_recv_param_t *param) {
        static_cast<Stranger *>(self)->arrived_.push_back(
            {{static_cast<const char *>(header), headerLength},
             {static_cast<const char *>(data), length},
             (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 ? param->reply_ep : nullptr});
        return UCS_OK;
    }

    std::unique_ptr<Context> context_;
    std::unique_ptr<ProgressWorker> worker_;
    std::vector<ucp_ep_h> endpoints_;
    std::list<std::string> sent_;
    std::vector<Message> arrived_;
};

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
    EXPECT_EQ(ask(kPutBlocks, {{key_, at(0), 4}}, "mmmm").code, NIXL_SUCCESS);
    EXPECT_TRUE(memory_ == std::string(memory_.size(), 'm'));
}

TEST_F(BlockServerTest, DeregistrationWaitsForAnswersThatPeersDoNotTake) {
    endpoint_ = stranger_.connect(engine_->connectionInfo().value());
    std::string header(kRequestBytes + kPieceBytes, '\0');
    const MessagePiece piece{key_, at(0), kMessageBytes};
    encodeRequest({{1, 2}, 3}, std::span(&piece, 1), header.data());
    constexpr int kAnswers = 1000; // more than the socket takes
    for (int i = 0; i < kAnswers; ++i)
        stranger_.send(endpoint_, kGetBlocks, header, "");
    std::vector<Stranger::Message> answers{stranger_.next()}; // it serves; from here on nobody reads
    Status status;
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while ((status = engine_->deregisterRegion(*region_)).ok() == false &&
           std::chrono::steady_clock::now() < limit) {
        EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
        EXPECT_THAT(status.message(), ::testing::HasSubstr("do not take"));
        for (int i = 0; i < 300 && !answers.back().header.empty(); ++i)
            answers.push_back(stranger_.next());
    }
    EXPECT_TRUE(status.ok()) << status.message();
    memory_.assign(memory_.size(), 'z'); // nobody sees this
    while (answers.size() < kAnswers) {
        answers.push_back(stranger_.next());
        if (answers.back().header.empty())
            break; // what was not begun when the registration ended is refused, and answered too
    }
    std::size_t served = 0;
    for (const Stranger::Message &message : answers) {
        const auto answer = decodeAnswer(message.header);
        ASSERT_TRUE(answer.ok());
        if (answer.value().code != NIXL_SUCCESS)
            continue;
        ++served;
        ASSERT_TRUE(message.bytes == std::string(kMessageBytes, 'm'));
    }
    EXPECT_GT(served, 0U);
    EXPECT_EQ(answers.size(), static_cast<std::size_t>(kAnswers));
}

// An engine that reads from a stranger writes into its memory what it asked for, and nothing else.
TEST_F(BlockServerTest, ForgedAnswersWriteNothing) {
    const std::string key = engine_->publicData(*region_).value();
    const auto peer = engine_->loadPeer("stranger", markAddress(stranger_.address())).value();
    ASSERT_TRUE(engine_->path(NIXL_READ, DRAM_SEG, DRAM_SEG, peer.get()).ok());
    const auto remote = engine_->loadRegion(*peer, desc(), DRAM_SEG, key).value();
    const Block block{at(100), 0x5000, 8, 0, 0};
    const LocalRegionRef local{region_.get(), 0};
    const RemoteRegionRef far{remote.get(), 0};
    const TransferSpec spec{
        NIXL_READ,  DRAM_SEG,   DRAM_SEG, std::span(&block, 1), 8, std::span(&local, 1), std::span(&far, 1),
        "stranger", peer.get(), ""};
    for (const bool honest : {true, false}) {
        auto request = engine_->prepare(spec).value();
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

} // namespace
} // namespace nixl::ucx
