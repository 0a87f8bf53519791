#include "engines/ucx/block_server.h"

#include <optional>

#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Answers with bytes that may wait in a worker for peers to take them. Peers of ours keep to windows, so
/// only one that does not gets here.
constexpr std::size_t kMostSendings = 64 << 10;

/// What arrived, if it can be answered.
std::optional<ReceivedRequest>
accept(const void *header, std::size_t length, const ucp_am_recv_param_t *param) {
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
        return std::nullopt;
    auto request = decodeRequest({static_cast<const char *>(header), length});
    if (!request.ok()) {
        NIXL_LOG(kWarn, "UCX: a message is dropped: ", request.status().message());
        return std::nullopt;
    }
    return request.value();
}

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

ucs_status_t
BlockServer::onPut(void *argument, const void *header, std::size_t headerLength, void *data,
                   std::size_t length, const ucp_am_recv_param_t *param) {
    auto *server = static_cast<BlockServer *>(argument);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_ERR_UNSUPPORTED;
    const auto received = accept(header, headerLength, param);
    if (!received)
        return UCS_OK;
    const std::string_view text(static_cast<const char *>(header), headerLength);
    server->answer(param->reply_ep, received->bytes == length
                                        ? server->copyIn(*received, text, static_cast<const char *>(data))
                                        : refuse(received->request, NIXL_ERR_MISMATCH, 0));
    return UCS_OK;
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
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_ERR_UNSUPPORTED;
    const auto received = accept(header, headerLength, param);
    if (!received)
        return UCS_OK;
    Sending *sending = server->idleSending();
    if (sending == nullptr) {
        server->answer(param->reply_ep, refuse(received->request, NIXL_ERR_NOT_ALLOWED, 0));
        return UCS_OK;
    }
    const std::string_view text(static_cast<const char *>(header), headerLength);
    const BlockAnswer answer = server->collect(*received, text, *sending);
    if (answer.code == NIXL_SUCCESS) {
        server->send(param->reply_ep, answer, *sending);
    } else {
        server->recycle(*sending);
        server->answer(param->reply_ep, answer);
    }
    return UCS_OK;
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

void
BlockServer::answer(ucp_ep_h endpoint, const BlockAnswer &answer) const {
    char header[kAnswerBytes];
    encodeAnswer(answer, header);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_COPY_HEADER;
    void *request = worker_.api().am_send_nbx(endpoint, kBlocksPut, header, kAnswerBytes, nullptr, 0, &param);
    if (UCS_PTR_IS_PTR(request))
        worker_.api().request_free(request); // once it is done
}

void
BlockServer::send(ucp_ep_h endpoint, const BlockAnswer &answer, Sending &sending) {
    encodeAnswer(answer, sending.header);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_DATATYPE;
    param.cb.send = onSent;
    param.user_data = &sending;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.datatype = ucp_dt_make_iov();
    void *request = worker_.api().am_send_nbx(endpoint, kBlocksGot, sending.header, kAnswerBytes,
                                              sending.pieces.data(), sending.pieces.size(), &param);
    if (!UCS_PTR_IS_PTR(request))
        recycle(sending); // sent, or the peer is gone
}

void
BlockServer::onSent(void *request, ucs_status_t, void *argument) {
    auto *sending = static_cast<Sending *>(argument);
    sending->server->worker_.api().request_free(request);
    sending->server->recycle(*sending);
}

BlockServer::Sending *
BlockServer::idleSending() {
    if (idle_.empty()) {
        if (sendings_.size() == kMostSendings)
            return nullptr;
        sendings_.push_back(std::make_unique<Sending>());
        sendings_.back()->server = this;
        return sendings_.back().get();
    }
    Sending *sending = idle_.back();
    idle_.pop_back();
    return sending;
}

void
BlockServer::recycle(Sending &sending) {
    for (const auto &memory : sending.memory)
        memory->sends.fetch_sub(1, std::memory_order_release);
    sending.memory.clear();
    sending.pieces.clear();
    idle_.push_back(&sending);
}

} // namespace nixl::ucx
