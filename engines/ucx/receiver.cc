#include "engines/ucx/receiver.h"

#include <memory>
#include <utility>

#include "engines/ucx/link_message.h"
#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Links that are remembered. Of one that was forgotten a letter could be taken in twice or be missed;
/// whoever is not heard of while this many others are has most likely gone.
constexpr std::size_t kMostLinks = 1 << 16;
/// Answers that may wait for an endpoint; the next question is asked again.
constexpr std::size_t kMostAnswers = 64;

bool
complete(const ucp_am_recv_param_t &param, std::size_t length) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0)
        return true;
    NIXL_LOG(kWarn, "UCX: a message of ", length, " bytes that a sender offers by rendezvous is refused");
    return false;
}

void
complain(const Status &why) {
    NIXL_LOG(kWarn, "UCX: a message is dropped: ", why.message());
}

} // namespace

Status
Receiver::receive() {
    NIXL_RETURN_IF_ERROR(worker_.receive(kPlainNotification, onNotification, this));
    NIXL_RETURN_IF_ERROR(worker_.receive(kLetter, onLetter, this));
    return worker_.receive(kPing, onPing, this);
}

/// Of a plain peer, which sends each message once.
ucs_status_t
Receiver::onNotification(void *argument, const void *, std::size_t, void *data, std::size_t length,
                         const ucp_am_recv_param_t *param) {
    auto *self = static_cast<Receiver *>(argument);
    if (!complete(*param, length))
        return UCS_ERR_UNSUPPORTED;
    const bool taken = self->takeNotification({static_cast<const char *>(data), length});
    if (!taken && !std::exchange(self->dropping_, true))
        NIXL_LOG(kError, "notifications are lost: the queue is full (NIXL_NOTIF_QUEUE_BYTES), and their "
                         "senders, which are of another implementation, cannot wait");
    if (taken)
        self->dropping_ = false;
    return UCS_OK;
}

ucs_status_t
Receiver::onLetter(void *argument, const void *header, std::size_t headerLength, void *data,
                   std::size_t length, const ucp_am_recv_param_t *param) {
    auto *self = static_cast<Receiver *>(argument);
    if (!complete(*param, length))
        return UCS_ERR_UNSUPPORTED;
    const auto letter = decodeLetterHeader({static_cast<const char *>(header), headerLength});
    if (!letter.ok()) {
        complain(letter.status());
        return UCS_OK;
    }
    const LetterHeader &head = letter.value();
    Link &link = self->linkOf(head);
    LetterState state = link.refused ? LetterState::kFull : LetterState::kTaken;
    bool tell = head.answer;
    if (head.number > link.expected) {
        state = LetterState::kGap;
        tell |= !std::exchange(link.refused, true);
    } else if (head.number == link.expected) {
        if (self->takeIn(head.kind, {static_cast<const char *>(data), length})) {
            ++link.expected;
            link.refused = false;
            state = LetterState::kTaken;
        } else {
            state = LetterState::kFull;
            link.refused = tell = true;
        }
    }
    if (tell)
        self->answer(*param, {link.id, link.expected, state, 0});
    return UCS_OK;
}

ucs_status_t
Receiver::onPing(void *argument, const void *header, std::size_t headerLength, void *, std::size_t,
                 const ucp_am_recv_param_t *param) {
    auto *self = static_cast<Receiver *>(argument);
    const auto ping = decodePing({static_cast<const char *>(header), headerLength});
    if (!ping.ok()) {
        complain(ping.status());
        return UCS_OK;
    }
    Pong pong{ping.value().link, 0, LetterState::kTaken, ping.value().number};
    if (const auto found = self->byId_.find(pong.link); found != self->byId_.end()) {
        pong.expected = found->second->expected;
        if (found->second->refused)
            pong.state = LetterState::kFull;
    }
    self->answer(*param, pong);
    return UCS_OK;
}

/// A link is new here with its first letter, whichever number that has: a sender repeats from the oldest that
/// was not taken in.
Receiver::Link &
Receiver::linkOf(const LetterHeader &letter) {
    const auto found = byId_.find(letter.link);
    if (found != byId_.end()) {
        links_.splice(links_.begin(), links_, found->second);
        return links_.front();
    }
    if (links_.size() >= kMostLinks) {
        byId_.erase(links_.back().id);
        links_.pop_back();
    }
    links_.push_front({letter.link, letter.number, false});
    byId_.emplace(letter.link, links_.begin());
    return links_.front();
}

/// False: there is no room. What cannot be read is taken in, and dropped.
bool
Receiver::takeIn(LetterKind kind, std::string_view payload) {
    return kind == LetterKind::kNotification ? takeNotification(payload) : takeFailure(payload);
}

bool
Receiver::takeNotification(std::string_view payload) {
    auto notification = decodeNotification(payload, maxBytes_);
    if (!notification.ok()) {
        complain(notification.status());
        return true;
    }
    if (!inbox_.push(notification.value().agent, std::move(notification.value().message)))
        return false;
    if (onArrival_)
        onArrival_();
    return true;
}

bool
Receiver::takeFailure(std::string_view payload) {
    auto failure = decodeFailure(payload, maxBytes_);
    if (!failure.ok()) {
        complain(failure.status());
        return true;
    }
    inbox_.pushFailure(std::move(failure).value());
    if (onArrival_)
        onArrival_();
    return true;
}

void
Receiver::answer(const ucp_am_recv_param_t &param, const Pong &pong) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
        return;
    const auto waiting = answering_.find(param.reply_ep);
    if (waiting != answering_.end() && waiting->second >= kMostAnswers)
        return;
    char header[kPongBytes];
    encodePong(pong, header);
    auto answering = std::make_unique<Answering>(Answering{this, param.reply_ep});
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    how.cb.send = onAnswered;
    how.user_data = answering.get();
    how.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_COPY_HEADER;
    if (!UCS_PTR_IS_PTR(
            worker_.api().am_send_nbx(param.reply_ep, kPong, header, sizeof header, nullptr, 0, &how)))
        return;
    (void)answering.release();
    ++answering_[param.reply_ep];
}

void
Receiver::onAnswered(void *request, ucs_status_t, void *argument) {
    const std::unique_ptr<Answering> answering(static_cast<Answering *>(argument));
    Receiver *self = answering->receiver;
    if (const auto waiting = self->answering_.find(answering->endpoint); --waiting->second == 0)
        self->answering_.erase(waiting);
    self->worker_.api().request_free(request);
}

} // namespace nixl::ucx
