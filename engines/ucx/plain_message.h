// Notifications as NIXL sends them.
#pragma once

#include <memory>
#include <string>

#include "engines/ucx/single_request.h"

namespace nixl::ucx {

/// A notification on its way to a peer that knows no letters.
class PlainMessage : public SingleRequest {
public:
    /// Sends `payload` on `connection`, opening it if need be; what is sent on one connection arrives in that
    /// order. Never fails: `sent` tells, perhaps before this returns; success once the bytes are UCX's to
    /// deliver.
    static void send(const std::shared_ptr<Connection> &connection, std::string payload, Done sent);

    void ended() override;

private:
    PlainMessage(std::shared_ptr<Connection> connection, std::string payload, Done sent);

    void *post(ucp_ep_h endpoint, ucp_request_param_t param) override;

    const std::string payload_;
};

} // namespace nixl::ucx
