// How a list of blocks is cut into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "util/status.h"

namespace nixl::local {

// A batch takes some ten to a hundred microseconds: as long as it runs, nobody can end a registration or
// cancel, and a thread that asks for the state may be doing it. What it costs beside its copies is one or
// two.

/// Most that one batch moves.
inline constexpr std::uint64_t kBatchBytes = 512 << 10;
/// Most pieces of a batch that is copied.
inline constexpr std::size_t kBatchPieces = 512;
/// Most pieces of a batch that the kernel copies, where each costs a microsecond beside its bytes.
inline constexpr std::size_t kKernelBatchPieces = 64;
/// Most batches of one transfer: more than any memory holds.
inline constexpr std::uint64_t kMostBatches = std::uint64_t{1} << 32;

/// A place in a list of blocks.
struct BlockPosition {
    std::size_t block;
    std::uint64_t offset; ///< within the block
};

/// Batches follow the order of the blocks; a block is cut only where its batch is full. The plan takes memory
/// by the number of blocks, whatever their lengths.
class BatchPlan {
public:
    /// REQUIRES: mostPieces <= kBatchPieces. NIXL_ERR_INVALID_PARAM: more than kMostBatches; names the block
    /// that reaches beyond.
    static Result<BatchPlan> make(std::span<const Block> blocks, std::size_t mostPieces = kBatchPieces);

    std::size_t
    count() const {
        return count_;
    }

    /// Where a batch starts; for count(), the end of the blocks. REQUIRES: batch <= count().
    BlockPosition start(std::size_t batch) const;

private:
    /// Batches at distances of kBatchBytes in one block, up to the first batch of the next run.
    struct Run {
        std::size_t firstBatch;
        BlockPosition position;
    };

    void begin(BlockPosition position, std::uint64_t batches);

    std::vector<Run> runs_;
    std::size_t count_ = 0;
    BlockPosition end_{0, 0};
};

} // namespace nixl::local
