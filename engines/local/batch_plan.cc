#include "engines/local/batch_plan.h"

#include <algorithm>

namespace nixl::local {

void
BatchPlan::begin(BlockPosition position, std::uint64_t batches) {
    runs_.push_back({count_, position});
    count_ += static_cast<std::size_t>(batches);
}

Result<BatchPlan>
BatchPlan::make(std::span<const Block> blocks, std::size_t mostPieces) {
    BatchPlan plan;
    plan.begin({0, 0}, 1);
    std::uint64_t bytes = 0; // of the last batch
    std::size_t pieces = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (pieces == mostPieces || bytes == kBatchBytes) {
            plan.begin({i, 0}, 1);
            bytes = 0;
            pieces = 0;
        }
        const std::uint64_t room = kBatchBytes - bytes;
        if (blocks[i].length > room) {
            const std::uint64_t rest = blocks[i].length - room;
            const std::uint64_t batches = (rest - 1) / kBatchBytes + 1;
            plan.begin({i, room}, batches);
            bytes = rest - (batches - 1) * kBatchBytes;
            pieces = 0;
        } else {
            bytes += blocks[i].length;
        }
        ++pieces;
        if (plan.count_ > kMostBatches)
            return Status::error(NIXL_ERR_INVALID_PARAM, "block ", i, " of ", blocks[i].length,
                                 " bytes makes the transfer longer than ", kMostBatches, " batches of ",
                                 kBatchBytes, " bytes");
    }
    plan.end_ = {blocks.size(), 0};
    return plan;
}

BlockPosition
BatchPlan::start(std::size_t batch) const {
    if (batch >= count_)
        return end_;
    const auto next =
        std::upper_bound(runs_.begin(), runs_.end(), batch,
                         [](std::size_t wanted, const Run &run) { return wanted < run.firstBatch; });
    const Run &run = *std::prev(next);
    return {run.position.block, run.position.offset + (batch - run.firstBatch) * kBatchBytes};
}

} // namespace nixl::local
