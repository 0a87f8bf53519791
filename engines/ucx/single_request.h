// An operation that is one request to UCX.
#pragma once

#include <functional>
#include <memory>

#include "engines/ucx/connection.h"

namespace nixl::ucx {

/// Posts once, to a connection that it opens if need be. Deletes itself when it is over.
class SingleRequest : public Operation {
public:
    /// Called without locks: success, or why the request failed. May be empty.
    using Done = std::function<void(const Status &)>;

    /// REQUIRES: the lock of the connection's worker; the first call.
    void start();

    bool
    over() const override {
        return over_;
    }

    void ended() override;

protected:
    SingleRequest(std::shared_ptr<Connection> connection, Done done)
        : connection_(std::move(connection)), done_(std::move(done)) {}

    ~SingleRequest() override = default;

    /// Makes the request with `param`, which holds the callback, and returns what UCX does.
    virtual void *post(ucp_ep_h endpoint, ucp_request_param_t param) = 0;

    const std::shared_ptr<Connection> connection_;

private:
    static void onDone(void *request, ucs_status_t status, void *self);
    void conclude(ucs_status_t status, bool posting);

    const Done done_;
    // Under the lock of the connection's worker, until it is over.
    std::uint64_t opening_ = 0;
    bool over_ = false;
    Status outcome_;
};

} // namespace nixl::ucx
