#include "engines/ucx/engine.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "engines/ucx/address_check.h"
#include "engines/ucx/direct_share.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/packed_bytes.h"
#include "engines/ucx/plain_message.h"
#include "engines/ucx/request.h"
#include "engines/ucx/rkey_check.h"
#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Bytes of messages to one peer that UCX has not taken over, before the next has to wait.
constexpr std::uint64_t kPendingLimit = std::uint64_t{64} << 20;
/// How long the end of an engine waits for messages that are on their way.
constexpr std::chrono::seconds kDrainTimeout{1};
/// Between two looks at something that is awaited.
constexpr std::chrono::microseconds kPause{100};
/// How long connecting waits for an answer.
constexpr std::chrono::seconds kAnswerTimeout{1};

/// What a transfer costs, to rank engines: a fixed time, bandwidth, and the time of each block.
struct Cost {
    double latencyUs;
    double bytesPerUs;
    double perBlockUs;
};

/// Measured on loopback: puts that the peer's UCX carries out, and copies by the kernel, one call a block.
/// UCX's own figures for these are off by orders of magnitude, in both directions.
constexpr Cost kEmulated{30, 1000, 1};
constexpr Cost kPacked{30, 3000, 0.1};
constexpr Cost kKernelCopy{5, 4000, 2};

bool
anyBegins(const std::vector<std::string> &transports, std::initializer_list<std::string_view> prefixes) {
    for (const std::string &transport : transports) {
        for (const std::string_view prefix : prefixes) {
            if (transport.rfind(prefix, 0) == 0)
                return true;
        }
    }
    return false;
}

/// Whether UCX moves every block by messages to the peer's library, and nothing else.
bool
onlyTcp(const std::vector<std::string> &transports) {
    return !transports.empty() &&
           std::all_of(transports.begin(), transports.end(),
                       [](const std::string &name) { return name.rfind("tcp", 0) == 0; });
}

/// `smallUs` and `largeUs` are what UCX expects of 64 bytes and of 1 MiB.
Cost
costOf(const std::vector<std::string> &transports, std::optional<double> smallUs,
       std::optional<double> largeUs) {
    if (anyBegins(transports, {"rc", "dc", "gga", "srd", "cuda_ipc", "rocm_ipc"}) && smallUs && largeUs &&
        *largeUs > *smallUs)
        return {*smallUs + 3, (1 << 20) / (*largeUs - *smallUs), std::max(*smallUs / 4, 0.3)};
    return anyBegins(transports, {"cma", "knem", "xpmem", "self"}) ? kKernelCopy : kEmulated;
}

/// The value of "worker_id=N" in a program's words to the engine.
Result<std::optional<unsigned>>
wantedWorker(std::string_view text, std::size_t workers) {
    constexpr std::string_view kKey = "worker_id=";
    const auto at = text.find(kKey);
    if (at == std::string_view::npos)
        return std::optional<unsigned>();
    unsigned id = 0;
    const char *begin = text.data() + at + kKey.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), id);
    if (error != std::errc() || end == begin || id >= workers)
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", text, "': worker_id is a number below ", workers,
                             ", the number of workers (num_workers, num_threads)");
    return std::optional<unsigned>(id);
}

} // namespace

UcxEngine::UcxEngine(const EngineConfig &config, Settings settings)
    : agentName_(config.agentName), settings_(std::move(settings)), options_(config.options),
      onActivity_(config.onActivity), onUndelivered_(config.onUndelivered),
      listeners_{config.onPeerChange,
                 [this](const std::string &peer, const std::string &payload, LetterKind kind,
                        const std::string &why) { undelivered(peer, payload, kind, why); }},
      inbox_(options_->notifQueueBytes) {}

Result<std::unique_ptr<Engine>>
UcxEngine::create(const EngineConfig &config, Settings settings, std::shared_ptr<const Library> library) {
    std::unique_ptr<UcxEngine> engine(new UcxEngine(config, std::move(settings)));
    NIXL_RETURN_IF_ERROR(engine->start(std::move(library), config.progressThread));
    return std::unique_ptr<Engine>(std::move(engine));
}

Status
UcxEngine::start(std::shared_ptr<const Library> library, bool progressThread) {
    auto context = Context::create(std::move(library), settings_);
    if (!context.ok())
        return context.status();
    context_ = std::move(context).value();
    std::vector<std::string> addresses;
    for (unsigned i = 0; i < settings_.workers; ++i) {
        auto worker = ProgressWorker::create(*context_, i);
        if (!worker.ok())
            return worker.status();
        workers_.push_back(std::move(worker).value());
        NIXL_RETURN_IF_ERROR(takeBlocks(*workers_.back()));
        auto address = workers_.back()->address();
        if (!address.ok())
            return address.status();
        addresses.push_back(std::move(address).value());
    }
    address_ = addresses.front();
    self_ = std::make_unique<UcxPeer>(
        workers_, kept_, nullptr, agentName_,
        PeerSettings{
            .addresses = std::move(addresses), .packs = true, .errorHandling = false, .closeForce = true},
        UcxPeer::Listeners());
    receiver_ = std::make_unique<Receiver>(*workers_.front(), inbox_, options_->notifMaxBytes, onActivity_);
    NIXL_RETURN_IF_ERROR(receiver_->receive());
    capabilities_ = {{DRAM_SEG}, true, true, true};
    if (context_->knowsDeviceMemory())
        capabilities_.memories.push_back(VRAM_SEG);
    else
        capabilities_.refused.emplace_back(VRAM_SEG, noDeviceMemory());
    for (const auto &worker : workers_) {
        const bool dedicated = worker->index() >= settings_.workers - settings_.threads;
        if (progressThread || dedicated)
            NIXL_RETURN_IF_ERROR(worker->startThread());
    }
    liveness_ = std::make_unique<Liveness>(workers_, kept_);
    return {};
}

/// Serves packed blocks at a worker, and sends them.
Status
UcxEngine::takeBlocks(ProgressWorker &worker) {
    servers_.push_back(std::make_unique<BlockServer>(worker, keys_));
    NIXL_RETURN_IF_ERROR(servers_.back()->receive());
    runs_.push_back(std::make_unique<RunTable>(worker));
    NIXL_RETURN_IF_ERROR(runs_.back()->receive());
    const auto limit = worker.headerLimit();
    if (!limit.ok())
        return limit.status();
    const std::size_t room = limit.value() - std::min(limit.value(), kRequestBytes);
    mostPieces_ = std::min(mostPieces_, room / kPieceBytes);
    return {};
}

UcxEngine::~UcxEngine() {
    liveness_.reset();
    self_.reset();
    drainLetters();
    kept_.close(false);
    drain();
    for (const auto &worker : workers_)
        worker->stopThread();
    workers_.clear();
}

/// What UCX is not driven for it does not do, but for what hardware has under way.
void
UcxEngine::halt() {
    liveness_.reset();
    for (const auto &worker : workers_)
        worker->stopThread();
}

/// What was not sent after a while is given up. Peers have a moment to say that they have what was sent, in
/// case they had no room for it.
void
UcxEngine::drainLetters() {
    constexpr std::chrono::milliseconds kMoment{50};
    constexpr std::chrono::milliseconds kLong = kDrainTimeout;
    const auto begin = std::chrono::steady_clock::now();
    bool over = false;
    while (!over) {
        const auto time = std::chrono::steady_clock::now() - begin;
        bool waits = false;
        const auto look = [&](Connection &connection) {
            Outbox &outbox = connection.outbox();
            if (outbox.empty())
                return;
            if (time < (outbox.waits() ? kLong : kMoment) && (connection.askForLetters() || outbox.waits())) {
                waits = true;
            } else if (outbox.waits() || connection.pinging()) {
                if (outbox.waits())
                    NIXL_LOG(kWarn, "UCX: agent '", agentName_, "' ends while notifications to '",
                             connection.peerName(), "', which takes none, wait; they may be lost");
                connection.giveUp(Status(NIXL_ERR_CANCELED, "the agent has ended"));
            } else {
                outbox.giveUp(Status(NIXL_ERR_CANCELED, "the agent has ended"), false);
            }
        };
        for (const auto &worker : workers_)
            worker->with([&] { worker->links().forEach(look); });
        over = !waits;
        driveAll();
        if (waits)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

/// What is left are messages, and closes that wait for them.
void
UcxEngine::drain() {
    const auto underWay = [this] {
        std::size_t count = 0;
        for (const auto &worker : workers_)
            count += worker->operations();
        return count;
    };
    const auto limit = std::chrono::steady_clock::now() + kDrainTimeout;
    while (underWay() > 0 && std::chrono::steady_clock::now() < limit) {
        driveAll();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (const std::size_t left = underWay(); left > 0)
        NIXL_LOG(kWarn, "UCX: agent '", agentName_, "' ends while ", left,
                 " messages or closes are on their way to peers that take nothing; they are lost");
}

const Capabilities &
UcxEngine::capabilities() const {
    return capabilities_;
}

std::string
UcxEngine::noDeviceMemory() const {
    return concat("UCX ", context_->library().version(), " (", context_->library().path(),
                  ") does not reach device memory (VRAM_SEG) on this host");
}

Status
UcxEngine::checkMemory(nixl_mem_t memory) const {
    const auto &memories = capabilities_.memories;
    if (std::find(memories.begin(), memories.end(), memory) != memories.end())
        return {};
    if (memory == VRAM_SEG)
        return Status(NIXL_ERR_NOT_SUPPORTED, noDeviceMemory());
    return Status::error(NIXL_ERR_NOT_SUPPORTED, "UCX does not take ", nixlEnumStrings::memTypeStr(memory));
}

Result<std::unique_ptr<LocalRegion>>
UcxEngine::registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) {
    std::vector<std::unique_ptr<LocalRegion>> regions;
    NIXL_RETURN_IF_ERROR(registerRegions({&desc, 1}, memory, regions));
    return std::move(regions.front());
}

Status
UcxEngine::registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                           std::vector<std::unique_ptr<LocalRegion>> &out) {
    NIXL_RETURN_IF_ERROR(checkMemory(memory));
    return OwnRegion::create(*context_, keys_, descs, memory, out);
}

Status
UcxEngine::deregisterRegion(LocalRegion &region) {
    LocalRegion *const one = &region;
    auto unended = deregisterRegions({&one, 1});
    return unended.empty() ? Status() : std::move(unended.front().reason);
}

/// What UCX still sends of them goes out while the workers are driven, unless a peer has stopped to read. All
/// are closed before the wait, which is one for all.
std::vector<Engine::Unended>
UcxEngine::deregisterRegions(std::span<LocalRegion *const> regions) {
    const auto quiet = [](LocalRegion *region) { return static_cast<OwnRegion *>(region)->close(); };
    const auto limit = std::chrono::steady_clock::now() + kAnswerTimeout;
    std::vector<bool> ended(regions.size());
    const auto closeAll = [&] {
        std::size_t open = 0;
        for (std::size_t i = 0; i < regions.size(); ++i) {
            ended[i] = ended[i] || quiet(regions[i]);
            open += ended[i] ? 0 : 1;
        }
        return open == 0;
    };
    while (!closeAll() && std::chrono::steady_clock::now() < limit) {
        driveAll();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    std::vector<Unended> unended;
    for (std::size_t i = 0; i < regions.size(); ++i) {
        Status status = ended[i]
                            ? static_cast<OwnRegion *>(regions[i])->unmap()
                            : Status(NIXL_ERR_BACKEND, "peers were promised bytes of the memory and do not "
                                                       "take them; it takes no new transfers");
        if (!status.ok())
            unended.push_back({i, std::move(status)});
    }
    return unended;
}

Result<std::string>
UcxEngine::publicData(const LocalRegion &region) const {
    const auto &own = static_cast<const OwnRegion &>(region);
    return appendMessageKey(own.packedKey(), own.messageKey());
}

Result<std::unique_ptr<RemoteRegion>>
UcxEngine::loopbackRegion(LocalRegion &region, const nixlBlobDesc &, nixl_mem_t memory) {
    NIXL_RETURN_IF_ERROR(checkMemory(memory));
    const auto &own = static_cast<OwnRegion &>(region);
    auto key = self_->keys().get(own.packedKey(), [](std::string_view) { return Status(); });
    if (!key.ok())
        return key.status();
    return std::unique_ptr<RemoteRegion>(new PeerRegion(std::move(key).value(), own.messageKey()));
}

Result<std::string>
UcxEngine::connectionInfo() const {
    return markAddress(address_);
}

Result<std::shared_ptr<Peer>>
UcxEngine::loadPeer(const std::string &name, std::string_view info) {
    const auto [address, packs] = unmarkAddress(info);
    const auto packer = workerAddressPacker(address, context_->minorVersion());
    if (!packer.ok())
        return packer.status().withContext(concat("connection info of '", name, "'"));
    PeerSettings how;
    how.addresses.assign(workers_.size(), padded(address));
    how.packer = packer.value();
    how.packs = packs;
    how.sockets = tcpAddresses(address, address_);
    how.errorHandling = settings_.errorHandling == ErrorHandling::kPeer;
    how.closeForce = settings_.closeForce;
    return std::shared_ptr<Peer>(
        new UcxPeer(workers_, kept_, liveness_.get(), name, std::move(how), listeners_));
}

/// Connects all workers. A peer that does not answer in time is no error: its program may make no progress
/// now.
Status
UcxEngine::connect(Peer &peer) {
    struct Answers {
        Mutex mutex;
        ConditionVariable changed;
        std::size_t missing NIXL_GUARDED_BY(mutex) = 0;
        Status failure NIXL_GUARDED_BY(mutex);
    };

    auto &known = static_cast<UcxPeer &>(peer);
    NIXL_RETURN_IF_ERROR(reach(known));
    const auto answers = std::make_shared<Answers>(); // answers may come after the wait
    {
        LockGuard lock(answers->mutex);
        answers->missing = workers_.size();
    }
    for (const auto &worker : workers_) {
        known.connection(worker->index()).greet([answers](const Status &status) {
            LockGuard lock(answers->mutex);
            --answers->missing;
            if (!status.ok())
                answers->failure = status;
            answers->changed.notifyAll();
        });
    }
    const auto limit = std::chrono::steady_clock::now() + kAnswerTimeout;
    Status failure;
    {
        LockGuard lock(answers->mutex);
        while (answers->missing > 0 && answers->failure.ok() && std::chrono::steady_clock::now() < limit) {
            answers->mutex.unlock();
            driveAll();
            answers->mutex.lock();
            answers->changed.waitFor(answers->mutex, std::chrono::milliseconds(1),
                                     [&]() NIXL_REQUIRES(answers->mutex) { return answers->missing == 0; });
        }
        failure = answers->failure;
    }
    return judged(known, std::move(failure));
}

Result<std::unique_ptr<RemoteRegion>>
UcxEngine::loadRegion(Peer &peer, const nixlBasicDesc &, nixl_mem_t, std::string_view publicData) {
    auto &known = static_cast<UcxPeer &>(peer);
    const auto published = known.packs() ? splitMessageKey(publicData) : SplitKey{publicData, 0};
    auto key = known.keys().get(published.packedKey, [&](std::string_view packed) {
        return checkPackedKey(packed, known.packer()).withContext(concat("a region of '", known.name(), "'"));
    });
    if (!key.ok())
        return key.status();
    return std::unique_ptr<RemoteRegion>(new PeerRegion(std::move(key).value(), published.messageKey));
}

/// seePeer(), once it has been found out what became of connections that broke. NIXL_ERR_REMOTE_DISCONNECT:
/// the peer is gone; NIXL_ERR_BACKEND: it cannot be told in time.
Status
UcxEngine::reach(UcxPeer &peer) const {
    const auto limit = std::chrono::steady_clock::now() + Knock::kPatience;
    for (const auto &worker : workers_) {
        Connection &connection = peer.connection(worker->index());
        const auto judging = [&] { return worker->locked([&] { return connection.judging(); }); };
        while (judging()) {
            if (std::chrono::steady_clock::now() > limit)
                return Status::error(NIXL_ERR_BACKEND, "a connection to '", peer.name(),
                                     "' broke, and whether it is gone cannot be told");
            worker->tryProgress();
            std::this_thread::sleep_for(kPause);
        }
        NIXL_RETURN_IF_ERROR(worker->locked([&] { return connection.givenUp(); }));
    }
    return seePeer(peer);
}

/// Knocks if a connection would have to be opened without anybody having seen the peer's system answer.
/// NIXL_ERR_REMOTE_DISCONNECT: the peer is gone.
Status
UcxEngine::seePeer(UcxPeer &peer) const {
    bool unseen = false;
    for (const auto &worker : workers_) {
        Connection &connection = peer.connection(worker->index());
        unseen |= !connection.stands() &&
                  worker->locked([&] { return !peer.errorHandling() || !connection.mayOpen(); });
    }
    if (!unseen)
        return {};
    Knock knock(peer.socketAddresses());
    Knock::Answer answer = knock.look(Knock::Clock::now());
    while (answer == Knock::Answer::kNone) {
        std::this_thread::sleep_for(kPause);
        answer = knock.look(Knock::Clock::now());
    }
    if (answer != Knock::Answer::kThere)
        return gone(peer.name(), answer);
    for (const auto &worker : workers_)
        worker->locked([&] { peer.connection(worker->index()).seen(); });
    return {};
}

/// What the failure of a connection means: NIXL_ERR_REMOTE_DISCONNECT only if the peer is gone.
Status
UcxEngine::judged(UcxPeer &peer, Status failure) const {
    if (failure.code() != NIXL_ERR_REMOTE_DISCONNECT)
        return failure;
    Status gone = reach(peer);
    return gone.ok() ? Status(NIXL_ERR_BACKEND, failure.message()) : gone;
}

Result<Path>
UcxEngine::path(nixl_xfer_op_t, nixl_mem_t localMemory, nixl_mem_t, Peer *peer) {
    NIXL_RETURN_IF_ERROR(checkMemory(localMemory));
    if (peer == nullptr)
        return pathOf(*self_);
    auto &known = static_cast<UcxPeer &>(*peer);
    NIXL_RETURN_IF_ERROR(reach(known));
    auto path = pathOf(known);
    if (!path.ok())
        return judged(known, path.status());
    return path;
}

Result<Path>
UcxEngine::pathOf(UcxPeer &peer) const {
    Connection &connection = peer.connection(0);
    Status failure;
    std::vector<std::string> transports;
    std::optional<double> small, large;
    workers_.front()->locked([&] {
        failure = connection.open().status();
        if (!failure.ok())
            return;
        auto names = connection.transports();
        failure = names.status();
        if (!failure.ok())
            return;
        transports = std::move(names).value();
        small = connection.expectedUs(64);
        large = connection.expectedUs(1 << 20);
    });
    if (!failure.ok())
        return failure;
    Path path;
    for (const std::string &transport : transports)
        path.lane += (path.lane.empty() ? "" : "+") + transport;
    if (path.lane.empty())
        path.lane = "unknown transport";
    const Library &library = context_->library();
    path.reason = concat("UCX ", library.version(), " chose it for this peer (", library.path(), ": ",
                         library.reason(), ")");
    path.peerTakesPart = !anyBegins(
        transports, {"rc", "dc", "gga", "srd", "cma", "knem", "xpmem", "cuda_ipc", "rocm_ipc", "self"});
    const bool packed = packs(peer, transports);
    if (packed)
        path.reason += "; blocks of host memory travel packed";
    const Cost cost = packed ? kPacked : costOf(transports, small, large);
    path.latencyUs = cost.latencyUs;
    path.bytesPerUs = cost.bytesPerUs;
    path.perBlockUs = cost.perBlockUs;
    return path;
}

/// The workers that a transfer is dealt out to.
Result<std::vector<ProgressWorker *>>
UcxEngine::workersFor(const TransferSpec &spec) {
    const auto wanted = wantedWorker(spec.customParam, workers_.size());
    if (!wanted.ok())
        return wanted.status();
    if (wanted.value())
        return std::vector<ProgressWorker *>{workers_[*wanted.value()].get()};
    const std::size_t shares =
        std::min<std::size_t>(settings_.threads, spec.blocks.size() / settings_.splitBatchSize);
    if (shares < 2)
        return std::vector<ProgressWorker *>{workers_[nextWorker_.fetch_add(1) % workers_.size()].get()};
    std::vector<ProgressWorker *> dedicated;
    for (std::size_t i = 0; i < shares; ++i)
        dedicated.push_back(workers_[workers_.size() - settings_.threads + i].get());
    return dedicated;
}

/// Whether host memory of `peer` is reached by packed blocks.
bool
UcxEngine::packs(const UcxPeer &peer, const std::vector<std::string> &transports) const {
    return options_->ucxPackedBlocks && peer.packs() && mostPieces_ > 0 && onlyTcp(transports);
}

bool
UcxEngine::packs(const TransferSpec &spec, UcxPeer &peer) const {
    const auto keyed = [](const RemoteRegionRef &ref) {
        return static_cast<const PeerRegion &>(*ref.region).messageKey() != 0;
    };
    if (spec.localMemory != DRAM_SEG || spec.remoteMemory != DRAM_SEG ||
        !std::all_of(spec.remoteRegions.begin(), spec.remoteRegions.end(), keyed))
        return false;
    Connection &connection = peer.connection(0);
    const auto transports = workers_.front()->locked([&]() -> Result<std::vector<std::string>> {
        const auto opening = connection.open();
        return opening.ok() ? connection.transports() : opening.status();
    });
    return transports.ok() && packs(peer, transports.value());
}

Result<std::unique_ptr<EngineRequest>>
UcxEngine::prepare(const TransferSpec &spec) {
    NIXL_RETURN_IF_ERROR(checkMemory(spec.localMemory));
    auto workers = workersFor(spec);
    if (!workers.ok())
        return workers.status();
    const bool loopback = spec.peer == nullptr;
    UcxPeer *peer = loopback ? self_.get() : static_cast<UcxPeer *>(spec.peer);
    const bool packed = packs(spec, *peer);
    const auto makeShare = [&](const ShareWork &work, Connection &connection,
                               std::span<const Block> blocks) -> Result<std::unique_ptr<Share>> {
        if (packed)
            return PackedShare::create(work, connection, blocks, *runs_[connection.worker().index()],
                                       mostPieces_);
        const bool confirmed = peer->packs() && peer->errorHandling();
        return std::unique_ptr<Share>(new DirectShare(work, connection, blocks, confirmed));
    };
    auto transfer = Transfer::create({agentName_, peer, loopback, inbox_, toSelf_, onActivity_}, spec,
                                     workers.value(), makeShare);
    if (!transfer.ok())
        return transfer.status();
    return std::unique_ptr<EngineRequest>(
        new UcxRequest(std::move(transfer).value(), options_->notifMaxBytes));
}

Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
UcxEngine::estimate(const TransferSpec &spec) const {
    const auto path = pathOf(spec.peer != nullptr ? static_cast<UcxPeer &>(*spec.peer) : *self_);
    if (!path.ok())
        return path.status();
    const auto us = std::chrono::microseconds(
        static_cast<std::int64_t>(path.value().estimateUs(spec.blocks.size(), spec.bytes)) + 1);
    return std::pair(us, us / 2);
}

Status
UcxEngine::notify(Peer *peer, std::string_view message) {
    NIXL_RETURN_IF_ERROR(checkMessageSize(message.size(), options_->notifMaxBytes));
    if (peer == nullptr)
        return notifySelf(message);
    auto &known = static_cast<UcxPeer &>(*peer);
    NIXL_RETURN_IF_ERROR(known.packs() ? seePeer(known) : reach(known));
    const std::shared_ptr<Connection> &connection = known.sharedConnection(0);
    NIXL_RETURN_IF_ERROR(awaitRoom(*connection, known.packs()));
    std::string payload = encodeNotification(agentName_, message);
    if (known.packs())
        Outbox::send(connection, LetterKind::kNotification, std::move(payload), nullptr);
    else
        PlainMessage::send(
            connection, std::move(payload),
            [this, peerName = known.name(), text = std::string(message)](const Status &status) {
                if (!status.ok() && onUndelivered_)
                    onUndelivered_(peerName, text, status.message());
            });
    return {};
}

Status
UcxEngine::notifySelf(std::string_view message) {
    const auto outcome = toSelf_.enterWithin(agentName_, std::string(message), options_->notifTimeout);
    if (!outcome)
        return Status::error(NIXL_ERR_NOT_ALLOWED, "agent '", agentName_,
                             "' does not read its notifications: its queue is full");
    if (onActivity_)
        onActivity_();
    return *outcome;
}

/// NIXL_ERR_NOT_ALLOWED: the peer has none in the time that a message waits.
Status
UcxEngine::awaitRoom(Connection &connection, bool letters) {
    ProgressWorker &worker = connection.worker();
    const Outbox *outbox = letters ? worker.locked([&] { return &connection.outbox(); }) : nullptr;
    const auto limit = std::chrono::steady_clock::now() + options_->notifTimeout;
    while (outbox != nullptr ? !outbox->room() : connection.pendingBytes.load() > kPendingLimit) {
        if (std::chrono::steady_clock::now() >= limit)
            return Status::error(
                NIXL_ERR_NOT_ALLOWED, "'", connection.peerName(), "' takes no notifications: ",
                outbox != nullptr ? outbox->bytes() : connection.pendingBytes.load(), " bytes wait for it");
        if (!worker.tryProgress())
            std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return worker.locked([&] { return connection.givenUp(); });
}

/// Called with the lock of a worker held.
void
UcxEngine::undelivered(const std::string &peer, const std::string &payload, LetterKind kind,
                       const std::string &why) const {
    if (kind != LetterKind::kNotification || !onUndelivered_)
        return;
    auto notification = decodeNotification(payload, options_->notifMaxBytes);
    if (notification.ok())
        onUndelivered_(peer, std::move(notification.value().message), why);
}

Status
UcxEngine::takeNotifications(std::vector<Notification> &out) {
    driveAll();
    if (inbox_.take(out) && toSelf_.letIn() && onActivity_)
        onActivity_();
    return {};
}

void
UcxEngine::takeFailures(std::vector<FailedNotification> &out) {
    driveAll();
    inbox_.takeFailures(out);
}

bool
UcxEngine::watch() {
    for (const auto &worker : workers_)
        worker->leave();
    if (watched_.load())
        return true;
    LockGuard lock(watching_);
    if (unwatchable_)
        return false;
    for (const auto &worker : workers_) {
        if (const Status started = worker->startThread(); !started.ok()) {
            unwatchable_ = true;
            NIXL_LOG(kWarn, "UCX: agent '", agentName_, "': who waits has to ask: ", started.message());
            return false;
        }
    }
    watched_.store(true);
    return true;
}

/// Without threads the program's questions are what drives the workers; a few rounds take in what is there.
void
UcxEngine::driveAll() {
    constexpr int kRounds = 64;
    for (const auto &worker : workers_) {
        for (int i = 0; i < (worker->threaded() ? 1 : kRounds) && worker->tryProgress(); ++i) {
        }
    }
}

} // namespace nixl::ucx
