#include "engines/ucx/connection.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engines/ucx/log_route.h"
#include "engines/ucx/single_request.h"
#include "util/log.h"
#include "util/random.h"

namespace nixl::ucx {

namespace {

/// Waits until what was sent on a connection has arrived.
class Greeting : public SingleRequest {
public:
    Greeting(std::shared_ptr<Connection> connection, Done done)
        : SingleRequest(std::move(connection), std::move(done)) {}

private:
    void *
    post(ucp_ep_h endpoint, ucp_request_param_t param) override {
        return connection_->worker().api().ep_flush_nbx(endpoint, &param);
    }
};

/// Whether whatever goes on over these transports comes with an event of the worker. Copies by the kernel
/// (cma) and through shared memory are made when the worker is driven.
bool
tellTheirEvents(const std::vector<std::string> &transports) {
    return std::all_of(transports.begin(), transports.end(), [](const std::string &transport) {
        return transport.rfind("tcp/", 0) == 0 || transport.rfind("rc", 0) == 0 ||
               transport.rfind("dc", 0) == 0;
    });
}

/// The close of an endpoint, which goes on after its connection is gone. Deletes itself when it is over.
class Closing : public Operation {
public:
    explicit Closing(const Api &api) : api_(api) {}

    static void
    onClosed(void *request, ucs_status_t, void *closing) {
        auto *self = static_cast<Closing *>(closing);
        self->over_ = true;
        self->api_.request_free(request);
    }

    bool
    over() const override {
        return over_;
    }

    void
    ended() override {
        delete this;
    }

private:
    const Api &api_;
    bool over_ = false;
};

} // namespace

/// Finds out whether the process at the other end of a connection that broke still exists, before UCX is
/// asked to connect with it (mayOpen()).
class Connection::Judge : public Operation {
public:
    explicit Judge(std::shared_ptr<Connection> connection)
        : connection_(std::move(connection)), knock_(connection_->sockets_) {}

    void
    feed() override {
        const auto now = Knock::Clock::now();
        connection_->worker().lookAgain();
        if (over() || now < next_)
            return;
        next_ = now + std::chrono::milliseconds(1);
        answer_ = knock_.look(now);
        if (answer_ == Knock::Answer::kThere && there_ == Knock::Clock::time_point())
            there_ = now;
        // A process that ends closes its descriptors one by one, and the one that listens may be the last.
        if (answer_ == Knock::Answer::kThere && now - there_ < std::chrono::milliseconds(20))
            answer_ = Knock::Answer::kNone;
    }

    bool
    over() const override {
        return answer_ != Knock::Answer::kNone;
    }

    void
    ended() override {
        connection_->worker().enter([this] {
            connection_->probed(answer_ == Knock::Answer::kThere ? Status()
                                                                 : gone(connection_->peerName(), answer_));
        });
        delete this;
    }

private:
    const std::shared_ptr<Connection> connection_;
    Knock knock_;
    Knock::Answer answer_ = Knock::Answer::kNone;
    Knock::Clock::time_point next_{};
    Knock::Clock::time_point there_{}; ///< when it was first seen to exist
};

/// The same, of a peer that does not listen over TCP: whether it can be connected with. Waits for its turn
/// with the worker: a connection may break within a call into UCX.
class Connection::Probe : public SingleRequest {
public:
    explicit Probe(std::shared_ptr<Connection> connection)
        : SingleRequest(connection, [connection](const Status &answer) {
              connection->worker().enter([&] { connection->probed(answer); });
          }) {}

    void
    feed() override {
        if (std::exchange(fed_, true))
            return;
        // The peer may have been given up meanwhile, and nobody would close what is opened now.
        wanted_ = connection_->givenUp_.ok();
        if (wanted_)
            start();
    }

    bool
    over() const override {
        return fed_ && (!wanted_ || SingleRequest::over());
    }

private:
    void *
    post(ucp_ep_h endpoint, ucp_request_param_t param) override {
        return connection_->worker().api().ep_flush_nbx(endpoint, &param);
    }

    bool fed_ = false;
    bool wanted_ = false;
};

Connection::Connection(ProgressWorker &worker, std::string peerName, std::string address, bool errorHandling,
                       std::vector<SocketAddress> sockets)
    : worker_(worker), peerName_(std::move(peerName)), address_(std::move(address)),
      errorHandling_(errorHandling), sockets_(std::move(sockets)), link_(randomKey()) {}

/// One whose last letters were taken in after its peer was forgotten is open, and nobody else's.
Connection::~Connection() {
    if (endpoint_ != nullptr && !guard_.inherited())
        worker_.enter([this] { close(false); });
}

Result<std::uint64_t>
Connection::open() {
    if (stands())
        return opening_;
    if (!givenUp_.ok())
        return failure();
    if (!mayOpen()) {
        findOut();
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the connection to '", peerName_,
                             "': whether the peer is there is being found out");
    }
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
    packedUnderWay = 0;
    forgetUcxMessage();
    const ucs_status_t status = worker_.api().ep_create(worker_.handle(), &params, &endpoint_);
    if (status != UCS_OK) {
        endpoint_ = nullptr;
        const std::string words = takeUcxMessage();
        // That no transport leads there is a matter of settings; the peer may be alive and well.
        if (status == UCS_ERR_UNREACHABLE && words.find("transport to") != std::string::npos)
            return Status::error(NIXL_ERR_BACKEND, "no transport in common with '", peerName_, "': ", words);
        broken_ = failed(status, words);
        suspect(status);
        return broken_;
    }
    stands_.store(true, std::memory_order_release);
    worker_.links().enter(link_, *this);
    if (const auto names = transports(); !names.ok() || !tellTheirEvents(names.value()))
        worker_.expectSilence();
    return opening_;
}

/// Of a process that has ended UCX 1.22 may keep a descriptor, and with UCX_TCP_CONN_NB=n it waits within the
/// call for a host that does not answer, two minutes.
bool
Connection::mayOpen() const {
    constexpr std::chrono::seconds kFresh{1};
    return sockets_.empty() || !errorHandling_ ||
           (!probing_ && std::chrono::steady_clock::now() - seenAt_ < kFresh);
}

Status
Connection::report(std::uint64_t opening, ucs_status_t status, bool posting) {
    if (opening != opening_)
        return failed(status, "");
    if (endpoint_ == nullptr)
        return failure();
    if (posting && !meansDisconnected(status) && broken_.ok())
        return failed(status, "");
    breakWith(status);
    return failure();
}

/// What a status says about this connection.
Status
Connection::failed(ucs_status_t status, const std::string &words) const {
    return Status::error(meansDisconnected(status) ? NIXL_ERR_REMOTE_DISCONNECT : NIXL_ERR_BACKEND,
                         "the connection to '", peerName_, "': ", worker_.api().status_string(status),
                         words.empty() ? "" : concat(" (", words, ")"));
}

Status
Connection::failure() const {
    return broken_.ok()
               ? Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the connection to '", peerName_, "' was closed")
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
    broken_ = failed(status, "");
    stands_.store(false, std::memory_order_release);
    NIXL_LOG(kDebug, "UCX: worker ", worker_.index(), ": ", broken_.message());
    suspect(status);
}

/// A peer that ends a connection may be well: it closed its side, or had to end a transfer by force.
void
Connection::suspect(ucs_status_t status) {
    seenAt_ = {};
    const bool matters = peerLost_ || (outbox_ && !outbox_->empty());
    if (matters && meansDisconnected(status))
        findOut();
}

void
Connection::findOut() {
    if (!errorHandling_ || probing_ || !givenUp_.ok())
        return;
    probing_ = true;
    probingSince_ = std::chrono::steady_clock::now();
    if (sockets_.empty())
        worker_.add(*new Probe(shared_from_this()));
    else
        worker_.add(*new Judge(shared_from_this()));
}

void
Connection::probed(const Status &answer) {
    probing_ = false;
    const bool lost = answer.code() == NIXL_ERR_REMOTE_DISCONNECT;
    if (answer.ok())
        seen();
    if (lost && givenUp_.ok()) {
        giveUp(answer);
        if (peerLost_)
            peerLost_(answer);
    }
    judge(lost);
}

void
Connection::judge(bool lost) {
    for (auto &judged : std::exchange(awaitJudgement_, {}))
        worker_.later([judged = std::move(judged), lost] { judged(lost); });
}

void
Connection::whenJudged(std::function<void(bool lost)> judged) {
    awaitJudgement_.push_back(std::move(judged));
    if (!probing_)
        judge(givenUp_.code() == NIXL_ERR_REMOTE_DISCONNECT);
}

void
Connection::judgeLate(std::chrono::steady_clock::time_point now) {
    if (probing_ && now - probingSince_ > Knock::kPatience)
        judge(false);
}

void
Connection::replace() {
    if (!errorHandling_ || endpoint_ == nullptr)
        return;
    if (broken_.ok())
        broken_ = Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the connection to '", peerName_,
                                "' was ended by the other side");
    NIXL_LOG(kInfo, "UCX: worker ", worker_.index(), ": ", broken_.message());
    close(true);
}

void
Connection::giveUp(const Status &why) {
    if (!givenUp_.ok())
        return;
    givenUp_ = broken_ = why;
    if (outbox_)
        outbox_->giveUp(why, true);
    close(true);
    judge(why.code() == NIXL_ERR_REMOTE_DISCONNECT);
}

Outbox &
Connection::outbox() {
    if (!outbox_)
        outbox_ = std::make_unique<Outbox>(*this);
    return *outbox_;
}

void
Connection::ping() {
    if (pinging_ != nullptr || !open().ok())
        return;
    char header[kPingBytes];
    encodePing({link_, ++pinged_}, header);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.cb.send = onPinged;
    param.user_data = this;
    param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER;
    void *request = worker_.api().am_send_nbx(endpoint_, kPing, header, sizeof header, nullptr, 0, &param);
    if (UCS_PTR_IS_PTR(request))
        pinging_ = shared_from_this();
    else if (const ucs_status_t status = UCS_PTR_STATUS(request); status != UCS_OK)
        (void)report(opening_, status, true);
}

void
Connection::onPinged(void *request, ucs_status_t, void *argument) {
    auto self = std::move(static_cast<Connection *>(argument)->pinging_);
    ProgressWorker &worker = self->worker_;
    worker.api().request_free(request);
    worker.later([self = std::move(self)] {}); // it may be the last one who holds it
}

void
Connection::answered(const Pong &pong) {
    heard();
    if (pong.ping > ponged_ && pong.ping <= pinged_)
        ponged_ = pong.ping;
    if (outbox_)
        outbox_->takeIn(pong);
}

void
Connection::close(bool force) {
    if (endpoint_ == nullptr)
        return;
    auto *closing = new Closing(worker_.api());
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    // Without error handling UCX knows no force.
    param.flags = errorHandling_ && (force || !broken_.ok()) ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    param.cb.send = Closing::onClosed;
    param.user_data = closing;
    stands_.store(false, std::memory_order_release);
    void *request = worker_.api().ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
    leaveIfIdle();
    if (UCS_PTR_IS_ERR(request))
        NIXL_LOG(kInfo, "UCX: closing the connection to '", peerName_,
                 "': ", worker_.api().status_string(UCS_PTR_STATUS(request)));
    if (UCS_PTR_IS_PTR(request))
        worker_.add(*closing);
    else
        delete closing;
}

void
Connection::leaveIfIdle() {
    if (endpoint_ == nullptr && (!outbox_ || !outbox_->working()))
        worker_.links().leave(link_);
}

void
Connection::cutOff(std::uint64_t opening) {
    if (!errorHandling_ || opening != opening_ || endpoint_ == nullptr)
        return;
    cutOff_.store(opening, std::memory_order_relaxed);
    broken_ = Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the connection to '", peerName_,
                            "' was ended by force: a cancelled transfer did not end");
    seenAt_ = {};
    NIXL_LOG(kInfo, "UCX: worker ", worker_.index(), ": ", broken_.message());
    close(true);
}

void
Connection::greet(std::function<void(const Status &)> done) {
    auto *greeting = new Greeting(shared_from_this(), std::move(done));
    worker_.with([&] {
        greeting->start();
        worker_.add(*greeting);
    });
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
