#include "engines/ucx/connection.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Waits until what was sent on a connection has arrived. Deletes itself when it is over.
class Greeting : public Operation {
public:
    Greeting(std::shared_ptr<Connection> connection, std::function<void(const Status &)> done)
        : connection_(std::move(connection)), done_(std::move(done)) {}

    /// REQUIRES: the worker's lock.
    void
    start() {
        const auto opening = connection_->open();
        if (!opening.ok()) {
            outcome_ = opening.status();
            over_ = true;
            return;
        }
        opening_ = opening.value();
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.send = [](void *request, ucs_status_t status, void *greeting) {
            auto *self = static_cast<Greeting *>(greeting);
            self->conclude(status);
            self->connection_->worker().api().request_free(request);
        };
        param.user_data = this;
        void *request = connection_->worker().api().ep_flush_nbx(connection_->endpoint(), &param);
        if (!UCS_PTR_IS_PTR(request))
            conclude(UCS_PTR_STATUS(request));
    }

    bool
    over() const override {
        return over_;
    }

    void
    ended() override {
        done_(outcome_);
        delete this;
    }

private:
    ~Greeting() override = default;

    void
    conclude(ucs_status_t status) {
        over_ = true;
        if (status == UCS_OK)
            return;
        connection_->report(opening_, status);
        outcome_ = connection_->failure();
    }

    const std::shared_ptr<Connection> connection_;
    const std::function<void(const Status &)> done_;
    std::uint64_t opening_ = 0;
    bool over_ = false;
    Status outcome_;
};

} // namespace

Connection::Connection(ProgressWorker &worker, std::string peerName, std::string address, bool errorHandling)
    : worker_(worker), peerName_(std::move(peerName)), address_(std::move(address)),
      errorHandling_(errorHandling) {}

Result<std::uint64_t>
Connection::open() {
    if (endpoint_ != nullptr && broken_.ok())
        return opening_;
    close(true);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t *>(address_.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    if (errorHandling_) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler = {onError, this};
    }
    ++opening_;
    broken_ = {};
    const ucs_status_t status = worker_.api().ep_create(worker_.handle(), &params, &endpoint_);
    if (status != UCS_OK) {
        endpoint_ = nullptr;
        return worker_.context().failed(concat("no way to '", peerName_, "': ucp_ep_create"), status);
    }
    return opening_;
}

void
Connection::report(std::uint64_t opening, ucs_status_t status) {
    if (opening == opening_ && endpoint_ != nullptr)
        breakWith(status);
}

Status
Connection::failure() const {
    return broken_.ok() ? Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the connection to '", peerName_,
                                        "' was closed")
                        : broken_;
}

void
Connection::onError(void *connection, ucp_ep_h endpoint, ucs_status_t status) {
    auto *self = static_cast<Connection *>(connection);
    if (endpoint == self->endpoint_)
        self->breakWith(status);
}

void
Connection::breakWith(ucs_status_t status) {
    if (!broken_.ok())
        return;
    broken_ = worker_.context().failed(concat("the connection to '", peerName_, "'"), status);
    NIXL_LOG(kDebug, "UCX: worker ", worker_.index(), ": ", broken_.message());
}

void
Connection::close(bool force) {
    if (endpoint_ == nullptr)
        return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force || !broken_.ok() ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void *request = worker_.api().ep_close_nbx(endpoint_, &param);
    // Given back now, it frees itself when the close is done.
    if (UCS_PTR_IS_PTR(request))
        worker_.api().request_free(request);
    endpoint_ = nullptr;
}

void
Connection::greet(std::function<void(const Status &)> done) {
    auto *greeting = new Greeting(shared_from_this(), std::move(done));
    worker_.with([&] {
        greeting->start();
        worker_.add(*greeting);
    });
}

void
Connection::lose(Status why) {
    if (lost_.ok())
        lost_ = std::move(why);
}

Status
Connection::takeLost() {
    return std::exchange(lost_, Status());
}

Result<std::vector<std::string>>
Connection::transports() const {
    ucp_transport_entry_t entries[16] = {};
    ucp_ep_attr_t attributes{};
    attributes.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
    attributes.transports.entries = entries;
    attributes.transports.num_entries = std::size(entries);
    attributes.transports.entry_size = sizeof entries[0];
    const ucs_status_t status = worker_.api().ep_query(endpoint_, &attributes);
    if (status != UCS_OK)
        return worker_.context().failed("ucp_ep_query", status);
    std::vector<std::string> names;
    for (unsigned i = 0; i < std::min<std::size_t>(attributes.transports.num_entries, std::size(entries));
         ++i) {
        if (entries[i].transport_name == nullptr || entries[i].device_name == nullptr)
            continue;
        std::string name = concat(entries[i].transport_name, "/", entries[i].device_name);
        if (std::find(names.begin(), names.end(), name) == names.end())
            names.push_back(std::move(name));
    }
    return names;
}

std::optional<double>
Connection::expectedUs(std::size_t bytes) const {
    ucp_ep_evaluate_perf_param_t param{};
    param.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE;
    param.message_size = bytes;
    ucp_ep_evaluate_perf_attr_t attributes{};
    attributes.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME;
    if (worker_.api().ep_evaluate_perf(endpoint_, &param, &attributes) != UCS_OK ||
        !(attributes.estimated_time > 0))
        return std::nullopt;
    return attributes.estimated_time * 1e6;
}

} // namespace nixl::ucx
