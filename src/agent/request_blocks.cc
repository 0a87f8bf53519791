#include "agent/request_blocks.h"

#include <limits>

#include "util/concat.h"

namespace nixl {

namespace {

constexpr std::uint32_t kUnused = std::numeric_limits<std::uint32_t>::max();

/// One side: gives blocks by position, and numbers the regions in the order of use.
class Picker {
public:
    Picker(const ResolvedList &list, std::optional<std::span<const int>> indices)
        : list_(list), indices_(indices ? indices->data() : nullptr), size_(list.blocks->size()),
          count_(indices ? indices->size() : size_), cursor_(*list.blocks),
          numbers_(list.regions.size(), kUnused) {}

    std::uint64_t
    count() const {
        return count_;
    }

    bool
    inRange(std::size_t position) const {
        return !indices_ ||
               (indices_[position] >= 0 && static_cast<std::uint64_t>(indices_[position]) < size_);
    }

    /// REQUIRES: inRange(position).
    ListBlock
    at(std::size_t position) {
        return cursor_.at(indices_ ? static_cast<std::uint64_t>(indices_[position]) : position);
    }

    std::uint32_t
    number(std::uint32_t region, std::vector<std::shared_ptr<RegionEntry>> &used) {
        if (region != lastRegion_) {
            if (numbers_[region] == kUnused) {
                numbers_[region] = static_cast<std::uint32_t>(used.size());
                used.push_back(list_.regions[region]);
            }
            lastRegion_ = region;
            lastNumber_ = numbers_[region];
        }
        return lastNumber_;
    }

    Status
    outOfRange(const char *side, std::size_t position) const {
        return Status::error(NIXL_ERR_INVALID_PARAM, side, " index ", indices_[position], " at position ",
                             position, " is outside the list of ", size_, " blocks");
    }

private:
    const ResolvedList &list_;
    const int *const indices_; ///< nullptr: every block in its order
    const std::uint64_t size_, count_;
    BlockList::Cursor cursor_;
    std::vector<std::uint32_t> numbers_;
    std::uint32_t lastRegion_ = kUnused, lastNumber_ = kUnused;
};

bool
continues(const Block &block, const ListBlock &local, const ListBlock &remote, std::uint32_t localRegion,
          std::uint32_t remoteRegion) {
    return block.local + block.length == local.address && block.remote + block.length == remote.address &&
           block.localRegion == localRegion && block.remoteRegion == remoteRegion;
}

} // namespace

Result<RequestBlocks>
pairBlocks(const ResolvedList &local, std::optional<std::span<const int>> localIndices,
           const ResolvedList &remote, std::optional<std::span<const int>> remoteIndices, bool merge) {
    Picker left(local, localIndices), right(remote, remoteIndices);
    const std::uint64_t count = left.count();
    if (count != right.count())
        return Status::error(NIXL_ERR_INVALID_PARAM, count, " local and ", right.count(),
                             " remote blocks cannot be paired");
    if (count == 0)
        return Status::error(NIXL_ERR_INVALID_PARAM, "there is nothing to pair");
    RequestBlocks request;
    request.pairs = count;
    request.blocks.resize(count); // at most
    Block *const blocks = request.blocks.data();
    std::size_t made = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!left.inRange(i))
            return left.outOfRange("local", i);
        if (!right.inRange(i))
            return right.outOfRange("remote", i);
        const ListBlock from = left.at(i), to = right.at(i);
        if (from.length != to.length)
            return Status::error(NIXL_ERR_INVALID_PARAM, "the blocks at position ", i,
                                 " differ in length: ", from.length, " local, ", to.length, " remote");
        if (__builtin_add_overflow(bytes, from.length, &bytes))
            return Status::error(NIXL_ERR_INVALID_PARAM, "the lengths up to position ", i,
                                 " add up to more than 2^64");
        const std::uint32_t localRegion = left.number(from.region, request.localRegions);
        const std::uint32_t remoteRegion = right.number(to.region, request.remoteRegions);
        if (merge && made > 0 && continues(blocks[made - 1], from, to, localRegion, remoteRegion)) {
            blocks[made - 1].length += from.length;
            continue;
        }
        // Field by field: a block that is put together first and copied then costs twice the time.
        Block &block = blocks[made++];
        block.local = from.address;
        block.remote = to.address;
        block.length = from.length;
        block.localRegion = localRegion;
        block.remoteRegion = remoteRegion;
    }
    request.blocks.resize(made);
    request.bytes = bytes;
    return request;
}

} // namespace nixl
