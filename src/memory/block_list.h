// The blocks of a prepared list, each resolved to the region that holds it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "memory/large_allocator.h"
#include "nixl_descriptors.h"

namespace nixl {

/// An array that is written once from end to end, and may be long.
template<typename T> using LongArray = std::vector<T, LargeAllocator<T>>;

/// One block of a list.
struct ListBlock {
    std::uint64_t address;
    std::uint64_t length;
    std::uint32_t region; ///< index into a table that the owner of the list keeps
};

/// Blocks in the order of a list, numbered from 0. Runs of equal blocks at equal distances in one region are
/// kept as one row, so that a strided list of millions of blocks is as small as its description; a list
/// without runs is an array of its blocks.
class BlockList {
public:
    /// True if `count` more blocks can be numbered.
    bool
    hasRoomFor(std::uint64_t count) const {
        return count <= std::numeric_limits<std::uint64_t>::max() - size_;
    }

    /// Makes room for `count` blocks in all if the list has single blocks only.
    void
    expectBlocks(std::size_t count) {
        if (rows_.empty() && blocks_.capacity() < count)
            blocks_.reserve(count);
    }

    /// Appends one block. REQUIRES: hasRoomFor(1).
    void
    append(std::uint64_t address, std::uint64_t length, std::uint32_t region) {
        if (!rows_.empty())
            return append(address, length, length, 1, region);
        blocks_.emplace_back(address, length, region);
        ++size_;
    }

    /// Appends `count` blocks of `length` bytes, `stride` apart, all in `region`. REQUIRES: count > 0,
    /// hasRoomFor(count).
    void append(std::uint64_t address, std::uint64_t length, std::uint64_t stride, std::uint64_t count,
                std::uint32_t region);

    std::uint64_t
    size() const {
        return size_;
    }

    /// Number of rows that describe the list.
    std::size_t
    rowCount() const {
        return rows_.empty() ? blocks_.size() : rows_.size();
    }

    /// The blocks by number if they are kept one by one; nullptr: they are in rows, or there are none.
    const ListBlock *
    singles() const {
        return rows_.empty() && !blocks_.empty() ? blocks_.data() : nullptr;
    }

    /// Equal blocks at equal distances.
    struct Stride {
        ListBlock first;
        std::uint64_t distance;
    };

    /// All blocks, if they are one row.
    std::optional<Stride>
    onlyRow() const {
        if (rows_.size() != 1)
            return std::nullopt;
        const Row &row = rows_.front();
        return Stride{{row.address, row.length, row.region}, row.stride};
    }

    /// Walks over blocks by number; cheap for numbers that follow each other and where all rows are single
    /// blocks. The list does not change meanwhile.
    class Cursor {
    public:
        explicit Cursor(const BlockList &list)
            : list_(&list), blocks_(list.rows_.empty() ? list.blocks_.data() : nullptr) {}

        /// REQUIRES: number < size() of the list.
        ListBlock
        at(std::uint64_t number) {
            if (!blocks_)
                return inRows(number);
            const ListBlock &block = blocks_[number];
            return {block.address, block.length, block.region};
        }

    private:
        ListBlock
        inRows(std::uint64_t number) {
            if (!list_->contains(row_, number))
                row_ = list_->contains(row_ + 1, number) ? row_ + 1 : list_->rowOf(number);
            const Row &row = list_->rows_[row_];
            return {row.address + (number - row.first) * row.stride, row.length, row.region};
        }

        const BlockList *list_;
        const ListBlock *blocks_; ///< nullptr: the list has rows
        std::size_t row_ = 0;
    };

private:
    friend class Cursor;

    struct Row {
        std::uint64_t first; // number of its first block
        std::uint64_t address, length, stride;
        std::uint32_t region;
    };

    bool
    contains(std::size_t row, std::uint64_t number) const {
        return row < rows_.size() && rows_[row].first <= number &&
               number < (row + 1 < rows_.size() ? rows_[row + 1].first : size_);
    }

    std::size_t rowOf(std::uint64_t number) const;
    void turnIntoRows();

    // One of them is empty: the blocks themselves until there is a run, then rows.
    LongArray<ListBlock> blocks_;
    LongArray<Row> rows_;
    std::uint64_t size_ = 0;
};

/// Number of blocks, from `start` on, that have the length of the first and follow each other at one distance
/// of at least that length, on one device.
std::size_t runLength(std::span<const nixlBasicDesc> descs, std::size_t start);

/// Runs shorter than this are kept block by block: they save little and cost the direct access by number.
inline constexpr std::size_t kShortestRun = 8;

/// False if runLength() would be less than kShortestRun; most starts of no run are told by one comparison.
inline bool
mayBeginRun(std::span<const nixlBasicDesc> descs, std::size_t start) {
    if (descs.size() - start < kShortestRun)
        return false;
    const nixlBasicDesc *at = descs.data() + start;
    constexpr std::size_t kLast = kShortestRun - 1;
    return at[kLast].addr - at[0].addr == kLast * (at[1].addr - at[0].addr) && at[kLast].len == at[0].len;
}

/// What a lookup of a block found: the region's number in the owner's table, and its range.
struct Covering {
    std::uint32_t region;
    nixlBasicDesc range;
};

/// Appends `count` blocks like `first`, `stride` apart, each resolved by `cover(block) -> const Covering *`.
/// Returns how many were covered; fewer than `count` means that the next one is not.
/// REQUIRES: first.len > 0, stride >= first.len if count > 1, no address wraps, list.hasRoomFor(count).
template<typename Cover>
std::uint64_t
appendRun(BlockList &list, const nixlBasicDesc &first, std::uint64_t stride, std::uint64_t count,
          Cover &cover) {
    std::uint64_t done = 0;
    while (done < count) {
        const nixlBasicDesc block(first.addr + done * stride, first.len, first.devId);
        const Covering *hit = cover(block);
        if (!hit)
            break;
        const std::uint64_t offset = block.addr - hit->range.addr;
        const std::uint64_t room =
            hit->range.len - offset - block.len; // bytes of the region behind the block
        const std::uint64_t fitting = count - done == 1 ? 1 : std::min(count - done, room / stride + 1);
        list.append(block.addr, block.len, stride, fitting, hit->region);
        done += fitting;
    }
    return done;
}

} // namespace nixl
