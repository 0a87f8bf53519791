#include "support/fake_engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <thread>

#include "support/fake_transfer.h"
#include "util/options.h"

namespace nixl {

namespace {

constexpr std::string_view kInfoMagic = "fake-engine:";
constexpr std::string_view kRegionMagic = "fake-region:";

std::string
describe(const nixlBasicDesc &desc, nixl_mem_t memory) {
    return concat(Hex{desc.addr}, "+", desc.len, " ", nixlEnumStrings::memTypeStr(memory));
}

std::string
pack(std::string_view magic, std::initializer_list<std::uint64_t> numbers) {
    std::string bytes(magic);
    for (const std::uint64_t number : numbers)
        bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
    return bytes;
}

template<std::size_t N>
std::optional<std::array<std::uint64_t, N>>
unpack(std::string_view magic, std::string_view bytes) {
    std::array<std::uint64_t, N> numbers;
    if (bytes.size() != magic.size() + sizeof numbers || bytes.substr(0, magic.size()) != magic)
        return std::nullopt;
    std::memcpy(numbers.data(), bytes.data() + magic.size(), sizeof numbers);
    return numbers;
}

/// Runs transfers at their time, one after the other.
class Worker {
public:
    ~Worker() {
        {
            LockGuard lock(mutex_);
            stop_ = true;
            changed_.notifyAll();
        }
        if (thread_.joinable())
            thread_.join();
    }

    void
    add(std::shared_ptr<FakeTransfer> transfer, std::chrono::milliseconds delay) {
        LockGuard lock(mutex_);
        queue_.emplace(std::chrono::steady_clock::now() + delay, std::move(transfer));
        if (!thread_.joinable())
            thread_ = std::thread([this] { loop(); });
        changed_.notifyAll();
    }

private:
    void
    loop() {
        while (const std::shared_ptr<FakeTransfer> transfer = next())
            transfer->run();
    }

    std::shared_ptr<FakeTransfer>
    next() {
        LockGuard lock(mutex_);
        while (!stop_) {
            if (queue_.empty()) {
                changed_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return stop_ || !queue_.empty(); });
                continue;
            }
            const auto due = queue_.begin()->first;
            const auto now = std::chrono::steady_clock::now();
            if (due <= now) {
                std::shared_ptr<FakeTransfer> transfer = queue_.begin()->second;
                queue_.erase(queue_.begin());
                return transfer;
            }
            changed_.waitFor(mutex_, due - now,
                             [&]() NIXL_REQUIRES(mutex_) { return stop_ || queue_.begin()->first < due; });
        }
        return nullptr;
    }

    Mutex mutex_;
    ConditionVariable changed_;
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
    std::multimap<std::chrono::steady_clock::time_point, std::shared_ptr<FakeTransfer>>
        queue_ NIXL_GUARDED_BY(mutex_);
    std::thread thread_; // set once, under the mutex
};

class FakeRequest : public EngineRequest {
public:
    FakeRequest(std::shared_ptr<FakeCore> core, std::shared_ptr<Worker> worker, const TransferSpec &spec)
        : core_(std::move(core)), worker_(std::move(worker)), spec_(spec) {
        count(1);
        core_->settings->changeLive(&FakeLive::requests, 1);
    }

    ~FakeRequest() override {
        if (transfer_ != nullptr && transfer_->check().code == NIXL_IN_PROG) {
            core_->settings->violation("request destroyed while in progress");
            core_->settings->drop(transfer_.get());
            transfer_->cancel();
        }
        count(-1);
        core_->settings->changeLive(&FakeLive::requests, -1);
    }

    Progress
    post(const std::optional<std::string> &notification) override {
        FakeSettings &settings = *core_->settings;
        settings.record(core_->agent, "post", notification.value_or(""));
        if (transfer_ != nullptr && transfer_->check().code == NIXL_IN_PROG) {
            settings.violation("request posted while in progress");
            return {NIXL_IN_PROG, {}, {}};
        }
        const FakeScript script = settings.script();
        if (!script.post.ok()) {
            if (notification)
                deliverFakeFailure(
                    *core_, spec_.peer == nullptr ? core_->id : static_cast<FakePeer *>(spec_.peer)->id,
                    *notification, script.post.message());
            return Progress::failed(script.post);
        }
        transfer_ = std::make_shared<FakeTransfer>(core_, spec_, notification);
        switch (script.completion) {
        case FakeCompletion::kInline:
            transfer_->run(true);
            break;
        case FakeCompletion::kWorker:
            worker_->add(transfer_, script.delay);
            break;
        case FakeCompletion::kHeld:
            settings.hold(transfer_);
            break;
        }
        return transfer_->check();
    }

    Progress
    check() override {
        if (transfer_ == nullptr) {
            core_->settings->violation("request checked before it was posted");
            return {NIXL_ERR_NOT_POSTED, "never posted", {}};
        }
        return transfer_->check();
    }

    std::shared_ptr<EngineWork>
    work() override {
        struct Work : EngineWork {
            explicit Work(std::function<void()> body) : body_(std::move(body)) {}

            void
            help() override {
                body_();
            }

            std::function<void()> body_;
        };

        const FakeScript script = core_->settings->script();
        return script.help ? std::make_shared<Work>(script.help) : nullptr;
    }

    bool
    cancel(std::chrono::milliseconds) override {
        core_->settings->record(core_->agent, "cancel", "");
        if (transfer_ == nullptr || transfer_->check().code != NIXL_IN_PROG)
            return true;
        if (core_->settings->script().cancelFails)
            return false;
        core_->settings->drop(transfer_.get());
        transfer_->cancel();
        return true;
    }

    void
    cutOff() override {
        core_->settings->record(core_->agent, "cutOff", "");
        if (transfer_ != nullptr && transfer_->check().code == NIXL_IN_PROG &&
            !core_->settings->script().cutOffFails) {
            core_->settings->drop(transfer_.get());
            transfer_->cutOff();
        }
    }

private:
    void
    count(int by) {
        for (const LocalRegionRef &ref : spec_.localRegions)
            static_cast<FakeLocalRegion &>(*ref.region).users += by;
        for (const RemoteRegionRef &ref : spec_.remoteRegions)
            static_cast<FakeRemoteRegion &>(*ref.region).users += by;
        if (spec_.peer != nullptr)
            static_cast<FakePeer &>(*spec_.peer).users += by;
    }

    const std::shared_ptr<FakeCore> core_;
    const std::shared_ptr<Worker> worker_;
    const TransferSpec spec_;
    std::shared_ptr<FakeTransfer> transfer_; // the last run
};

class FakeEngine : public Engine {
public:
    FakeEngine(std::shared_ptr<FakeSettings> settings, const EngineConfig &config)
        : settings_(std::move(settings)), core_(std::make_shared<FakeCore>()),
          worker_(std::make_shared<Worker>()) {
        capabilities_ = {settings_->memories, settings_->local, settings_->remote, settings_->notifications,
                         settings_->refused};
        core_->agent = config.agentName;
        core_->settings = settings_;
        core_->inbox.emplace(config.options->notifQueueBytes);
        {
            LockGuard tellingLock(core_->telling);
            core_->onActivity = config.onActivity;
            core_->onUndelivered = config.onUndelivered;
        }
        FakeWorld &world = FakeWorld::get();
        WriteLock lock(world.mutex);
        core_->id =
            (static_cast<std::uint64_t>(getpid()) << 32) + world.nextId++; // not that of another process
        world.cores[core_->id] = core_;
        settings_->changeLive(&FakeLive::engines, 1);
    }

    ~FakeEngine() override {
        {
            LockGuard tellingLock(core_->telling);
            core_->onActivity = nullptr;
            core_->onUndelivered = nullptr;
        }
        const FakeLive live = settings_->live();
        // Several engines may share the settings, so only the last one can tell what was left over.
        if (live.engines == 1 && live.localRegions + live.remoteRegions + live.peers + live.requests != 0)
            settings_->violation(concat("the last engine was destroyed before ", live.localRegions,
                                        " local regions, ", live.remoteRegions, " remote regions, ",
                                        live.peers, " peers, ", live.requests, " requests"));
        FakeWorld &world = FakeWorld::get();
        WriteLock lock(world.mutex);
        world.cores.erase(core_->id);
        settings_->changeLive(&FakeLive::engines, -1);
    }

    const Capabilities &
    capabilities() const override {
        return capabilities_;
    }

    Result<std::unique_ptr<LocalRegion>>
    registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) override {
        record("registerRegion", describe(desc, memory));
        NIXL_RETURN_IF_ERROR(checkRange(desc, memory));
        NIXL_RETURN_IF_ERROR(settings_->countRegistration());
        const FakeRange range{desc.addr, desc.len, memory};
        FakeWorld &world = FakeWorld::get();
        WriteLock lock(world.mutex);
        const std::uint64_t key = world.nextKey++;
        core_->ranges[key] = range;
        return std::unique_ptr<LocalRegion>(std::make_unique<FakeLocalRegion>(core_, key, range));
    }

    Status
    deregisterRegion(LocalRegion &region) override {
        const auto &fake = static_cast<FakeLocalRegion &>(region);
        record("deregisterRegion", concat(Hex{fake.range.address}, "+", fake.range.length, " ",
                                          nixlEnumStrings::memTypeStr(fake.range.memory)));
        if (const auto hook = settings_->script().onDeregister)
            hook();
        FakeWorld &world = FakeWorld::get();
        {
            WriteLock lock(world.mutex);
            core_->ranges.erase(fake.key);
        }
        const FakeScript script = settings_->script();
        const auto &some = script.failDeregistrationOf;
        const bool applies =
            some.empty() || std::find(some.begin(), some.end(), fake.range.length) != some.end();
        return applies ? script.deregister : Status();
    }

    Result<std::string>
    publicData(const LocalRegion &region) const override {
        NIXL_RETURN_IF_ERROR(settings_->script().publicData);
        if (!capabilities_.remote)
            return Engine::publicData(region);
        return pack(kRegionMagic, {core_->id, static_cast<const FakeLocalRegion &>(region).key});
    }

    Result<std::unique_ptr<RemoteRegion>>
    loopbackRegion(LocalRegion &region, const nixlBlobDesc &, nixl_mem_t) override {
        if (!capabilities_.local)
            settings_->violation("loopbackRegion() of an engine without local transfers");
        NIXL_RETURN_IF_ERROR(settings_->script().loopback);
        const auto &fake = static_cast<FakeLocalRegion &>(region);
        return std::unique_ptr<RemoteRegion>(
            std::make_unique<FakeRemoteRegion>(settings_, core_->id, fake.key, fake.range, nullptr));
    }

    Result<std::vector<nixl_query_resp_t>>
    queryMemory(const nixl_reg_dlist_t &descs) const override {
        std::vector<nixl_query_resp_t> answers;
        for (const nixlBlobDesc &desc : descs) {
            const std::string bytes = settings_->storage(desc.devId);
            answers.push_back(bytes.empty() ? nixl_query_resp_t()
                                            : nixl_b_params_t{{"size", std::to_string(bytes.size())}});
        }
        return answers;
    }

    Result<std::string>
    connectionInfo() const override {
        NIXL_RETURN_IF_ERROR(settings_->script().connectionInfo);
        return capabilities_.remote ? pack(kInfoMagic, {core_->id}) : Engine::connectionInfo();
    }

    Result<std::shared_ptr<Peer>>
    loadPeer(const std::string &name, std::string_view info) override {
        record("loadPeer", name);
        NIXL_RETURN_IF_ERROR(settings_->script().loadPeer);
        const auto id = unpack<1>(kInfoMagic, info);
        if (!id)
            return Status::error(NIXL_ERR_MISMATCH, "connection info of agent ", name,
                                 ": not of a fake engine");
        return std::shared_ptr<Peer>(std::make_shared<FakePeer>(settings_, name, (*id)[0]));
    }

    Status
    connect(Peer &peer) override {
        const auto &fake = static_cast<FakePeer &>(peer);
        record("connect", fake.name);
        const FakeScript script = settings_->script();
        NIXL_RETURN_IF_ERROR(script.connect);
        return reach(script, fake);
    }

    Result<HostLane>
    meet(Peer &peer) override {
        const auto &fake = static_cast<FakePeer &>(peer);
        record("meet", fake.name);
        const FakeScript script = settings_->script();
        NIXL_RETURN_IF_ERROR(script.meet);
        NIXL_RETURN_IF_ERROR(reach(script, fake));
        return script.lane;
    }

    Result<std::unique_ptr<RemoteRegion>>
    loadRegion(Peer &peer, const nixlBasicDesc &desc, nixl_mem_t memory,
               std::string_view publicData) override {
        auto &fake = static_cast<FakePeer &>(peer);
        record("loadRegion", describe(desc, memory));
        NIXL_RETURN_IF_ERROR(settings_->script().loadRegion);
        const auto numbers = unpack<2>(kRegionMagic, publicData);
        if (!numbers || (*numbers)[0] != fake.id)
            return Status::error(NIXL_ERR_MISMATCH, "region ", describe(desc, memory), " of agent ",
                                 fake.name, ": not a region of its engine");
        return std::unique_ptr<RemoteRegion>(std::make_unique<FakeRemoteRegion>(
            settings_, fake.id, (*numbers)[1], FakeRange{desc.addr, desc.len, memory}, &fake));
    }

    Result<Path>
    path(nixl_xfer_op_t operation, nixl_mem_t localMemory, nixl_mem_t remoteMemory, Peer *peer) override {
        const auto *fake = static_cast<FakePeer *>(peer);
        record("path", fake == nullptr ? "" : fake->name);
        const FakeScript script = settings_->script();
        NIXL_RETURN_IF_ERROR(checkKind(localMemory));
        NIXL_RETURN_IF_ERROR(checkKind(remoteMemory));
        if (peer == nullptr ? !capabilities_.local : !capabilities_.remote)
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "the engine has no ",
                                 peer == nullptr ? "local" : "remote", " transfers");
        if (fake != nullptr)
            NIXL_RETURN_IF_ERROR(reach(script, *fake));
        if (script.pathOf)
            return script.pathOf(operation, localMemory, remoteMemory, fake == nullptr ? "" : fake->name);
        NIXL_RETURN_IF_ERROR(script.pathRefused);
        Path path = script.path;
        if (settings_->joins)
            path.hostLane = fake == nullptr ? HostLane::kSameProcess : script.lane;
        return path;
    }

    Result<std::unique_ptr<EngineRequest>>
    prepare(const TransferSpec &spec) override {
        record("prepare", concat(nixlEnumStrings::xferOpStr(spec.operation), " ", spec.blocks.size(),
                                 " blocks", spec.customParam.empty() ? "" : ", ", spec.customParam));
        checkSpec(spec);
        NIXL_RETURN_IF_ERROR(settings_->script().prepare);
        return std::unique_ptr<EngineRequest>(std::make_unique<FakeRequest>(core_, worker_, spec));
    }

    Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
    estimate(const TransferSpec &spec) const override {
        const auto scripted = settings_->script().estimate;
        if (!scripted)
            return Engine::estimate(spec);
        return *scripted;
    }

    Status
    notify(Peer *peer, std::string_view message) override {
        const auto *fake = static_cast<FakePeer *>(peer);
        record("notify", std::string(message));
        if (!capabilities_.notifications)
            return Engine::notify(peer, message);
        const FakeScript script = settings_->script();
        NIXL_RETURN_IF_ERROR(script.notify);
        if (fake != nullptr)
            NIXL_RETURN_IF_ERROR(reach(script, *fake));
        if (script.undelivered) {
            core_->tellUndelivered(fake == nullptr ? core_->agent : fake->name, std::string(message),
                                   *script.undelivered);
            return {};
        }
        return deliverFake(*core_, fake == nullptr ? core_->id : fake->id, std::string(message));
    }

    Status
    takeNotifications(std::vector<Notification> &out) override {
        if (!capabilities_.notifications)
            return Engine::takeNotifications(out);
        NIXL_RETURN_IF_ERROR(settings_->script().takeNotifications);
        (void)core_->inbox->take(out);
        return {};
    }

    void
    takeFailures(std::vector<FailedNotification> &out) override {
        core_->inbox->takeFailures(out);
    }

    bool
    watch() override {
        record("watch", "");
        return settings_->script().watches;
    }

private:
    void
    record(const char *method, std::string detail) const {
        settings_->record(core_->agent, method, std::move(detail));
    }

    Status
    checkKind(nixl_mem_t memory) const {
        const auto &kinds = capabilities_.memories;
        if (std::find(kinds.begin(), kinds.end(), memory) != kinds.end())
            return {};
        return Status::error(NIXL_ERR_NOT_SUPPORTED, settings_->name, " does not register ",
                             nixlEnumStrings::memTypeStr(memory));
    }

    Status
    checkRange(const nixlBasicDesc &desc, nixl_mem_t memory) const {
        NIXL_RETURN_IF_ERROR(checkKind(memory));
        const bool isMemory = memory == DRAM_SEG || memory == VRAM_SEG;
        if (isMemory && desc.len == 0)
            return Status::error(NIXL_ERR_INVALID_PARAM, describe(desc, memory), " is empty");
        if (isMemory && desc.len > std::numeric_limits<std::uint64_t>::max() - desc.addr)
            return Status::error(NIXL_ERR_INVALID_PARAM, describe(desc, memory), " wraps");
        return {};
    }

    static Status
    reach(const FakeScript &script, const FakePeer &peer) {
        FakeWorld &world = FakeWorld::get();
        ReadLock lock(world.mutex);
        if (script.gone.count(peer.name) != 0 || world.cores.count(peer.id) == 0)
            return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "agent ", peer.name, " is gone");
        return {};
    }

    void
    checkSpec(const TransferSpec &spec) {
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
            const Block &block = spec.blocks[i];
            bytes += block.length;
            if (block.localRegion >= spec.localRegions.size() ||
                block.remoteRegion >= spec.remoteRegions.size()) {
                settings_->violation(concat("block ", i, " names a region that is not in the list"));
                continue;
            }
            const auto &local = static_cast<FakeLocalRegion &>(*spec.localRegions[block.localRegion].region);
            const auto &remote =
                static_cast<FakeRemoteRegion &>(*spec.remoteRegions[block.remoteRegion].region);
            if (!local.range.covers(block.local, block.length) || local.range.memory != spec.localMemory)
                settings_->violation(concat("block ", i, " is not in its local region"));
            if (!remote.range.covers(block.remote, block.length) || remote.range.memory != spec.remoteMemory)
                settings_->violation(concat("block ", i, " is not in its remote region"));
            if (remote.peer != spec.peer)
                settings_->violation(concat("block ", i, " has a remote region of another peer"));
        }
        if (spec.blocks.empty())
            settings_->violation("a transfer without blocks");
        if (bytes != spec.bytes)
            settings_->violation(concat("the blocks have ", bytes, " bytes, the transfer says ", spec.bytes));
    }

    const std::shared_ptr<FakeSettings> settings_;
    const std::shared_ptr<FakeCore> core_;
    const std::shared_ptr<Worker> worker_;
    Capabilities capabilities_; // constant after construction
};

} // namespace

FakeEngineFactory::FakeEngineFactory(std::shared_ptr<FakeSettings> settings)
    : settings_(std::move(settings)) {
    info_ = {settings_->name,           settings_->version,       settings_->memories, settings_->options,
             settings_->exclusiveGroup, settings_->threadsOption, settings_->network,  settings_->joins};
}

const EngineInfo &
FakeEngineFactory::info() const {
    return info_;
}

Result<std::unique_ptr<Engine>>
FakeEngineFactory::create(const EngineConfig &config) const {
    settings_->record(config.agentName, "create", "");
    NIXL_RETURN_IF_ERROR(settings_->script().create);
    settings_->created(config);
    return std::unique_ptr<Engine>(std::make_unique<FakeEngine>(settings_, config));
}

std::optional<std::string>
FakeEngineFactory::hostLaneLimit(HostLane lane, const EngineConfig &config) const {
    settings_->record(config.agentName, "hostLaneLimit", "");
    const auto limits = settings_->script().limits;
    const auto found = limits.find(lane);
    return found == limits.end() ? std::nullopt : std::optional(found->second);
}

} // namespace nixl
