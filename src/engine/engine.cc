#include "engine/engine.h"

namespace nixl {

namespace {

Status
unsupported(const char *what) {
    return Status::error(NIXL_ERR_NOT_SUPPORTED, "the engine has no ", what);
}

} // namespace

Status
Engine::registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                        std::vector<std::unique_ptr<LocalRegion>> &out) {
    for (const nixlBlobDesc &desc : descs) {
        auto region = registerRegion(desc, memory);
        if (!region.ok())
            return region.status();
        out.push_back(std::move(region).value());
    }
    return {};
}

std::vector<Engine::Unended>
Engine::deregisterRegions(std::span<LocalRegion *const> regions) {
    std::vector<Unended> unended;
    for (std::size_t i = 0; i < regions.size(); ++i) {
        if (Status status = deregisterRegion(*regions[i]); !status.ok())
            unended.push_back({i, std::move(status)});
    }
    return unended;
}

void
Engine::discardRegions(std::span<LocalRegion *const> regions) {
    (void)deregisterRegions(regions);
}

Result<std::string>
Engine::publicData(const LocalRegion &) const {
    return unsupported("remote memory");
}

Result<std::vector<nixl_query_resp_t>>
Engine::queryMemory(const nixl_reg_dlist_t &) const {
    return unsupported("memory queries");
}

Result<std::string>
Engine::connectionInfo() const {
    return unsupported("remote memory");
}

Result<std::shared_ptr<Peer>>
Engine::loadPeer(const std::string &, std::string_view) {
    return unsupported("remote memory");
}

Status
Engine::connect(Peer &) {
    return unsupported("remote memory");
}

Result<HostLane>
Engine::meet(Peer &) {
    return unsupported("lanes within the host");
}

Result<std::unique_ptr<RemoteRegion>>
Engine::loadRegion(Peer &, const nixlBasicDesc &, nixl_mem_t, std::string_view) {
    return unsupported("remote memory");
}

Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
Engine::estimate(const TransferSpec &) const {
    return unsupported("cost estimate");
}

Status
Engine::notify(Peer *, std::string_view) {
    return unsupported("notifications");
}

Status
Engine::takeNotifications(std::vector<Notification> &) {
    return unsupported("notifications");
}

void
Engine::takeFailures(std::vector<FailedNotification> &) {}

} // namespace nixl
