#include "memory/block_list.h"

namespace nixl {

void
BlockList::append(std::uint64_t address, std::uint64_t length, std::uint64_t stride, std::uint64_t count,
                  std::uint32_t region) {
    if (count == 1 && rows_.empty())
        return append(address, length, region);
    if (rows_.empty())
        turnIntoRows();
    rows_.push_back({size_, address, length, stride, region});
    size_ += count;
}

void
BlockList::turnIntoRows() {
    rows_.reserve(blocks_.size() + 1);
    for (const ListBlock &block : blocks_)
        rows_.push_back({rows_.size(), block.address, block.length, block.length, block.region});
    blocks_ = {};
}

std::size_t
BlockList::rowOf(std::uint64_t number) const {
    const auto after = std::upper_bound(rows_.begin(), rows_.end(), number,
                                        [](std::uint64_t n, const Row &row) { return n < row.first; });
    return static_cast<std::size_t>(after - rows_.begin()) - 1;
}

std::size_t
runLength(std::span<const nixlBasicDesc> descs, std::size_t start) {
    const nixlBasicDesc &first = descs[start];
    if (start + 1 == descs.size() || descs[start + 1].addr <= first.addr)
        return 1;
    const std::uint64_t stride = descs[start + 1].addr - first.addr;
    if (stride < first.len)
        return 1;
    std::size_t count = 1;
    for (std::size_t i = start + 1; i < descs.size(); ++i, ++count) {
        const nixlBasicDesc &desc = descs[i];
        const nixlBasicDesc &previous = descs[i - 1];
        if (desc.len != first.len || desc.devId != first.devId || desc.addr <= previous.addr ||
            desc.addr - previous.addr != stride)
            break;
    }
    return count;
}

} // namespace nixl
