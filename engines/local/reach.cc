#include "engines/local/reach.h"

#include <utility>

#include "engines/local/host_copy.h"
#include "engines/local/regions.h"
#include "util/concat.h"

namespace nixl::local {

namespace {

constexpr const char *kMappedLane = "shared mapping";

// Costs measured per thread with pieces of 4 KiB. They only have to rank lanes.

Path
pathMapped() {
    return {kMappedLane,
            "the peer's memory is sealed against shrinking and mapped here",
            1.0,
            10'000.0,
            0.05,
            false,
            HostLane::kHostMemory,
            {}};
}

Status
notLent(std::size_t region, std::uint64_t address, const char *why) {
    return Status::error(NIXL_ERR_BACKEND, "remote region ", region, " at ", Hex{address}, why);
}

/// The names of the memories that the remote regions lie in.
Result<std::vector<std::uint64_t>>
lentMemories(const TableView &table, const TransferSpec &spec) {
    std::vector<std::uint64_t> ids;
    ids.reserve(spec.remoteRegions.size());
    for (const RemoteRegionRef &ref : spec.remoteRegions) {
        const auto range = table.find(static_cast<PeerRegion *>(ref.region)->key);
        if (!range)
            return Status::error(NIXL_ERR_BACKEND, "remote region ", ids.size(),
                                 " is not registered any more");
        if (range->sealed == 0)
            return notLent(ids.size(), range->address,
                           " is not memory that can be mapped (nixl.alloc, or a shared memfd that is sealed "
                           "with F_SEAL_SHRINK and was made known)");
        ids.push_back(range->sealed);
    }
    return ids;
}

/// That a READ can fill the local memory.
Status
checkWritable(const TableView &table, const TransferSpec &spec) {
    if (spec.operation != NIXL_READ)
        return {};
    for (const LocalRegionRef &ref : spec.localRegions) {
        const auto range = table.find(static_cast<OwnRegion *>(ref.region)->key);
        if (!range || range->sealed != 0)
            continue;
        if (const auto address = unwritableEnd(range->address, range->length))
            return Status::error(NIXL_ERR_BACKEND, "local address ", Hex{*address}, " cannot be written");
    }
    return {};
}

Result<std::vector<std::weak_ptr<const PeerMapping>>>
mapAll(PeerChannel &channel, const TableView &local, const TransferSpec &spec,
       std::chrono::milliseconds patience) {
    const auto ids = lentMemories(channel.table(), spec);
    if (!ids.ok())
        return ids.status();
    NIXL_RETURN_IF_ERROR(checkWritable(local, spec));
    for (const std::uint64_t id : ids.value()) // all questions before the first wait
        NIXL_RETURN_IF_ERROR(channel.askFor(id, patience));
    std::vector<std::weak_ptr<const PeerMapping>> mappings;
    mappings.reserve(ids.value().size());
    for (const std::uint64_t id : ids.value()) {
        auto mapping = channel.mapping(id, patience);
        if (!mapping.ok())
            return mapping.status().withContext(concat("remote region ", mappings.size()));
        mappings.push_back(std::move(mapping).value());
    }
    return mappings;
}

} // namespace

Path
pathWithin() {
    return {"same process", "both ends are in this process", 1.0, 10'000.0, 0.05,
            false,          HostLane::kSameProcess,          {}};
}

Path
pathBetween() {
    return {"process_vm",
            "the peer is another process of this host and of the same user",
            3.0,
            5'000.0,
            0.3,
            false,
            HostLane::kHostMemory,
            {}};
}

Reach
reachThrough(PeerChannel &channel, const TableView &local, const TransferSpec &spec,
             std::chrono::milliseconds patience) {
    auto mappings = mapAll(channel, local, spec, patience);
    if (mappings.ok())
        return {pathMapped(), std::move(mappings).value()};
    Reach reach{pathBetween(), {}};
    reach.path.refused.emplace_back(kMappedLane, mappings.status().message());
    return reach;
}

} // namespace nixl::local
