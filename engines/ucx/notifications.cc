#include "engines/ucx/notifications.h"

#include "util/log.h"
#include "wire/container.h"

namespace nixl::ucx {

std::string
encodeNotification(std::string_view sender, std::string_view message) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    writer.expect(sender.size() + message.size() + 64);
    writer.add("name", sender);
    writer.add("msg", message);
    return bytes;
}

Result<Notification>
decodeNotification(std::string_view payload, std::uint64_t maxBytes) {
    auto reader = Reader::open(payload);
    if (!reader.ok())
        return reader.status();
    const auto name = reader.value().take("name");
    if (!name.ok())
        return name.status();
    if (name.value().empty())
        return Status::error(NIXL_ERR_MISMATCH, "the sender has no name");
    const auto message = reader.value().take("msg");
    if (!message.ok())
        return message.status();
    if (message.value().size() > maxBytes)
        return Status::error(NIXL_ERR_MISMATCH, "it has ", message.value().size(), " bytes; the limit is ",
                             maxBytes, " (NIXL_NOTIF_MAX_BYTES)");
    return Notification{std::string(name.value()), std::string(message.value())};
}

Status
Inbox::receiveFrom(ProgressWorker &worker) {
    return worker.receive(kNotificationId, onMessage, this);
}

/// Bytes of a stranger. Whatever is wrong with them is said once per message and the message dropped.
ucs_status_t
Inbox::onMessage(void *inbox, const void *, std::size_t, void *data, std::size_t length,
                 const ucp_am_recv_param_t *param) {
    auto *self = static_cast<Inbox *>(inbox);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        NIXL_LOG(kWarn, "UCX: a message of ", length, " bytes that a sender offers by rendezvous is refused");
        return UCS_ERR_UNSUPPORTED;
    }
    auto notification = decodeNotification({static_cast<const char *>(data), length}, self->maxBytes_);
    if (notification.ok())
        self->put(std::move(notification).value());
    else
        NIXL_LOG(kWarn, "UCX: a message that is no notification to take in is dropped: ",
                 notification.status().message());
    return UCS_OK;
}

void
Inbox::put(Notification notification) {
    {
        LockGuard lock(mutex_);
        waiting_.push_back(std::move(notification));
    }
    if (onArrival_)
        onArrival_();
}

void
Inbox::take(std::vector<Notification> &out) {
    std::vector<Notification> taken;
    {
        LockGuard lock(mutex_);
        taken.swap(waiting_);
    }
    out.insert(out.end(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
}

Message::Message(std::shared_ptr<Connection> connection, std::string payload, Done sent)
    : SingleRequest(std::move(connection), std::move(sent)), payload_(std::move(payload)) {
    connection_->pendingBytes.fetch_add(payload_.size());
}

void
Message::send(const std::shared_ptr<Connection> &connection, std::string payload, Done sent) {
    auto *message = new Message(connection, std::move(payload), std::move(sent));
    const bool over = connection->worker().locked([&] {
        message->start();
        if (!message->over())
            connection->worker().add(*message);
        return message->over();
    });
    if (over)
        message->ended();
    else
        connection->worker().enter([] {}); // not with(): this may be the end of another operation
}

void *
Message::post(ucp_ep_h endpoint, ucp_request_param_t param) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    return connection_->worker().api().am_send_nbx(endpoint, kNotificationId, nullptr, 0, payload_.data(),
                                                   payload_.size(), &param);
}

void
Message::ended() {
    connection_->pendingBytes.fetch_sub(payload_.size());
    SingleRequest::ended();
}

} // namespace nixl::ucx
