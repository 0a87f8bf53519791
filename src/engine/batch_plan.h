// How a list of blocks is cut into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "util/status.h"

namespace nixl {

/// What one batch takes at most; at least one byte and one piece.
struct BatchLimits {
    std::uint64_t bytes;
    std::size_t pieces;
};

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
    /// NIXL_ERR_INVALID_PARAM: more than kMostBatches; names the block that reaches beyond.
    static Result<BatchPlan> make(std::span<const Block> blocks, BatchLimits limits);

    std::size_t
    count() const {
        return count_;
    }

    /// Where a batch starts; for count(), the end of the blocks. REQUIRES: batch <= count().
    BlockPosition start(std::size_t batch) const;

    /// Calls `each(index of the block, offset in it, length)` for the pieces of a batch, in order, until one
    /// returns an error, which is passed on. REQUIRES: batch < count(); `blocks` are those of make().
    template<typename Each>
    Status
    visit(std::span<const Block> blocks, std::size_t batch, Each each) const {
        const BlockPosition first = start(batch);
        const BlockPosition end = start(batch + 1);
        for (std::size_t i = first.block; i < end.block + (end.offset > 0 ? 1 : 0); ++i) {
            const std::uint64_t from = i == first.block ? first.offset : 0;
            const std::uint64_t to = i == end.block ? end.offset : blocks[i].length;
            NIXL_RETURN_IF_ERROR(each(i, from, to - from));
        }
        return {};
    }

private:
    /// Batches at distances of the limit in one block, up to the first batch of the next run.
    struct Run {
        std::size_t firstBatch;
        BlockPosition position;
    };

    explicit BatchPlan(std::uint64_t bytes) : bytes_(bytes) {}

    void begin(BlockPosition position, std::uint64_t batches);

    std::uint64_t bytes_; ///< of a full batch
    std::vector<Run> runs_;
    std::size_t count_ = 0;
    BlockPosition end_{0, 0};
};

} // namespace nixl
