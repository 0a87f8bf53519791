#include "engines/ucx/packed_share.h"

#include <algorithm>

#include "util/log.h"
#include "util/random.h"

namespace nixl::ucx {

namespace {

/// Messages that a share, and all shares of a connection, have on their way or unanswered. The second bounds
/// what the target has to send; it drops the requests of a peer that goes far beyond (block_server.cc).
constexpr std::size_t kWindow = 32;
constexpr std::size_t kConnectionWindow = 128;

} // namespace

Status
RunTable::receive() {
    for (const unsigned id : {kBlocksPut, kBlocksGot})
        NIXL_RETURN_IF_ERROR(worker_.receive(id, onAnswer, this));
    return {};
}

std::uint32_t
RunTable::enter(PackedShare &share) {
    if (freePlaces_.empty())
        releaseBroken();
    if (freePlaces_.empty()) {
        runs_.emplace_back();
        freePlaces_.reserve(runs_.size());
        freePlaces_.push_back(static_cast<std::uint32_t>(runs_.size() - 1));
    }
    const std::uint32_t place = freePlaces_.back();
    freePlaces_.pop_back();
    runs_[place] = {&share, share.secret_, 0, share.connection_.weak_from_this(), share.opening_};
    return place;
}

void
RunTable::leave(std::uint32_t place, std::size_t owed) {
    runs_[place].share = nullptr;
    runs_[place].owed = owed;
    if (owed == 0)
        release(place);
}

void
RunTable::release(std::uint32_t place) {
    runs_[place] = {};
    freePlaces_.push_back(place);
}

/// Answers that a broken connection owes will not come.
void
RunTable::releaseBroken() {
    for (std::uint32_t place = 0; place < runs_.size(); ++place) {
        if (runs_[place].owed == 0)
            continue;
        const auto connection = runs_[place].connection.lock();
        if (!connection || !connection->stands(runs_[place].opening))
            release(place);
    }
}

void
RunTable::arrivedLate(std::uint32_t place) {
    Run &run = runs_[place];
    if (run.owed == 0)
        return;
    if (const auto connection = run.connection.lock(); connection && connection->stands(run.opening))
        --connection->packedUnderWay, connection->heard();
    if (--run.owed == 0)
        release(place);
}

MessageSlot &
RunTable::takeSlot() {
    if (idleSlots_.empty()) {
        slots_.push_back(std::make_unique<MessageSlot>());
        idleSlots_.reserve(slots_.size());
        return *slots_.back();
    }
    MessageSlot &slot = *idleSlots_.back();
    idleSlots_.pop_back();
    return slot;
}

void
RunTable::giveBack(MessageSlot &slot) {
    idleSlots_.push_back(&slot);
}

/// Bytes of a stranger. What is not the answer to a message that waits for one is dropped; that of a run that
/// has ended is no fault.
ucs_status_t
RunTable::onAnswer(void *table, const void *header, std::size_t headerLength, void *data, std::size_t length,
                   const ucp_am_recv_param_t *param) {
    auto *self = static_cast<RunTable *>(table);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_ERR_UNSUPPORTED;
    const auto answer = decodeAnswer({static_cast<const char *>(header), headerLength});
    if (!answer.ok()) {
        NIXL_LOG(kWarn, "UCX: a message is dropped: ", answer.status().message());
        return UCS_OK;
    }
    const RunId id = answer.value().run;
    if (id.place >= self->runs_.size() || self->runs_[id.place].secret != id.secret)
        return UCS_OK;
    if (PackedShare *share = self->runs_[id.place].share)
        share->answered(answer.value(), {static_cast<const char *>(data), length});
    else
        self->arrivedLate(id.place);
    return UCS_OK;
}

Result<std::unique_ptr<Share>>
PackedShare::create(const ShareWork &work, Connection &connection, std::span<const Block> blocks,
                    RunTable &runs, std::size_t mostPieces) {
    auto plan = BatchPlan::make(blocks, {kMessageBytes, std::min(mostPieces, kMessagePieces)});
    if (!plan.ok())
        return plan.status();
    return std::unique_ptr<Share>(new PackedShare(work, connection, blocks, runs, std::move(plan).value()));
}

PackedShare::PackedShare(const ShareWork &work, Connection &connection, std::span<const Block> blocks,
                         RunTable &runs, BatchPlan plan)
    : Share(work, connection, blocks), runs_(runs), plan_(std::move(plan)),
      window_(std::min(kWindow, plan_.count())), secret_(randomKey()) {}

/// Another run has another secret, so that late answers of the last one find nobody. Only this peer knows
/// the numbers, of which it may answer any.
void
PackedShare::reset() {
    ++secret_;
    next_ = 0;
    unanswered_ = 0;
    place_ = runs_.enter(*this);
    running_ = true;
}

void
PackedShare::goOn() {
    // The connection may break while only answers are missing, of which no request of UCX tells.
    if (running_ && error_.ok())
        canPost();
    while (error_.ok() && !stopped_ && next_ < plan_.count() && window_[next_ % window_.size()] == nullptr &&
           connection_.packedUnderWay < kConnectionWindow)
        postNext();
    moved_ = error_.ok() && next_ == plan_.count() && unanswered_ == 0;
    if (running_ && (moved_ || stopped_ || !error_.ok()))
        endRun();
}

/// No answer is taken any more. Slots of messages that UCX still sends are given back then. What the peer
/// owes keeps its room, so that there is never more unanswered than the window allows.
void
PackedShare::endRun() {
    running_ = false;
    runs_.leave(place_, connection_.stands(opening_) ? unanswered_ : 0);
    for (MessageSlot *slot : window_) {
        if (slot == nullptr)
            continue;
        slot->unanswered = false;
        settle(*slot);
    }
}

void
PackedShare::settle(MessageSlot &slot) {
    if (slot.sending || slot.unanswered)
        return;
    window_[slot.message % window_.size()] = nullptr;
    runs_.giveBack(slot);
}

void
PackedShare::postNext() {
    if (!canPost())
        return;
    MessageSlot &slot = runs_.takeSlot();
    window_[next_ % window_.size()] = &slot;
    slot.share = this;
    slot.message = next_++;
    describe(slot);
    slot.unanswered = slot.sending = true;
    ++unanswered_;
    ++connection_.packedUnderWay;
    ++underWay_; // before the post: it may call back
    if (!underWay(post(slot))) {
        slot.sending = false;
        if (!error_.ok())
            noMoreAnswer(slot); // it was not sent
        settle(slot);
    }
}

/// Of a message that was answered, or never will be.
void
PackedShare::noMoreAnswer(MessageSlot &slot) {
    slot.unanswered = false;
    --unanswered_;
    if (connection_.stands(opening_))
        --connection_.packedUnderWay;
}

/// Fills in where the bytes of a message lie on both sides.
void
PackedShare::describe(MessageSlot &slot) {
    slot.pieces = 0;
    slot.bytes = 0;
    std::array<MessagePiece, kMessagePieces> remote;
    const auto note = [&](std::size_t index, std::uint64_t offset, std::uint64_t length) -> Status {
        const Block &block = blocks_[index];
        const auto &region = static_cast<PeerRegion &>(*work_.remoteRegions[block.remoteRegion].region);
        remote[slot.pieces] = {region.messageKey(), block.remote + offset, length};
        slot.local[slot.pieces] = {reinterpret_cast<void *>(block.local + offset), length};
        slot.bytes += length;
        ++slot.pieces;
        return {};
    };
    (void)plan_.visit(blocks_, slot.message, note);
    encodeRequest({{secret_, place_}, static_cast<std::uint32_t>(slot.message)},
                  std::span(remote.data(), slot.pieces), slot.header.data());
}

void *
PackedShare::post(MessageSlot &slot) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_DATATYPE;
    param.cb.send = onSent;
    param.user_data = &slot;
    param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
    param.datatype = ucp_dt_make_iov();
    const bool write = work_.operation == NIXL_WRITE;
    return connection_.worker().api().am_send_nbx(
        connection_.endpoint(), write ? kPutBlocks : kGetBlocks, slot.header.data(),
        kRequestBytes + kPieceBytes * slot.pieces, slot.local.data(), write ? slot.pieces : 0, &param);
}

void
PackedShare::onSent(void *request, ucs_status_t status, void *argument) {
    auto *slot = static_cast<MessageSlot *>(argument);
    PackedShare *share = slot->share;
    --share->underWay_;
    slot->sending = false;
    if (status != UCS_OK)
        share->fail(status, false);
    share->settle(*slot);
    share->connection_.worker().api().request_free(request);
}

void
PackedShare::answered(const BlockAnswer &answer, std::string_view bytes) {
    MessageSlot *found = window_[answer.message % window_.size()];
    if (found == nullptr || !found->unanswered || found->message != answer.message)
        return;
    MessageSlot &slot = *found;
    connection_.heard();
    const bool success = answer.code == NIXL_SUCCESS;
    const std::uint64_t expected = success && work_.operation == NIXL_READ ? slot.bytes : 0;
    if (!success || bytes.size() != expected) {
        if (error_.ok())
            error_ = success ? Status::error(NIXL_ERR_MISMATCH, "'", connection_.peerName(),
                                             "' answers with ", bytes.size(), " bytes instead of ", expected)
                             : refusal(answer);
    } else {
        const char *at = bytes.data();
        for (std::size_t i = 0; expected > 0 && i < slot.pieces; ++i) {
            copyArrived(slot.local[i].buffer, at, slot.local[i].length);
            at += slot.local[i].length;
        }
    }
    noMoreAnswer(slot);
    settle(slot);
}

Status
PackedShare::refusal(const BlockAnswer &answer) const {
    std::size_t piece = 0;
    std::size_t culprit = 0;
    (void)plan_.visit(blocks_, answer.message,
                      [&](std::size_t index, std::uint64_t, std::uint64_t) -> Status {
                          if (piece++ <= answer.piece)
                              culprit = index;
                          return {};
                      });
    const char *why = answer.code == NIXL_ERR_NOT_FOUND ? " is not registered any more" : " is refused there";
    return Status::error(answer.code == NIXL_ERR_NOT_FOUND ? NIXL_ERR_NOT_FOUND : NIXL_ERR_BACKEND, "block ",
                         culprit, " of this connection: the memory at ", Hex{blocks_[culprit].remote},
                         " of agent '", connection_.peerName(), "'", why);
}

} // namespace nixl::ucx
