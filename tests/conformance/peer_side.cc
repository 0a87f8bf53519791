#include "conformance/peer_side.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "conformance/suite_support.h"
#include "util/scoped_fd.h"

extern char **environ;

namespace nixl::conformance {

namespace {

void
check(const Status &status, const char *what) {
    if (!status.ok())
        throw std::runtime_error(
            concat(what, ": ", nixlEnumStrings::statusStr(status.code()), ": ", status.message()));
}

class SameProcessPeer : public PeerSide {
public:
    SameProcessPeer(const EngineTraits &traits, const std::string &agent)
        : traits_(traits), side_(std::make_unique<Side>(traits, agent)) {}

    std::string
    connectionInfo() override {
        const Result<std::string> info = side_->engine().connectionInfo();
        check(info.status(), "connectionInfo");
        return info.value();
    }

    PeerMemory
    allocate(std::size_t length, std::size_t memoryIndex) override {
        memories_.push_back(side_->allocate(length, memoryIndex));
        Registered &memory = *memories_.back();
        const Result<std::string> data = side_->engine().publicData(memory.region());
        check(data.status(), "publicData");
        nixlBlobDesc desc = memory.desc();
        desc.metaInfo = data.value();
        return {memories_.size() - 1, desc, memory.kind()};
    }

    void
    store(std::size_t id, std::size_t offset, const std::string &bytes) override {
        memories_.at(id)->memory().store(offset, bytes);
    }

    std::string
    load(std::size_t id, std::size_t offset, std::size_t length) override {
        return memories_.at(id)->memory().load(offset, length);
    }

    Status
    deregister(std::size_t id) override {
        return memories_.at(id)->deregister();
    }

    void
    meet(const std::string &agent, const std::string &info) override {
        initiator_.reset();
        Result<std::shared_ptr<Peer>> peer = side_->engine().loadPeer(agent, info);
        check(peer.status(), "loadPeer");
        initiator_ = peer.value();
    }

    Status
    notify(const std::string &message) override {
        return side_->engine().notify(initiator_.get(), message);
    }

    std::vector<Notification>
    takeNotifications() override {
        std::vector<Notification> taken;
        check(side_->engine().takeNotifications(taken), "takeNotifications");
        return taken;
    }

    void
    vanish() override {
        initiator_.reset();
        memories_.clear();
        side_.reset();
    }

private:
    const EngineTraits traits_;
    std::unique_ptr<Side> side_;
    std::shared_ptr<Peer> initiator_;
    std::vector<std::unique_ptr<Registered>> memories_;
};

// ---- Two processes: messages are lists of byte strings over a socket ----

using Fields = std::vector<std::string>;

std::string
number(std::uint64_t value) {
    return std::to_string(value);
}

class Wire {
public:
    explicit Wire(int fd) : fd_(fd) {}

    void
    send(const Fields &fields) {
        std::string bytes = length(fields.size());
        for (const std::string &field : fields)
            bytes += length(field.size()) + field;
        for (std::size_t done = 0; done < bytes.size();) {
            const ssize_t sent = ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
            if (sent <= 0)
                throw std::runtime_error("the other process does not listen any more");
            done += static_cast<std::size_t>(sent);
        }
    }

    /// Empty at the end of the stream.
    Fields
    receive() {
        std::uint64_t count = 0;
        if (!fill(&count, sizeof count))
            return {};
        Fields fields(count);
        for (std::string &field : fields) {
            std::uint64_t size = 0;
            if (!fill(&size, sizeof size))
                return {};
            field.resize(size);
            if (!fill(field.data(), size))
                return {};
        }
        return fields;
    }

private:
    static std::string
    length(std::uint64_t value) {
        return std::string(reinterpret_cast<const char *>(&value), sizeof value);
    }

    bool
    fill(void *data, std::size_t size) {
        auto *at = static_cast<char *>(data);
        while (size != 0) {
            const ssize_t got = ::recv(fd_.get(), at, size, 0);
            if (got <= 0)
                return false;
            at += got;
            size -= static_cast<std::size_t>(got);
        }
        return true;
    }

    ScopedFd fd_;
};

/// The answer to one command.
Fields
answer(PeerSide &peer, const Fields &fields) {
    const std::string &command = fields.at(0);
    const auto argument = [&](std::size_t i) { return std::stoull(fields.at(i)); };
    const auto status = [](const Status &result) {
        return Fields{number(static_cast<std::uint64_t>(-result.code())), result.message()};
    };
    if (command == "info")
        return {peer.connectionInfo()};
    if (command == "allocate") {
        const PeerMemory memory = peer.allocate(argument(1), argument(2));
        return {number(memory.id), memory.desc.serialize(), number(memory.kind)};
    }
    if (command == "store") {
        peer.store(argument(1), argument(2), fields.at(3));
        return {"stored"};
    }
    if (command == "load")
        return {peer.load(argument(1), argument(2), argument(3))};
    if (command == "deregister")
        return status(peer.deregister(argument(1)));
    if (command == "meet") {
        peer.meet(fields.at(1), fields.at(2));
        return {"met"};
    }
    if (command == "notify")
        return status(peer.notify(fields.at(1)));
    if (command == "take") {
        Fields taken{"taken"};
        for (const Notification &notification : peer.takeNotifications())
            taken.insert(taken.end(), {notification.agent, notification.message});
        return taken;
    }
    throw std::runtime_error("unknown command " + command);
}

class OtherProcessPeer : public PeerSide {
public:
    OtherProcessPeer(const EngineTraits &traits, const std::string &agent) : wire_(start(traits, agent)) {}

    ~OtherProcessPeer() override {
        if (pid_ > 0) {
            ask({"end"});
            ::waitpid(pid_, nullptr, 0);
        }
    }

    std::string
    connectionInfo() override {
        return ask({"info"}).at(0);
    }

    PeerMemory
    allocate(std::size_t length, std::size_t memoryIndex) override {
        const Fields fields = ask({"allocate", number(length), number(memoryIndex)});
        return {std::stoull(fields.at(0)), nixlBlobDesc(fields.at(1)),
                static_cast<nixl_mem_t>(std::stoull(fields.at(2)))};
    }

    void
    store(std::size_t id, std::size_t offset, const std::string &bytes) override {
        ask({"store", number(id), number(offset), bytes});
    }

    std::string
    load(std::size_t id, std::size_t offset, std::size_t length) override {
        return ask({"load", number(id), number(offset), number(length)}).at(0);
    }

    Status
    deregister(std::size_t id) override {
        return statusOf(ask({"deregister", number(id)}));
    }

    void
    meet(const std::string &agent, const std::string &info) override {
        ask({"meet", agent, info});
    }

    Status
    notify(const std::string &message) override {
        return statusOf(ask({"notify", message}));
    }

    std::vector<Notification>
    takeNotifications() override {
        const Fields fields = ask({"take"});
        std::vector<Notification> taken;
        for (std::size_t i = 1; i + 1 < fields.size(); i += 2)
            taken.push_back({fields[i], fields[i + 1]});
        return taken;
    }

    void
    vanish() override {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

private:
    int
    start(const EngineTraits &traits, const std::string &agent) {
        int fds[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
            throw std::runtime_error("socketpair failed");
        const ScopedFd theirs(fds[1]);
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
        std::string program = "/proc/self/exe";
        std::string role = "--conformance-peer";
        std::string name = traits.name;
        std::string agentName = agent;
        char *argv[] = {program.data(), role.data(), name.data(), agentName.data(), nullptr};
        const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ);
        ::posix_spawn_file_actions_destroy(&actions);
        if (error != 0) {
            ::close(fds[0]);
            throw std::runtime_error("posix_spawn failed");
        }
        return fds[0];
    }

    Fields
    ask(const Fields &command) {
        wire_.send(command);
        const Fields fields = wire_.receive();
        if (command.at(0) != "end" && (fields.empty() || fields.at(0) != "ok"))
            throw std::runtime_error("the other process: " + (fields.size() < 2 ? "ended" : fields.at(1)));
        return fields.empty() ? Fields() : Fields(fields.begin() + 1, fields.end());
    }

    static Status
    statusOf(const Fields &fields) {
        const auto code = static_cast<nixl_status_t>(-std::stoi(fields.at(0)));
        return code == NIXL_SUCCESS ? Status() : Status(code, fields.at(1));
    }

    pid_t pid_ = -1; // before wire_, whose start sets it
    Wire wire_;
};

} // namespace

std::unique_ptr<PeerSide>
makePeer(const PairTraits &traits, const std::string &agent) {
    if (traits.otherProcess)
        return std::make_unique<OtherProcessPeer>(traits.engine, agent);
    return std::make_unique<SameProcessPeer>(traits.engine, agent);
}

int
servePeer(const EngineTraits &traits, const std::string &agent, int fd) {
    Wire wire(fd);
    SameProcessPeer peer(traits, agent);
    for (;;) {
        const Fields command = wire.receive();
        if (command.empty())
            return 1;
        if (command.at(0) == "end")
            break;
        Fields fields{"ok"};
        try {
            const Fields answered = answer(peer, command);
            fields.insert(fields.end(), answered.begin(), answered.end());
        } catch (const std::exception &error) {
            fields = {"error", error.what()};
        }
        wire.send(fields);
    }
    peer.vanish();
    wire.send({"ok"});
    return 0;
}

} // namespace nixl::conformance
