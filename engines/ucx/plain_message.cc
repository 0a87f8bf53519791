#include "engines/ucx/plain_message.h"

#include "engines/ucx/link_message.h"

namespace nixl::ucx {

PlainMessage::PlainMessage(std::shared_ptr<Connection> connection, std::string payload, Done sent)
    : SingleRequest(std::move(connection), std::move(sent)), payload_(std::move(payload)) {
    connection_->pendingBytes.fetch_add(payload_.size());
}

void
PlainMessage::send(const std::shared_ptr<Connection> &connection, std::string payload, Done sent) {
    auto *message = new PlainMessage(connection, std::move(payload), std::move(sent));
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
PlainMessage::post(ucp_ep_h endpoint, ucp_request_param_t param) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    return connection_->worker().api().am_send_nbx(endpoint, kPlainNotification, nullptr, 0, payload_.data(),
                                                   payload_.size(), &param);
}

void
PlainMessage::ended() {
    connection_->pendingBytes.fetch_sub(payload_.size());
    SingleRequest::ended();
}

} // namespace nixl::ucx
