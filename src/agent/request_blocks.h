// Pairs the blocks of two lists into the blocks of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/prepared_list.h"
#include "engine/engine.h"
#include "util/status.h"

namespace nixl {

/// What a request moves.
struct RequestBlocks {
    LongArray<Block> blocks;
    std::uint64_t bytes = 0;
    std::size_t pairs = 0; ///< before merging
    /// The registrations that the blocks use, numbered as the blocks name them.
    std::vector<std::shared_ptr<RegionEntry>> localRegions, remoteRegions;
};

/// Pairs local[localIndices[i]] with remote[remoteIndices[i]]; without indices, the lists one to one.
/// With `merge`, a pair that continues the one before on both sides in the same regions becomes part of its
/// block. NIXL_ERR_INVALID_PARAM, naming the position: counts or lengths differ, nothing to pair, an index
/// out of range.
Result<RequestBlocks> pairBlocks(const ResolvedList &local, std::optional<std::span<const int>> localIndices,
                                 const ResolvedList &remote,
                                 std::optional<std::span<const int>> remoteIndices, bool merge);

} // namespace nixl
