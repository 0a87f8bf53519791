// How a list of blocks is cut into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace nixl::local {

/// Most that one batch moves: as long as it runs, nobody can end a registration or cancel.
inline constexpr std::uint64_t kBatchBytes = 1 << 20;
/// Most pieces that one system call takes (IOV_MAX).
inline constexpr std::size_t kBatchPieces = 1024;

/// A place in a list of blocks.
struct BlockPosition {
    std::size_t block;
    std::uint64_t offset; ///< within the block
};

/// Where each batch starts, and the end: batch i is what lies between entries i and i + 1. Batches follow the
/// order of the blocks; a block is cut only where its batch is full.
std::vector<BlockPosition> planBatches(std::span<const Block> blocks);

} // namespace nixl::local
