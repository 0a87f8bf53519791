#include "engines/local/batch_plan.h"

namespace nixl::local {

std::vector<BlockPosition>
planBatches(std::span<const Block> blocks) {
    std::vector<BlockPosition> starts{{0, 0}};
    std::uint64_t bytes = 0;
    std::size_t pieces = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        std::uint64_t offset = 0;
        if (pieces == kBatchPieces || bytes == kBatchBytes) {
            starts.push_back({i, 0});
            bytes = 0;
            pieces = 0;
        }
        while (blocks[i].length - offset > kBatchBytes - bytes) {
            offset += kBatchBytes - bytes;
            starts.push_back({i, offset});
            bytes = 0;
            pieces = 0;
        }
        bytes += blocks[i].length - offset;
        ++pieces;
    }
    starts.push_back({blocks.size(), 0});
    return starts;
}

} // namespace nixl::local
