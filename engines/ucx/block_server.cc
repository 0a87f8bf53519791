#include "engines/ucx/block_server.h"

#include <utility>

#include "engines/ucx/context.h"
#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Answers that may wait for one endpoint: twice what a peer of ours asks for at a time.
constexpr std::size_t kMostWaiting = 256;
/// Of those that are done, so many are kept for the next.
constexpr std::size_t kMostIdle = 256;

BlockAnswer
refuse(const BlockRequest &request, nixl_status_t code, std::size_t piece) {
    return {request.run, request.message, code, static_cast<std::uint32_t>(piece)};
}

/// Finds the memory of pieces, most of which lie in the same region as the one before.
class Finder {
public:
    explicit Finder(const RegionKeys::View &view) : view_(view) {}

    /// nullptr: the piece is not within registered memory.
    const std::shared_ptr<OpenMemory> *
    find(const MessagePiece &piece) {
        if (last_ == nullptr || piece.key != key_) {
            last_ = view_.find(piece.key);
            key_ = piece.key;
        }
        return last_ != nullptr && (*last_)->covers(piece.address, piece.length) ? last_ : nullptr;
    }

private:
    const RegionKeys::View &view_;
    std::uint64_t key_ = 0;
    const std::shared_ptr<OpenMemory> *last_ = nullptr;
};

} // namespace

Status
BlockServer::receive() {
    NIXL_RETURN_IF_ERROR(worker_.receive(kPutBlocks, onPut, this));
    return worker_.receive(kGetBlocks, onGet, this);
}

/// What arrived, if it is to be answered.
std::optional<ReceivedRequest>
BlockServer::accept(std::string_view header, const ucp_am_recv_param_t &param) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
        return std::nullopt;
    const auto waiting = waiting_.find(param.reply_ep);
    if (waiting != waiting_.end() && waiting->second >= kMostWaiting) {
        if (!std::exchange(dropping_, true))
            NIXL_LOG(kWarn,
                     "UCX: a peer asks for blocks and does not take the answers; its requests are "
                     "dropped while ",
                     kMostWaiting, " wait for it");
        return std::nullopt;
    }
    auto request = decodeRequest(header);
    if (!request.ok()) {
        NIXL_LOG(kWarn, "UCX: a message is dropped: ", request.status().message());
        return std::nullopt;
    }
    return request.value();
}

/// Takes in what is to be answered, which `answer` does.
template<typename Answer>
ucs_status_t
BlockServer::serve(std::string_view header, const ucp_am_recv_param_t &param, Answer answer) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_ERR_UNSUPPORTED;
    if (const auto received = accept(header, param))
        answer(*received, newSending(param.reply_ep));
    return UCS_OK;
}

ucs_status_t
BlockServer::onPut(void *argument, const void *header, std::size_t headerLength, void *data,
                   std::size_t length, const ucp_am_recv_param_t *param) {
    auto *server = static_cast<BlockServer *>(argument);
    const std::string_view text(static_cast<const char *>(header), headerLength);
    return server->serve(text, *param, [&](const ReceivedRequest &received, Sending &sending) {
        server->send(kBlocksPut,
                     received.bytes == length
                         ? server->copyIn(received, text, static_cast<const char *>(data))
                         : refuse(received.request, NIXL_ERR_MISMATCH, 0),
                     sending);
    });
}

BlockAnswer
BlockServer::copyIn(const ReceivedRequest &received, std::string_view header, const char *bytes) const {
    const RegionKeys::View view(keys_);
    Finder finder(view);
    for (std::size_t i = 0; i < received.pieces; ++i) {
        const MessagePiece piece = pieceAt(header, i);
        if (finder.find(piece) == nullptr)
            return refuse(received.request, NIXL_ERR_NOT_FOUND, i);
        copyArrived(reinterpret_cast<void *>(piece.address), bytes, piece.length);
        bytes += piece.length;
    }
    return {received.request.run, received.request.message, NIXL_SUCCESS, 0};
}

ucs_status_t
BlockServer::onGet(void *argument, const void *header, std::size_t headerLength, void *, std::size_t,
                   const ucp_am_recv_param_t *param) {
    auto *server = static_cast<BlockServer *>(argument);
    const std::string_view text(static_cast<const char *>(header), headerLength);
    return server->serve(text, *param, [&](const ReceivedRequest &received, Sending &sending) {
        const BlockAnswer answer = server->collect(received, text, sending);
        if (answer.code != NIXL_SUCCESS)
            letGo(sending);
        server->send(kBlocksGot, answer, sending);
    });
}

/// Notes what is to be sent, and that it is being read.
BlockAnswer
BlockServer::collect(const ReceivedRequest &received, std::string_view header, Sending &sending) const {
    const RegionKeys::View view(keys_);
    Finder finder(view);
    for (std::size_t i = 0; i < received.pieces; ++i) {
        const MessagePiece piece = pieceAt(header, i);
        const auto *memory = finder.find(piece);
        if (memory == nullptr)
            return refuse(received.request, NIXL_ERR_NOT_FOUND, i);
        sending.pieces.push_back({reinterpret_cast<void *>(piece.address), piece.length});
        if (sending.memory.empty() || sending.memory.back() != *memory) {
            (*memory)->sends.fetch_add(1, std::memory_order_relaxed); // remove() waits for the view
            sending.memory.push_back(*memory);
        }
    }
    return {received.request.run, received.request.message, NIXL_SUCCESS, 0};
}

BlockServer::Sending &
BlockServer::newSending(ucp_ep_h endpoint) {
    if (idle_.empty())
        sendings_.emplace_front();
    else
        sendings_.splice(sendings_.begin(), idle_, idle_.begin());
    Sending &sending = sendings_.front();
    sending.self = sendings_.begin();
    sending.server = this;
    sending.endpoint = endpoint;
    return sending;
}

void
BlockServer::send(unsigned id, const BlockAnswer &answer, Sending &sending) {
    encodeAnswer(answer, sending.header);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_DATATYPE;
    param.cb.send = onSent;
    param.user_data = &sending;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.datatype = ucp_dt_make_iov();
    void *request = worker_.api().am_send_nbx(sending.endpoint, id, sending.header, kAnswerBytes,
                                              sending.pieces.data(), sending.pieces.size(), &param);
    if (UCS_PTR_IS_PTR(request)) {
        ++waiting_[sending.endpoint];
        return;
    }
    if (const ucs_status_t status = UCS_PTR_STATUS(request); status != UCS_OK && !meansDisconnected(status))
        NIXL_LOG(kError, "UCX: a peer waits for an answer that cannot be sent: ",
                 worker_.api().status_string(status));
    recycle(sending);
}

void
BlockServer::onSent(void *request, ucs_status_t, void *argument) {
    auto *sending = static_cast<Sending *>(argument);
    BlockServer *server = sending->server;
    const auto waiting = server->waiting_.find(sending->endpoint);
    if (--waiting->second == 0) {
        server->waiting_.erase(waiting);
        server->dropping_ = false;
    }
    server->worker_.api().request_free(request);
    server->recycle(*sending);
}

/// What is not sent after all, or was, is not read any more.
void
BlockServer::letGo(Sending &sending) {
    for (const auto &memory : sending.memory)
        memory->sends.fetch_sub(1, std::memory_order_release);
    sending.memory.clear();
    sending.pieces.clear();
}

void
BlockServer::recycle(Sending &sending) {
    letGo(sending);
    if (idle_.size() < kMostIdle)
        idle_.splice(idle_.begin(), sendings_, sending.self);
    else
        sendings_.erase(sending.self);
}

} // namespace nixl::ucx
