#include <algorithm>
#include <cstring>

#include "support/fake_engine.h"
#include "support/fake_transfer.h"

namespace nixl {

FakeSettings::FakeSettings() = default;
FakeSettings::~FakeSettings() = default;

FakeScript
FakeSettings::script() const {
    LockGuard lock(mutex_);
    return script_;
}

void
FakeSettings::edit(const std::function<void(FakeScript &)> &change) {
    LockGuard lock(mutex_);
    change(script_);
}

bool
FakeSettings::releaseOne() {
    std::shared_ptr<FakeTransfer> first;
    {
        LockGuard lock(mutex_);
        if (held_.empty())
            return false;
        first = held_.front();
        held_.pop_front();
    }
    first->run();
    return true;
}

std::size_t
FakeSettings::releaseAll() {
    std::size_t released = 0;
    while (releaseOne())
        ++released;
    return released;
}

std::size_t
FakeSettings::held() const {
    LockGuard lock(mutex_);
    return held_.size();
}

std::vector<FakeCall>
FakeSettings::calls() const {
    LockGuard lock(mutex_);
    return calls_;
}

std::size_t
FakeSettings::count(const std::string &method) const {
    LockGuard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        calls_.begin(), calls_.end(), [&](const FakeCall &call) { return call.method == method; }));
}

void
FakeSettings::clearCalls() {
    LockGuard lock(mutex_);
    calls_.clear();
}

FakeLive
FakeSettings::live() const {
    LockGuard lock(mutex_);
    return live_;
}

void
FakeSettings::addPeer(const std::string &agent, const Peer &peer) {
    LockGuard lock(mutex_);
    peers_.emplace_back(agent, &peer);
}

void
FakeSettings::removePeer(const Peer &peer) {
    LockGuard lock(mutex_);
    std::erase_if(peers_, [&](const auto &entry) { return entry.second == &peer; });
}

const Peer *
FakeSettings::peer(const std::string &agent) const {
    LockGuard lock(mutex_);
    const auto found =
        std::find_if(peers_.rbegin(), peers_.rend(), [&](const auto &known) { return known.first == agent; });
    return found == peers_.rend() ? nullptr : found->second;
}

/// An engine does not know whose peers the others have; the core tells them apart.
void
FakeSettings::tellPeerChange(const std::string &agent, PeerChange change, const std::string &why) {
    LockGuard lock(mutex_);
    for (const EngineConfig &config : configs_) {
        for (const auto &[known, peer] : peers_) {
            if (known == agent && config.onPeerChange)
                config.onPeerChange(peer, change, why);
        }
    }
}

void
FakeSettings::tellUndelivered(const std::string &agent, const std::string &peer, const std::string &message,
                              const std::string &why) {
    LockGuard lock(mutex_);
    for (const EngineConfig &config : configs_) {
        if (config.agentName == agent && config.onUndelivered)
            config.onUndelivered(peer, message, why);
    }
}

std::vector<EngineConfig>
FakeSettings::configs() const {
    LockGuard lock(mutex_);
    return configs_;
}

std::vector<std::string>
FakeSettings::violations() const {
    LockGuard lock(mutex_);
    return violations_;
}

std::string
FakeSettings::storage(std::uint64_t devId) const {
    LockGuard lock(mutex_);
    const auto found = storage_.find(devId);
    return found == storage_.end() ? std::string() : found->second;
}

void
FakeSettings::setStorage(std::uint64_t devId, std::string bytes) {
    LockGuard lock(mutex_);
    storage_[devId] = std::move(bytes);
}

void
FakeSettings::record(std::string agent, std::string method, std::string detail) {
    LockGuard lock(mutex_);
    calls_.push_back({std::move(agent), std::move(method), std::move(detail)});
}

void
FakeSettings::violation(std::string text) {
    LockGuard lock(mutex_);
    violations_.push_back(std::move(text));
}

void
FakeSettings::created(const EngineConfig &config) {
    LockGuard lock(mutex_);
    configs_.push_back(config);
}

void
FakeSettings::changeLive(int FakeLive::*counter, int by) {
    LockGuard lock(mutex_);
    live_.*counter += by;
}

Status
FakeSettings::countRegistration() {
    LockGuard lock(mutex_);
    if (script_.failRegistrationAfter < 0 || script_.failRegistrationAfter-- > 0)
        return {};
    return script_.registration;
}

void
FakeSettings::hold(std::shared_ptr<FakeTransfer> transfer) {
    LockGuard lock(mutex_);
    held_.push_back(std::move(transfer));
}

bool
FakeSettings::drop(const FakeTransfer *transfer) {
    LockGuard lock(mutex_);
    const auto found =
        std::find_if(held_.begin(), held_.end(),
                     [&](const std::shared_ptr<FakeTransfer> &held) { return held.get() == transfer; });
    if (found == held_.end())
        return false;
    held_.erase(found);
    return true;
}

Status
FakeSettings::accessStorage(std::uint64_t devId, std::uint64_t offset, void *host, std::size_t length,
                            bool store) {
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;
    if (offset > kLargest || length > kLargest - offset)
        return Status::error(NIXL_ERR_INVALID_PARAM, "offset ", offset, "+", length, " is beyond the ",
                             kLargest, " bytes that fake storage holds");
    LockGuard lock(mutex_);
    std::string &bytes = storage_[devId];
    if (store) {
        if (bytes.size() < offset + length)
            bytes.resize(offset + length);
        std::memcpy(bytes.data() + offset, host, length);
        return {};
    }
    if (bytes.size() < offset + length)
        return Status::error(NIXL_ERR_BACKEND, "short read: storage ", devId, " has ", bytes.size(),
                             " bytes, wanted ", length, " at ", offset);
    std::memcpy(host, bytes.data() + offset, length);
    return {};
}

} // namespace nixl
