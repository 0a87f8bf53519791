// The peer dies between any two calls into UCX.
//
// UCX 1.22 crashes if a put or get is posted to an endpoint that has failed but has not told so yet.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <list>
#include <set>

#include "conformance/pair.h"
#include "engines/ucx/engine.h"
#include "util/mutex.h"

namespace nixl::conformance {

namespace {

ucx::Api real;
std::atomic<bool> putFails{false}; ///< the next put fails on this side
std::atomic<int> callsLeft{-1};    ///< calls until the peer dies; below 0: it does not
std::function<void()> killPeer;

/// The error handler that the engine gave to an endpoint.
struct Handler {
    ucp_err_handler_t engines;
};

Mutex watching;
std::list<Handler> handlers NIXL_GUARDED_BY(watching); // as long as the process: UCX keeps pointers to them
std::set<ucp_ep_h> failed NIXL_GUARDED_BY(watching);   ///< endpoints whose error handler was called
std::atomic<int> lateCalls{0};                         ///< posts to one of those

/// Counts a call into UCX that concerns an endpoint.
void
called(ucp_ep_h endpoint) {
    if (callsLeft.load() >= 0 && callsLeft.fetch_sub(1) == 0)
        killPeer();
    LockGuard lock(watching);
    lateCalls += static_cast<int>(failed.count(endpoint));
}

void
onError(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    {
        LockGuard lock(watching);
        failed.insert(endpoint);
    }
    const auto *handler = static_cast<const Handler *>(argument);
    handler->engines.cb(handler->engines.arg, endpoint, status);
}

ucs_status_t
createEndpoint(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *endpoint) {
    called(nullptr);
    ucp_ep_params_t watched = *params;
    if ((params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) != 0) {
        LockGuard lock(watching);
        handlers.push_back({params->err_handler});
        watched.err_handler = {onError, &handlers.back()};
    }
    const ucs_status_t status = real.ep_create(worker, &watched, endpoint);
    if (status == UCS_OK) {
        LockGuard lock(watching);
        failed.erase(*endpoint);
    }
    return status;
}

ucx::Api
watchedApi() {
    ucx::Api api = real;
    api.ep_create = createEndpoint;
    api.ep_rkey_unpack = [](ucp_ep_h endpoint, const void *bytes, ucp_rkey_h *key) {
        called(endpoint);
        return real.ep_rkey_unpack(endpoint, bytes, key);
    };
    api.put_nbx = [](ucp_ep_h endpoint, const void *buffer, size_t count, uint64_t remote, ucp_rkey_h key,
                     const ucp_request_param_t *param) -> ucs_status_ptr_t {
        called(endpoint);
        if (putFails.exchange(false))
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        return real.put_nbx(endpoint, buffer, count, remote, key, param);
    };
    api.get_nbx = [](ucp_ep_h endpoint, void *buffer, size_t count, uint64_t remote, ucp_rkey_h key,
                     const ucp_request_param_t *param) {
        called(endpoint);
        return real.get_nbx(endpoint, buffer, count, remote, key, param);
    };
    api.ep_flush_nbx = [](ucp_ep_h endpoint, const ucp_request_param_t *param) {
        called(endpoint);
        return real.ep_flush_nbx(endpoint, param);
    };
    api.am_send_nbx = [](ucp_ep_h endpoint, unsigned id, const void *header, size_t headerLength,
                         const void *buffer, size_t count, const ucp_request_param_t *param) {
        called(endpoint);
        return real.am_send_nbx(endpoint, id, header, headerLength, buffer, count, param);
    };
    return api;
}

/// UCX, every call of which is counted.
class WatchedFactory : public EngineFactory {
public:
    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        auto settings = ucx::parseSettings(config.params);
        if (!settings.ok())
            return settings.status();
        auto library = ucx::Library::get(*config.options);
        if (!library.ok())
            return library.status();
        real = library.value()->api();
        return ucx::UcxEngine::create(config, std::move(settings).value(),
                                      library.value()->calledThrough(watchedApi()));
    }

private:
    const EngineInfo info_{"UCX", "1", {DRAM_SEG}, {}, "", ""};
};

struct Lane {
    std::string name;
    nixl_b_params_t params;
};

void
PrintTo(const Lane &lane, std::ostream *out) {
    *out << lane.name;
}

EngineTraits
deathTraits(const Lane &lane) {
    EngineTraits traits;
    traits.name = "UCX_death_" + lane.name;
    traits.makeFactory = [] { return std::make_shared<WatchedFactory>(); };
    traits.params = lane.params;
    return traits;
}

const Lane kLanes[] = {
    {"tcp", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}}},
    {"threads",
     {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}, {"num_threads", "2"}, {"split_batch_size", "2"}}},
    {"shm",
     {{"engine_config", "TLS=tcp,posix,sysv,self,NET_DEVICES=lo,POSIX_ERROR_HANDLING=y,"
                        "SYSV_ERROR_HANDLING=y,KEEPALIVE_INTERVAL=100ms"}}},
};

[[maybe_unused]] const bool added = [] {
    for (const Lane &lane : kLanes)
        addTraits(deathTraits(lane));
    return true;
}();

class UcxDeath : public ::testing::TestWithParam<Lane> {
protected:
    test::ExpectLog log_;
};

std::string
laneName(const ::testing::TestParamInfo<Lane> &info) {
    return info.param.name;
}

constexpr std::size_t kBlocks = 6;
constexpr std::size_t kBlock = 3000;

/// Runs a transfer with a message whose peer dies at call number `call`. False if there were fewer calls.
bool
dieAt(const Lane &lane, nixl_xfer_op_t operation, bool connected, int call) {
    const EngineTraits traits = deathTraits(lane);
    Pair pair({traits, true});
    const PeerMemory far = pair.peer->allocate(2 * kBlocks * kBlock, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(2 * kBlocks * kBlock);
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < kBlocks; ++i)
        pieces.push_back({2 * i * kBlock, 2 * i * kBlock, kBlock});
    auto reached = std::make_unique<Reached>(pair, far);
    auto transfer =
        std::make_unique<Transfer>(pair.side.engine(), operation, *near, reached->target(), pieces);
    if (connected) {
        EXPECT_EQ(transfer->run("before").code, NIXL_SUCCESS);
    }
    killPeer = [&] { pair.peer->vanish(); };
    callsLeft.store(call);
    const Progress progress = transfer->run("after");
    const bool died = callsLeft.exchange(-1) < 0;
    if (died) {
        // At the last calls everything may have been handed to the kernel before the death was known.
        EXPECT_TRUE(progress.code == NIXL_ERR_REMOTE_DISCONNECT || progress.code == NIXL_SUCCESS)
            << "call " << call << ": " << nixlEnumStrings::statusStr(progress.code) << " "
            << progress.message;
        Progress again;
        EXPECT_TRUE(eventually([&] { return (again = transfer->run("again")).code < 0; })) << "call " << call;
        EXPECT_EQ(again.code, NIXL_ERR_REMOTE_DISCONNECT) << "call " << call << ": " << again.message;
        EXPECT_FALSE(again.message.empty());
    }
    transfer.reset();
    reached.reset();
    // The survivor serves the next peer.
    Transfer own(pair.side.engine(), NIXL_WRITE, *near, loopbackTarget(pair.side, *near),
                 {{0, kBlock, kBlock}});
    EXPECT_EQ(own.run().code, NIXL_SUCCESS);
    EXPECT_EQ(lateCalls.load(), 0) << "calls on endpoints that had failed";
    return died;
}

void
dieAtEvery(const Lane &lane, nixl_xfer_op_t operation, bool connected) {
    int call = 0;
    while (dieAt(lane, operation, connected, call) && !::testing::Test::HasFailure())
        ++call;
    EXPECT_GE(call, static_cast<int>(kBlocks) + 1) << "calls were not counted";
}

} // namespace

TEST_P(UcxDeath, DuringAWrite) {
    dieAtEvery(GetParam(), NIXL_WRITE, true);
}

TEST_P(UcxDeath, DuringARead) {
    dieAtEvery(GetParam(), NIXL_READ, true);
}

TEST_P(UcxDeath, DuringTheFirstWrite) {
    dieAtEvery(GetParam(), NIXL_WRITE, false);
}

// A connection that is closed by force leaves the transfers of a living peer waiting for ever.
TEST_P(UcxDeath, AFailureOfThisSideLeavesTheConnectionAlone) {
    const EngineTraits traits = deathTraits(GetParam());
    constexpr std::size_t kLength = std::size_t{32} << 20;
    Side near(traits, "near"), far(traits, "far");
    const auto nearMemory = near.allocate(kLength), farMemory = far.allocate(kLength);
    const auto meet = [](Side &side, Side &other) {
        return side.engine().loadPeer(other.agent(), other.engine().connectionInfo().value()).value();
    };
    const std::shared_ptr<Peer> farPeer = meet(near, far), nearPeer = meet(far, near);
    const auto target = [](Side &side, Peer &peer, Side &owner, Registered &memory) {
        const std::string key = owner.engine().publicData(memory.region()).value();
        return side.engine().loadRegion(peer, memory.desc(), DRAM_SEG, key).value();
    };
    const auto farRegion = target(near, *farPeer, far, *farMemory);
    const auto nearRegion = target(far, *nearPeer, near, *nearMemory);
    Transfer write(near.engine(), NIXL_WRITE, *nearMemory,
                   {farRegion.get(), farMemory->desc(), DRAM_SEG, "far", farPeer.get()}, {{0, 0, 1000}});
    Transfer read(far.engine(), NIXL_READ, *farMemory,
                  {nearRegion.get(), nearMemory->desc(), DRAM_SEG, "near", nearPeer.get()},
                  {{1000, 1000, kLength - 1000}});
    ASSERT_EQ(write.run().code, NIXL_SUCCESS);
    const std::string bytes = pattern(kLength, 3);
    nearMemory->memory().store(0, bytes);
    ASSERT_GE(read.post().code, NIXL_SUCCESS);
    putFails.store(true);
    const Progress failed = write.run();
    EXPECT_EQ(failed.code, NIXL_ERR_BACKEND);
    EXPECT_THAT(failed.message, ::testing::HasSubstr("memory"));
    EXPECT_EQ(write.run().code, NIXL_SUCCESS);
    EXPECT_EQ(read.finish().code, NIXL_SUCCESS);
    EXPECT_TRUE(farMemory->memory().load(1000, kLength - 1000) == bytes.substr(1000));
}

// The last words of an engine arrive, also over a connection that is only being opened.
TEST_P(UcxDeath, MessagesOutliveTheirSender) {
    const EngineTraits traits = deathTraits(GetParam());
    Side far(traits, "far");
    std::vector<std::string> messages{"first", pattern(1 << 20, 1), "last"};
    {
        Side near(traits, "near");
        const std::shared_ptr<Peer> peer =
            near.engine().loadPeer("far", far.engine().connectionInfo().value()).value();
        for (const std::string &message : messages)
            ASSERT_TRUE(near.engine().notify(peer.get(), message).ok());
    }
    const std::vector<Notification> taken = takeNotifications(far.engine(), messages.size());
    ASSERT_EQ(taken.size(), messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i)
        EXPECT_TRUE(taken[i].message == messages[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Lanes, UcxDeath, ::testing::ValuesIn(kLanes), laneName);

} // namespace nixl::conformance
