// Engines, memory and transfers for tests of LOCAL.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engines/local/entry.h"
#include "memory/sealed_memory.h"
#include "support/child_process.h"
#include "util/mutex.h"
#include "util/options.h"

namespace nixl::local {

using namespace std::chrono_literals;

/// Descriptors that this process has open.
inline std::size_t
descriptors() {
    std::size_t count = 0;
    for (int fd = 0; fd < 1024; ++fd)
        count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

/// Waits until a condition holds; false after a generous while.
inline bool
eventually(const std::function<bool()> &condition, std::chrono::seconds patience = 20s) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(200us);
    }
    return true;
}

/// Memory of the process alone, or memory that peers can map.
enum class Kind { kPrivate, kSealed };

/// An engine with one registered buffer.
class Node {
public:
    explicit Node(const std::string &agent, std::size_t bytes = 0, const Options &options = {},
                  std::function<void()> onActivity = nullptr, Kind kind = Kind::kPrivate) {
        EngineConfig config;
        config.agentName = agent;
        config.options = std::make_shared<Options>(options);
        config.onActivity = std::move(onActivity);
        config.onUndelivered = [this](const std::string &peer, std::string message, const std::string &why) {
            const LockGuard lock(mutex_);
            undelivered_.push_back({peer, std::move(message), why});
        };
        auto made = makeLocalEngineFactory()->create(config);
        if (!made.ok())
            throw std::runtime_error(made.status().message());
        engine_ = std::move(made).value();
        if (bytes == 0)
            return;
        size_ = bytes;
        if (kind == Kind::kSealed) {
            sealed_ = SealedMemory::create(bytes, false).value();
            memory_ = reinterpret_cast<char *>(sealed_->address());
        } else {
            memory_ = static_cast<char *>(
                mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        }
        enter();
    }

    ~Node() {
        remote_.clear();
        peers_.clear();
        region_.reset();
        engine_.reset();
        if (memory_ != nullptr && !sealed_)
            munmap(memory_, size_);
    }

    Engine &
    engine() {
        return *engine_;
    }

    char *
    memory() const {
        return memory_;
    }

    std::size_t
    size() const {
        return size_;
    }

    std::uint64_t
    address() const {
        return reinterpret_cast<std::uint64_t>(memory_);
    }

    /// Registers the buffer.
    void
    enter() {
        auto region = engine_->registerRegion(nixlBlobDesc(address(), size_, 0), DRAM_SEG);
        ASSERT_TRUE(region.ok()) << region.status().message();
        region_ = std::move(region).value();
    }

    Status
    leave() {
        return engine_->deregisterRegion(*region_);
    }

    LocalRegion &
    region() {
        return *region_;
    }

    /// What another node needs to load this one: address, connection info, region data.
    std::string
    card() {
        const std::uint64_t at = address();
        return std::string(reinterpret_cast<const char *>(&at), sizeof at) +
               engine_->publicData(*region_).value() + engine_->connectionInfo().value();
    }

    struct Remote {
        std::shared_ptr<Peer> peer;
        std::uint64_t address;
        std::unique_ptr<RemoteRegion> region;
    };

    /// Loads another node's card.
    Remote &
    load(const std::string &agent, const std::string &card) {
        constexpr std::size_t kKeyBytes = 16;
        Remote remote;
        std::memcpy(&remote.address, card.data(), sizeof remote.address);
        auto peer = engine_->loadPeer(agent, std::string_view(card).substr(8 + kKeyBytes));
        if (!peer.ok())
            throw std::runtime_error(peer.status().message());
        remote.peer = std::move(peer).value();
        auto region = engine_->loadRegion(*remote.peer, nixlBasicDesc(remote.address, 1, 0), DRAM_SEG,
                                          std::string_view(card).substr(8, kKeyBytes));
        if (!region.ok())
            throw std::runtime_error(region.status().message());
        remote.region = std::move(region).value();
        peers_.push_back(remote.peer);
        remote_.push_back(std::make_unique<Remote>(std::move(remote)));
        return *remote_.back();
    }

    /// A message that the engine said it could not deliver.
    struct Undelivered {
        std::string peer;
        std::string message;
        std::string why;
    };

    std::vector<Undelivered>
    undelivered() {
        const LockGuard lock(mutex_);
        return undelivered_;
    }

    /// Drops a peer, as the core does when the program removes it.
    void
    forget(Remote &remote) {
        remote.region.reset();
        std::erase(peers_, remote.peer);
        remote.peer.reset();
    }

    Status
    pathTo(Remote &remote) {
        return engine_->path(NIXL_WRITE, DRAM_SEG, DRAM_SEG, remote.peer.get()).status();
    }

private:
    Mutex mutex_;
    std::vector<Undelivered> undelivered_ NIXL_GUARDED_BY(mutex_);
    std::unique_ptr<Engine> engine_;
    std::shared_ptr<const SealedMemory> sealed_;
    char *memory_ = nullptr;
    std::size_t size_ = 0;
    std::unique_ptr<LocalRegion> region_;
    std::vector<std::shared_ptr<Peer>> peers_;
    std::vector<std::unique_ptr<Remote>> remote_;
};

/// A block by offsets into both buffers.
struct Piece {
    std::uint64_t local;
    std::uint64_t remote;
    std::uint64_t length;
};

/// A request with everything that it refers to.
class Move {
public:
    Move(Node &node, Node::Remote &remote, nixl_xfer_op_t operation, const std::vector<Piece> &pieces) {
        std::uint64_t bytes = 0;
        for (const Piece &piece : pieces) {
            blocks_.push_back(
                {node.address() + piece.local, remote.address + piece.remote, piece.length, 0, 0});
            bytes += piece.length;
        }
        local_.push_back({&node.region(), 0});
        remote_.push_back({remote.region.get(), 0});
        const TransferSpec spec{operation, DRAM_SEG, DRAM_SEG, blocks_,           bytes,
                                local_,    remote_,  "peer",   remote.peer.get(), {}};
        auto request = node.engine().prepare(spec);
        if (!request.ok())
            throw std::runtime_error(request.status().message());
        request_ = std::move(request).value();
    }

    Progress
    post(const std::optional<std::string> &notification = std::nullopt) {
        return request_->post(notification);
    }

    Progress
    check() {
        // As the core does.
        const Progress progress = request_->check();
        const auto work = progress.code == NIXL_IN_PROG ? request_->work() : nullptr;
        if (!work)
            return progress;
        work->help();
        return request_->check();
    }

    /// The lane it takes, and why not a faster one.
    Path
    path() const {
        return request_->path().value();
    }

    bool
    cancel(std::chrono::milliseconds patience) {
        return request_->cancel(patience);
    }

    /// Posts and waits for the end.
    Progress
    run(const std::optional<std::string> &notification = std::nullopt) {
        Progress progress = post(notification);
        EXPECT_TRUE(eventually([&] {
            if (progress.code == NIXL_IN_PROG)
                progress = check();
            return progress.code != NIXL_IN_PROG;
        }));
        return progress;
    }

private:
    std::vector<Block> blocks_;
    std::vector<LocalRegionRef> local_;
    std::vector<RemoteRegionRef> remote_;
    std::unique_ptr<EngineRequest> request_;
};

/// Bytes that depend on place and seed.
inline void
fillPattern(char *memory, std::size_t bytes, std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes; ++i)
        memory[i] = static_cast<char>((i * 2654435761U + seed) >> 13);
}

/// What a target in a child process can be asked to do, by the first character of a line:
///   m OFFSET LENGTH  answers those bytes of its buffer
///   f SEED           fills the buffer with the pattern
///   u OFFSET LENGTH  unmaps those bytes
///   p OFFSET LENGTH  makes those bytes read-only
///   d                deregisters; answers the code and the message
///   r                registers anew; answers the card
///   n COUNT          waits for so many notifications; answers them, each as "agent\nlength\nmessage"
///   e COUNT          waits for word of so many failed transfers; answers it, each as "agent|message|why\n"
///   x                executes sleep
///   q                ends
void serveTarget(Line &line, Node &node);

/// A child with an engine of its own, for agent "target".
class TargetProcess {
public:
    explicit TargetProcess(
        std::size_t bytes, const Options &options = {}, const std::function<void()> &before = [] {},
        Kind kind = Kind::kPrivate);

    const std::string &
    card() const {
        return card_;
    }

    std::string
    ask(const std::string &what) const {
        child_.line().send(what);
        return child_.line().receive();
    }

    ChildProcess &
    child() {
        return child_;
    }

private:
    ChildProcess child_;
    std::string card_;
};

} // namespace nixl::local
