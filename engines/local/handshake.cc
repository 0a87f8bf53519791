#include "engines/local/handshake.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "engines/local/identity.h"
#include "util/random.h"

namespace nixl::local {

namespace {

using TimePoint = std::chrono::steady_clock::time_point;

Result<PeerCredentials>
checkedCredentials(int socket) {
    auto peer = peerCredentials(socket);
    if (!peer.ok()) {
        const Status &error = peer.status();
        return error.code() == NIXL_ERR_NOT_FOUND ? Status(NIXL_ERR_REMOTE_DISCONNECT, error.message())
                                                  : error;
    }
    if (peer.value().pid == 0)
        return Status::error(NIXL_ERR_BACKEND,
                             "it is in another pid namespace (container), where its process "
                             "cannot be seen from this one");
    if (peer.value().uid != geteuid())
        return Status::error(NIXL_ERR_BACKEND, "it runs as user ", peer.value().uid,
                             ", this process as user ", geteuid());
    return peer;
}

/// Waits for one frame.
Result<Frame>
awaitFrame(int socket, FrameReader &reader, pid_t pid, TimePoint deadline) {
    Frame frame{};
    for (;;) {
        auto complete = reader.next(frame);
        if (!complete.ok())
            return complete.status();
        if (complete.value())
            return frame;
        if (!waitReady(socket, POLLIN, deadline))
            return Status::error(NIXL_ERR_BACKEND, explainSilence(pid));
        if (reader.readOnce(socket) == IoState::kClosed)
            return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "process ", pid, " closed the connection");
    }
}

Result<Welcome>
awaitWelcome(int socket, FrameReader &reader, pid_t pid, TimePoint deadline) {
    auto frame = awaitFrame(socket, reader, pid, deadline);
    if (!frame.ok())
        return frame.status();
    if (frame.value().type == FrameType::kRefuse)
        return Status::error(NIXL_ERR_BACKEND, "process ", pid,
                             " refuses: ", frame.value().payload.substr(0, 1024));
    if (frame.value().type != FrameType::kWelcome)
        return Status::error(NIXL_ERR_MISMATCH, "process ", pid, " answers with a frame of type ",
                             static_cast<unsigned>(frame.value().type));
    return decodeWelcome(frame.value().payload);
}

/// One transfer of a challenge through the very calls that will move data.
Status
move(nixl_xfer_op_t operation, pid_t pid, Challenge &local, std::uint64_t address) {
    iovec here{local.data(), local.size()};
    iovec there{reinterpret_cast<void *>(address), local.size()};
    const auto call = operation == NIXL_WRITE ? process_vm_writev : process_vm_readv;
    const ssize_t moved = call(pid, &here, 1, &there, 1, 0);
    if (moved == static_cast<ssize_t>(local.size()))
        return {};
    if (moved >= 0 || errno == EFAULT)
        return Status::error(NIXL_ERR_MISMATCH, "process ", pid,
                             " does not hold the challenge where it says");
    return explainDenied(pid, errno);
}

/// Whoever answers put the challenge where we find it under this pid, and both directions work.
Status
prove(pid_t pid, const Challenge &challenge, std::uint64_t address) {
    Challenge seen{};
    NIXL_RETURN_IF_ERROR(move(NIXL_READ, pid, seen, address));
    if (seen != challenge)
        return Status::error(NIXL_ERR_MISMATCH, "process ", pid,
                             " holds other bytes than the challenge: another "
                             "process answers");
    Challenge inverted{};
    for (std::size_t i = 0; i < challenge.size(); ++i)
        inverted[i] = static_cast<std::uint8_t>(~challenge[i]);
    Challenge written = inverted;
    NIXL_RETURN_IF_ERROR(move(NIXL_WRITE, pid, written, address));
    NIXL_RETURN_IF_ERROR(move(NIXL_READ, pid, seen, address));
    if (seen != inverted)
        return Status::error(NIXL_ERR_MISMATCH, "process ", pid, " does not hold what was written to it");
    return {};
}

Status
checkAnswer(const Welcome &welcome, const ConnectionInfo &peer, const std::string &agent) {
    if (welcome.incarnation != peer.incarnation)
        return Status::error(NIXL_ERR_MISMATCH, "another incarnation answers on its socket");
    if (welcome.agent != agent)
        return Status::error(NIXL_ERR_MISMATCH, "agent '", welcome.agent, "' answers on its socket");
    return {};
}

Hello
makeHello(const Endpoint &self, const ConnectionInfo &peer, const Challenge &token) {
    Hello hello;
    hello.target = peer.incarnation;
    hello.incarnation = self.incarnation;
    hello.agent = self.agent;
    hello.revision = std::min(kRevision, peer.revision);
    hello.token = token;
    hello.tokenAddress = reinterpret_cast<std::uint64_t>(token.data());
    randomBytes(hello.challenge.data(), hello.challenge.size());
    return hello;
}

Status
sendAll(int socket, std::string_view bytes, std::span<const int> fds, pid_t pid, TimePoint deadline) {
    while (!bytes.empty()) {
        const IoResult sent = sendSome(socket, std::array{bytes}, fds);
        if (sent.state == IoState::kClosed)
            return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "process ", pid, " closed the connection");
        if (sent.state == IoState::kDone) {
            bytes.remove_prefix(sent.bytes);
            fds = {};
        } else if (!waitReady(socket, POLLOUT, deadline)) {
            return Status::error(NIXL_ERR_BACKEND, explainSilence(pid));
        }
    }
    return {};
}

} // namespace

Result<Acquaintance>
meetPeer(const Endpoint &self, const HostHints &ownHints, int lifeFd, const ConnectionInfo &peer,
         const std::string &agent, TimePoint deadline) {
    NIXL_RETURN_IF_ERROR(checkHints(ownHints, peer.hints));
    auto socket = connectAbstract(socketName(peer.incarnation), deadline);
    if (!socket.ok())
        return socket.status().code() == NIXL_ERR_NOT_FOUND
                   ? explainNoListener(ownHints, peer.hints)
                   : Status(NIXL_ERR_BACKEND, socket.status().message());
    const int fd = socket.value().get();
    auto credentials = checkedCredentials(fd);
    if (!credentials.ok())
        return credentials.status();
    const pid_t pid = credentials.value().pid;
    auto marks = SharedMarks::create();
    if (!marks.ok())
        return marks.status();
    auto token = std::make_unique<Challenge>();
    randomBytes(token->data(), token->size());

    const Hello hello = makeHello(self, peer, *token);
    // A target that is full refuses and closes without reading; its reason can be read all the same.
    const Status sent =
        sendAll(fd, encodeHello(hello), std::array{marks.value().fd(), lifeFd}, pid, deadline);
    if (!sent.ok() && sent.code() != NIXL_ERR_REMOTE_DISCONNECT)
        return sent;
    FrameReader reader;
    auto welcome = awaitWelcome(fd, reader, pid, deadline);
    if (!welcome.ok())
        return welcome.status();
    NIXL_RETURN_IF_ERROR(checkAnswer(welcome.value(), peer, agent));
    if (reader.fds.size() != 2)
        return Status::error(NIXL_ERR_MISMATCH, "process ", pid, " gave ", reader.fds.size(),
                             " descriptors instead of 2");
    auto table = PeerTable::map(reader.fds[0].get());
    if (!table.ok())
        return table.status();
    auto life = LifeView::map(reader.fds[1].get());
    if (!life.ok())
        return life.status();
    NIXL_RETURN_IF_ERROR(prove(pid, hello.challenge, welcome.value().challengeAddress));
    // The pidfd was taken before the proof: if that process lived until now, the pid was never another's.
    pollfd ended{credentials.value().pidfd.get(), POLLIN, 0};
    if (poll(&ended, 1, 0) > 0 || !life.value().alive())
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "process ", pid, " has ended");
    NIXL_RETURN_IF_ERROR(sendAll(fd, frameHeader(FrameType::kReady, 0), {}, pid, deadline));
    return Acquaintance{std::move(socket).value(),
                        pid,
                        std::move(credentials.value().pidfd),
                        std::move(table).value(),
                        std::move(life).value(),
                        std::move(marks).value(),
                        std::move(token),
                        std::min(hello.revision, welcome.value().revision),
                        welcome.value().slot};
}

} // namespace nixl::local
