#include "engines/local/listener.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>

#include "util/log.h"

namespace nixl::local {

namespace {

/// Pause after the process ran out of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};

} // namespace

Result<std::unique_ptr<Listener>>
Listener::create(HostProcess &process, std::shared_ptr<Endpoint> endpoint, const Settings &settings) {
    auto socket = listenAbstract(socketName(endpoint->incarnation));
    if (!socket.ok())
        return socket.status();
    std::unique_ptr<Listener> listener(
        new Listener(process, std::move(endpoint), settings, std::move(socket).value()));
    Status watched;
    process.loop().call([&] { watched = listener->watchSocketFromLoop(); });
    if (!watched.ok())
        return watched;
    return listener;
}

Listener::Listener(HostProcess &process, std::shared_ptr<Endpoint> endpoint, const Settings &settings,
                   ScopedFd socket)
    : process_(process), endpoint_(std::move(endpoint)), settings_(settings), socket_(std::move(socket)) {}

Listener::~Listener() {
    stop();
    process_.loop().call([this] { connections_.clear(); });
}

void
Listener::stop() {
    process_.loop().call([this] {
        process_.loop().cancelFromLoop(pause_);
        process_.loop().forgetFromLoop(socket_.get());
        socket_.reset();
        forEachFromLoop([](Incoming &connection) { connection.hangUp(); });
    });
}

void
Listener::resume() {
    process_.loop().call([this] { forEachFromLoop([](Incoming &connection) { connection.resume(); }); });
}

void
Listener::memoryEnded(std::uint64_t id) {
    process_.loop().call([this, id] {
        if (endpoint_->lent.find(id))
            return; // registered again meanwhile
        forEachFromLoop([id](Incoming &connection) { connection.memoryEnded(id); });
    });
}

void
Listener::forEachFromLoop(const std::function<void(Incoming &)> &work) {
    std::vector<Incoming *> all; // the work may end its connection
    for (const auto &[raw, connection] : connections_)
        all.push_back(raw);
    for (Incoming *connection : all)
        work(*connection);
}

Status
Listener::watchSocketFromLoop() {
    return process_.loop().watchFromLoop(socket_.get(), EPOLLIN, [this](std::uint32_t) { acceptFromLoop(); });
}

void
Listener::acceptFromLoop() {
    ScopedFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
            return;
        NIXL_LOG(kWarn, "LOCAL: agent '", endpoint_->agent,
                 "' cannot accept a connection: ", strerror(errno));
        process_.loop().changeFromLoop(socket_.get(), 0);
        pause_ = process_.loop().afterFromLoop(
            kAcceptPause, [this] { process_.loop().changeFromLoop(socket_.get(), EPOLLIN); });
        return;
    }
    if (connections_.size() >= settings_.maxConnections) {
        const std::string reason = concat("it has ", connections_.size(), " connections and accepts no more");
        NIXL_LOG(kWarn, "LOCAL: agent '", endpoint_->agent, "' refuses a connection: ", reason);
        const std::string bytes = encodeRefuse(reason);
        sendSome(socket.get(), std::array{std::string_view(bytes)});
        return;
    }
    auto connection = std::make_unique<Incoming>(*this, std::move(socket));
    Incoming *raw = connection.get();
    if (raw->start())
        connections_[raw] = std::move(connection);
}

void
Listener::finishedFromLoop(Incoming &connection) {
    connections_.erase(&connection);
}

} // namespace nixl::local
