#include "conformance/suite_support.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

namespace nixl::conformance {

namespace {

class HostMemory : public TestMemory {
public:
    explicit HostMemory(std::size_t length) : bytes_(length + 1, '\0') {}

    nixlBlobDesc
    desc() const override {
        return nixlBlobDesc(reinterpret_cast<std::uintptr_t>(bytes_.data() + 1), bytes_.size() - 1, 0);
    }

    void
    store(std::size_t offset, const std::string &bytes) override {
        std::memcpy(bytes_.data() + 1 + offset, bytes.data(), bytes.size());
    }

    std::string
    load(std::size_t offset, std::size_t length) const override {
        return std::string(bytes_.data() + 1 + offset, length);
    }

private:
    std::vector<char> bytes_;
};

template<typename T>
T
valueOf(Result<T> result, const std::string &what) {
    if (!result.ok())
        throw std::runtime_error(concat(what, ": ", nixlEnumStrings::statusStr(result.status().code()), ": ",
                                        result.status().message()));
    return std::move(result).value();
}

} // namespace

MemoryTraits
hostMemory() {
    return {DRAM_SEG, [](std::size_t length) { return std::make_unique<HostMemory>(length); }};
}

bool
eventually(const std::function<bool()> &condition) {
    const auto end = std::chrono::steady_clock::now() + kLongEnough;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

std::string
pattern(std::size_t length, unsigned seed) {
    std::string bytes(length, '\0');
    std::minstd_rand random(seed + 1);
    for (char &byte : bytes)
        byte = static_cast<char>(random());
    return bytes;
}

EngineConfig
makeConfig(const EngineTraits &traits, const std::string &agent) {
    EngineConfig config;
    config.agentName = agent;
    config.params = traits.params;
    config.progressThread = true;
    config.options = std::make_shared<const Options>(traits.options);
    return config;
}

Registered::Registered(Engine &engine, const MemoryTraits &traits, std::size_t length)
    : engine_(engine), kind_(traits.kind), memory_(traits.allocate(length)),
      region_(valueOf(engine.registerRegion(memory_->desc(), kind_), "registerRegion")) {}

Registered::~Registered() {
    if (region_ == nullptr)
        return;
    if (const Status status = deregister(); !status.ok())
        ADD_FAILURE() << "deregisterRegion: " << status.message();
}

Status
Registered::deregister() {
    loopback_.reset();
    NIXL_RETURN_IF_ERROR(engine_.deregisterRegion(*region_));
    region_.reset();
    return {};
}

RemoteRegion &
Registered::loopback() {
    if (loopback_ == nullptr)
        loopback_ = valueOf(engine_.loopbackRegion(*region_, desc(), kind_), "loopbackRegion");
    return *loopback_;
}

Side::Side(const EngineTraits &traits, std::string agent, bool progressThread)
    : traits_(traits), agent_(std::move(agent)) {
    EngineConfig config = makeConfig(traits, agent_);
    config.progressThread = progressThread;
    config.onActivity = [this] { activity_.fetch_add(1); };
    engine_ = valueOf(traits.makeFactory()->create(config), "create");
}

std::unique_ptr<Registered>
Side::allocate(std::size_t length, std::size_t memoryIndex) {
    return std::make_unique<Registered>(*engine_, traits_.memories.at(memoryIndex), length);
}

Target
loopbackTarget(Side &side, Registered &registered) {
    return {&registered.loopback(), registered.desc(), registered.kind(), side.agent(), nullptr};
}

Transfer::Transfer(Engine &engine, nixl_xfer_op_t operation, Registered &local, const Target &target,
                   const std::vector<Piece> &pieces)
    : localRef_{&local.region(), local.desc().devId}, remoteRef_{target.region, target.desc.devId},
      peerName_(target.agent) {
    std::uint64_t bytes = 0;
    for (const Piece &piece : pieces) {
        blocks_.push_back(
            {local.desc().addr + piece.local, target.desc.addr + piece.remote, piece.length, 0, 0});
        bytes += piece.length;
    }
    const TransferSpec spec{operation,
                            local.kind(),
                            target.kind,
                            blocks_,
                            bytes,
                            std::span(&localRef_, 1),
                            std::span(&remoteRef_, 1),
                            peerName_,
                            target.peer,
                            {}};
    request_ = valueOf(engine.prepare(spec), "prepare");
}

Progress
Transfer::post(const std::optional<std::string> &notification) {
    return request_->post(notification);
}

Progress
Transfer::run(const std::optional<std::string> &notification) {
    const Progress progress = post(notification);
    return progress.code == NIXL_IN_PROG ? finish() : progress;
}

Progress
Transfer::finish() {
    Progress progress;
    eventually([&] { return (progress = request_->check()).code != NIXL_IN_PROG; });
    return progress;
}

std::map<std::string, std::vector<Piece>>
piecePatterns() {
    std::map<std::string, std::vector<Piece>> patterns;
    patterns["one"] = {{0, 0, kPatternLength}};
    patterns["one byte"] = {{17, 4711, 1}};
    std::vector<Piece> &touching = patterns["touching, in reverse"];
    for (std::size_t i = 0; i < 300; ++i)
        touching.push_back({i * 1000, (299 - i) * 1000, 1000});
    std::vector<Piece> &gaps = patterns["many with gaps"];
    for (std::size_t i = 0; i < 2000; ++i)
        gaps.push_back({i * 150, i * 150 + 50, 64});
    std::vector<Piece> &odd = patterns["odd lengths"];
    std::size_t offset = 0;
    for (const std::size_t length : {1, 2, 3, 7, 13, 511, 513, 4095, 4097, 65535, 65537}) {
        odd.push_back({offset, offset + 1, length});
        offset += length + 1;
    }
    return patterns;
}

std::string
moved(const std::string &source, std::string target, const std::vector<Piece> &pieces,
      nixl_xfer_op_t operation) {
    for (const Piece &piece : pieces) {
        const bool write = operation == NIXL_WRITE;
        target.replace(write ? piece.remote : piece.local, piece.length,
                       source.substr(write ? piece.local : piece.remote, piece.length));
    }
    return target;
}

std::vector<Notification>
takeNotifications(const std::function<void(std::vector<Notification> &)> &take, std::size_t count) {
    std::vector<Notification> taken;
    eventually([&] {
        take(taken);
        return taken.size() >= count;
    });
    return taken;
}

std::vector<Notification>
takeNotifications(Engine &engine, std::size_t count) {
    return takeNotifications(
        [&](std::vector<Notification> &out) {
            if (const Status status = engine.takeNotifications(out); !status.ok())
                ADD_FAILURE() << "takeNotifications: " << status.message();
        },
        count);
}

} // namespace nixl::conformance
