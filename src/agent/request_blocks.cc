#include "agent/request_blocks.h"

#include <limits>

#include "util/concat.h"

namespace nixl {

namespace {

constexpr std::uint32_t kUnused = std::numeric_limits<std::uint32_t>::max();

/// Blocks that are kept one by one.
struct Singles {
    const ListBlock *blocks;

    const ListBlock &
    operator()(std::uint64_t number) const {
        return blocks[number];
    }
};

/// Blocks of one row.
struct Strided {
    ListBlock first;
    std::uint64_t distance;

    ListBlock
    operator()(std::uint64_t number) const {
        return {first.address + number * distance, first.length, first.region};
    }
};

/// Blocks of any list.
struct Anywhere {
    BlockList::Cursor cursor;

    ListBlock
    operator()(std::uint64_t number) {
        return cursor.at(number);
    }
};

/// Which blocks are meant, in which order.
struct Picked {
    const int *indices; ///< nullptr: every block in its order
    std::uint64_t size; ///< of the list

    Picked(const ResolvedList &list, std::optional<std::span<const int>> given)
        : indices(given ? given->data() : nullptr), size(list.blocks->size()) {}

    /// A number that no list has for a negative index.
    std::uint64_t
    number(std::size_t position) const {
        if (!indices)
            return position;
        const int index = indices[position];
        return index < 0 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(index);
    }

    Status
    outOfRange(const char *side, std::size_t position) const {
        return Status::error(NIXL_ERR_INVALID_PARAM, side, " index ", indices[position], " at position ",
                             position, " is outside the list of ", size, " blocks");
    }
};

/// Numbers the regions of a list in the order of use.
class RegionNumbers {
public:
    RegionNumbers(const ResolvedList &list, std::vector<std::shared_ptr<RegionEntry>> &used)
        : list_(list), used_(used), numbers_(list.regions.size(), kUnused) {}

    std::uint32_t
    of(std::uint32_t region) {
        if (numbers_[region] == kUnused) {
            numbers_[region] = static_cast<std::uint32_t>(used_.size());
            used_.push_back(list_.regions[region]);
        }
        return numbers_[region];
    }

private:
    const ResolvedList &list_;
    std::vector<std::shared_ptr<RegionEntry>> &used_;
    std::vector<std::uint32_t> numbers_;
};

/// What pairing walks over.
struct Ends {
    const ResolvedList &localList, &remoteList;
    const Picked local, remote;
    const std::uint64_t count;
    const bool merge;
};

Status
differ(std::size_t position, std::uint64_t local, std::uint64_t remote) {
    return Status::error(NIXL_ERR_INVALID_PARAM, "the blocks at position ", position,
                         " differ in length: ", local, " local, ", remote, " remote");
}

/// The loop, made for each way in which lists keep their blocks: what they have in common is then decided
/// once, and a pair costs a nanosecond or two. Everything it changes is a variable of its own, for registers.
template<typename Local, typename Remote>
Status
pair(const Ends &ends, Local localBlocks, Remote remoteBlocks, RequestBlocks &request) {
    const Picked local = ends.local, remote = ends.remote;
    RegionNumbers localNumbers(ends.localList, request.localRegions),
        remoteNumbers(ends.remoteList, request.remoteRegions);
    std::uint32_t lastLocal = kUnused, lastRemote = kUnused, localRegion = 0, remoteRegion = 0;
    Block *const blocks = request.blocks.data();
    Block *end = blocks;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < ends.count; ++i) {
        const std::uint64_t localNumber = local.number(i), remoteNumber = remote.number(i);
        if (localNumber >= local.size)
            return local.outOfRange("local", i);
        if (remoteNumber >= remote.size)
            return remote.outOfRange("remote", i);
        const ListBlock &from = localBlocks(localNumber);
        const ListBlock &to = remoteBlocks(remoteNumber);
        if (from.length != to.length)
            return differ(i, from.length, to.length);
        if (__builtin_add_overflow(bytes, from.length, &bytes))
            return Status::error(NIXL_ERR_INVALID_PARAM, "the lengths up to position ", i,
                                 " add up to more than 2^64");
        if (from.region != lastLocal)
            localRegion = localNumbers.of(lastLocal = from.region);
        if (to.region != lastRemote)
            remoteRegion = remoteNumbers.of(lastRemote = to.region);
        if (ends.merge && end != blocks) {
            Block &last = end[-1];
            if (last.local + last.length == from.address && last.remote + last.length == to.address &&
                last.localRegion == localRegion && last.remoteRegion == remoteRegion) {
                last.length += from.length;
                continue;
            }
        }
        // Field by field: a block that is put together first and copied then costs twice the time.
        end->local = from.address;
        end->remote = to.address;
        end->length = from.length;
        end->localRegion = localRegion;
        end->remoteRegion = remoteRegion;
        ++end;
    }
    request.blocks.resize(static_cast<std::size_t>(end - blocks));
    request.bytes = bytes;
    return {};
}

/// Calls `walk` with the blocks of a list as it keeps them.
template<typename Walk>
Status
asKept(const BlockList &list, Walk walk) {
    if (const ListBlock *singles = list.singles())
        return walk(Singles{singles});
    if (const auto row = list.onlyRow())
        return walk(Strided{row->first, row->distance});
    return walk(Anywhere{BlockList::Cursor(list)});
}

} // namespace

Result<RequestBlocks>
pairBlocks(const ResolvedList &local, std::optional<std::span<const int>> localIndices,
           const ResolvedList &remote, std::optional<std::span<const int>> remoteIndices, bool merge) {
    const std::uint64_t count = localIndices ? localIndices->size() : local.blocks->size();
    const std::uint64_t remoteCount = remoteIndices ? remoteIndices->size() : remote.blocks->size();
    if (count != remoteCount)
        return Status::error(NIXL_ERR_INVALID_PARAM, count, " local and ", remoteCount,
                             " remote blocks cannot be paired");
    if (count == 0)
        return Status::error(NIXL_ERR_INVALID_PARAM, "there is nothing to pair");
    RequestBlocks request;
    request.pairs = count;
    request.blocks.resize(count); // at most
    const Ends ends{local, remote, Picked(local, localIndices), Picked(remote, remoteIndices), count, merge};
    const Status status = asKept(*local.blocks, [&](auto localBlocks) {
        return asKept(*remote.blocks,
                      [&](auto remoteBlocks) { return pair(ends, localBlocks, remoteBlocks, request); });
    });
    if (!status.ok())
        return status;
    return request;
}

} // namespace nixl
