#include "support/fake_transfer.h"

#include <cstring>
#include <limits>

namespace nixl {

namespace {

bool
isMemory(nixl_mem_t memory) {
    return memory == DRAM_SEG || memory == VRAM_SEG;
}

Status
checkRange(const FakeCore &core, std::uint64_t key, std::uint64_t address, std::uint64_t length) {
    const auto found = core.ranges.find(key);
    if (found == core.ranges.end())
        return Status::error(NIXL_ERR_NOT_FOUND, "the region of agent ", core.agent,
                             " is not registered any more");
    if (!found->second.covers(address, length))
        return Status::error(NIXL_ERR_NOT_FOUND, Hex{address}, "+", length,
                             " is outside the region of agent ", core.agent);
    return {};
}

/// Copies `length` bytes between `host` and an address or offset of some kind of memory.
Status
access(FakeSettings &settings, nixl_mem_t memory, std::uint64_t devId, std::uint64_t address, char *host,
       std::size_t length, bool store) {
    if (!isMemory(memory))
        return settings.accessStorage(devId, address, host, length, store);
    auto *bytes = reinterpret_cast<char *>(address); // NOLINT(performance-no-int-to-ptr)
    std::memcpy(store ? bytes : host, store ? host : bytes, length);
    return {};
}

} // namespace

bool
FakeRange::covers(std::uint64_t start, std::uint64_t size) const {
    if (!isMemory(memory) && (length == 0 || length == std::numeric_limits<std::uint64_t>::max()))
        return size <= std::numeric_limits<std::uint64_t>::max() - start;
    return start >= address && start - address <= length && size <= length - (start - address);
}

FakeWorld &
FakeWorld::get() {
    static FakeWorld world;
    return world;
}

void
FakeCore::signal() {
    if (settings->script().silent)
        return;
    LockGuard lock(telling);
    if (onActivity)
        onActivity();
}

void
FakeCore::tellUndelivered(const std::string &peer, const std::string &message, const std::string &why) {
    LockGuard lock(telling);
    if (onUndelivered)
        onUndelivered(peer, message, why);
}

FakeLocalRegion::FakeLocalRegion(std::shared_ptr<FakeCore> owner, std::uint64_t key_, FakeRange range_)
    : core(std::move(owner)), key(key_), range(range_) {
    core->settings->changeLive(&FakeLive::localRegions, 1);
}

FakeLocalRegion::~FakeLocalRegion() {
    if (users != 0)
        core->settings->violation(concat("local region ", Hex{range.address}, " destroyed before ",
                                         users.load(), " requests that use it"));
    core->settings->changeLive(&FakeLive::localRegions, -1);
}

FakePeer::FakePeer(std::shared_ptr<FakeSettings> settings_, std::string name_, std::uint64_t id_)
    : settings(std::move(settings_)), name(std::move(name_)), id(id_) {
    settings->changeLive(&FakeLive::peers, 1);
    settings->addPeer(name, *this);
}

FakePeer::~FakePeer() {
    if (users != 0)
        settings->violation(
            concat("peer ", name, " destroyed before ", users.load(), " regions and requests that use it"));
    settings->removePeer(*this);
    settings->changeLive(&FakeLive::peers, -1);
}

FakeRemoteRegion::FakeRemoteRegion(std::shared_ptr<FakeSettings> settings_, std::uint64_t coreId_,
                                   std::uint64_t key_, FakeRange range_, FakePeer *peer_)
    : settings(std::move(settings_)), coreId(coreId_), key(key_), range(range_), peer(peer_) {
    if (peer != nullptr)
        ++peer->users;
    settings->changeLive(&FakeLive::remoteRegions, 1);
}

FakeRemoteRegion::~FakeRemoteRegion() {
    if (users != 0)
        settings->violation(concat("remote region ", Hex{range.address}, " destroyed before ", users.load(),
                                   " requests that use it"));
    if (peer != nullptr)
        --peer->users;
    settings->changeLive(&FakeLive::remoteRegions, -1);
}

Status
deliverFake(FakeCore &sender, std::uint64_t coreId, const std::string &message) {
    FakeWorld &world = FakeWorld::get();
    ReadLock lock(world.mutex);
    const auto found = world.cores.find(coreId);
    if (found == world.cores.end())
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the peer's engine does not exist any more");
    FakeCore &target = *found->second;
    if (!target.inbox->push(sender.agent, std::string(message)))
        return Status::error(NIXL_ERR_NOT_ALLOWED, "agent ", target.agent, " takes in no more messages");
    target.signal();
    sender.settings->record(sender.agent, "notification", message);
    return {};
}

void
deliverFakeFailure(FakeCore &sender, std::uint64_t coreId, const std::string &message,
                   const std::string &why) {
    if (!sender.settings->script().tellsFailures)
        return;
    FakeWorld &world = FakeWorld::get();
    ReadLock lock(world.mutex);
    const auto found = world.cores.find(coreId);
    if (found == world.cores.end())
        return;
    found->second->inbox->pushFailure({sender.agent, message, why});
    found->second->signal();
}

FakeTransfer::FakeTransfer(std::shared_ptr<FakeCore> core, const TransferSpec &spec,
                           std::optional<std::string> notification)
    : core_(std::move(core)), spec_(spec), notification_(std::move(notification)), peerName_(spec.peerName),
      targetId_(spec.peer == nullptr ? core_->id : static_cast<FakePeer *>(spec.peer)->id) {}

void
FakeTransfer::run(bool withinPost) {
    {
        LockGuard lock(mutex_);
        if (state_ != State::kWaiting)
            return;
        state_ = State::kRunning;
    }
    Status status = core_->settings->script().transfer;
    if (status.ok() && peerGone())
        status = Status::error(NIXL_ERR_REMOTE_DISCONNECT, "agent ", peerName_, " is gone");
    if (status.ok())
        status = move();
    if (status.ok() && notification_)
        status = deliverFake(*core_, targetId_, *notification_);
    finish(status.ok() ? Progress{NIXL_SUCCESS, {}, {}} : Progress::failed(status), withinPost);
}

Progress
FakeTransfer::check() {
    const bool gone = peerGone();
    LockGuard lock(mutex_);
    if (state_ == State::kWaiting && gone) {
        state_ = State::kOver;
        progress_ = {NIXL_ERR_REMOTE_DISCONNECT, concat("agent ", peerName_, " is gone"), {}};
        core_->settings->drop(this);
    }
    return progress_;
}

void
FakeTransfer::cancel() {
    if (end({NIXL_ERR_CANCELED, "cancelled"}))
        tellFailure("cancelled");
}

void
FakeTransfer::cutOff() {
    (void)end({NIXL_ERR_REMOTE_DISCONNECT, "the connection was ended by force", {}, true});
}

/// As `progress` says, unless it runs already: then false, after its end.
bool
FakeTransfer::end(Progress progress) {
    LockGuard lock(mutex_);
    if (state_ == State::kWaiting) {
        state_ = State::kOver;
        progress_ = std::move(progress);
        return true;
    }
    changed_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return state_ == State::kOver; });
    return false;
}

void
FakeTransfer::finish(Progress progress, bool quietly) {
    if (progress.code != NIXL_SUCCESS)
        tellFailure(progress.message);
    {
        LockGuard lock(mutex_);
        progress_ = std::move(progress);
        state_ = State::kOver;
        changed_.notifyAll();
    }
    if (!quietly)
        core_->signal();
}

void
FakeTransfer::tellFailure(const std::string &why) {
    if (notification_ && !peerGone())
        deliverFakeFailure(*core_, targetId_, *notification_, why);
}

bool
FakeTransfer::peerGone() const {
    return spec_.peer != nullptr && core_->settings->script().gone.count(peerName_) != 0;
}

Status
FakeTransfer::move() {
    FakeWorld &world = FakeWorld::get();
    ReadLock lock(world.mutex);
    const auto target = world.cores.find(targetId_);
    if (target == world.cores.end())
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the engine of agent ", peerName_,
                             " does not exist any more");
    for (const Block &block : spec_.blocks)
        NIXL_RETURN_IF_ERROR(moveBlock(*target->second, block));
    return {};
}

Status
FakeTransfer::moveBlock(FakeCore &target, const Block &block) {
    const LocalRegionRef &localRef = spec_.localRegions[block.localRegion];
    const RemoteRegionRef &remoteRef = spec_.remoteRegions[block.remoteRegion];
    const auto &local = static_cast<const FakeLocalRegion &>(*localRef.region);
    const auto &remote = static_cast<const FakeRemoteRegion &>(*remoteRef.region);
    NIXL_RETURN_IF_ERROR(checkRange(*core_, local.key, block.local, block.length));
    NIXL_RETURN_IF_ERROR(checkRange(target, remote.key, block.remote, block.length));
    std::string bytes(block.length, '\0');
    const bool write = spec_.operation == NIXL_WRITE;
    const auto accessLocal = [&](bool store) {
        return access(*core_->settings, spec_.localMemory, localRef.devId, block.local, bytes.data(),
                      bytes.size(), store);
    };
    const auto accessRemote = [&](bool store) {
        return access(*target.settings, spec_.remoteMemory, remoteRef.devId, block.remote, bytes.data(),
                      bytes.size(), store);
    };
    NIXL_RETURN_IF_ERROR(write ? accessLocal(false) : accessRemote(false));
    return write ? accessRemote(true) : accessLocal(true);
}

} // namespace nixl
