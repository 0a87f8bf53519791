#include "engine/batch_plan.h"

#include <algorithm>

namespace nixl {

void
BatchPlan::begin(BlockPosition position, std::uint64_t batches) {
    runs_.push_back({count_, position});
    count_ += static_cast<std::size_t>(batches);
}

Result<BatchPlan>
BatchPlan::make(std::span<const Block> blocks, BatchLimits limits) {
    BatchPlan plan(limits.bytes);
    plan.begin({0, 0}, 1);
    std::uint64_t bytes = 0; // of the last batch
    std::size_t pieces = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (pieces == limits.pieces || bytes == limits.bytes) {
            plan.begin({i, 0}, 1);
            bytes = 0;
            pieces = 0;
        }
        const std::uint64_t room = limits.bytes - bytes;
        if (blocks[i].length > room) {
            const std::uint64_t rest = blocks[i].length - room;
            const std::uint64_t batches = (rest - 1) / limits.bytes + 1;
            plan.begin({i, room}, batches);
            bytes = rest - (batches - 1) * limits.bytes;
            pieces = 0;
        } else {
            bytes += blocks[i].length;
        }
        ++pieces;
        if (plan.count_ > kMostBatches)
            return Status::error(NIXL_ERR_INVALID_PARAM, "block ", i, " of ", blocks[i].length,
                                 " bytes makes the transfer longer than ", kMostBatches, " batches of ",
                                 limits.bytes, " bytes");
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
    return {run.position.block, run.position.offset + (batch - run.firstBatch) * bytes_};
}

} // namespace nixl
