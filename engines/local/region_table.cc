#include "engines/local/region_table.h"

namespace nixl::local {

Result<RegionTable>
RegionTable::create() {
    auto memory = createSharedMemory("nixl-regions", sizeof(TableLayout));
    if (!memory.ok())
        return memory.status();
    RegionTable table(std::move(memory).value());
    table.layout().open.store(1, std::memory_order_seq_cst);
    return table;
}

Result<RegionKey>
RegionTable::add(MemoryRange memory) {
    RegionKey key;
    {
        const LockGuard lock(mutex_);
        key.key = keys_.next();
        if (!free_.empty()) {
            key.slot = free_.back();
            free_.pop_back();
        } else if (used_ + connections_ < TableLayout::kSlots) {
            key.slot = used_++;
        } else {
            return Status::error(NIXL_ERR_BACKEND, TableLayout::kSlots,
                                 " regions are registered; the table has no room for more");
        }
    }
    TableLayout::Slot &slot = layout().slots[key.slot];
    slot.address.store(memory.address, std::memory_order_relaxed);
    slot.length.store(memory.length, std::memory_order_relaxed);
    slot.sealed.store(memory.sealed, std::memory_order_relaxed);
    slot.key.store(key.key, std::memory_order_seq_cst);
    return key;
}

void
RegionTable::close(RegionKey key) {
    std::uint64_t expected = key.key;
    layout().slots[key.slot].key.compare_exchange_strong(expected, 0, std::memory_order_seq_cst);
}

void
RegionTable::recycle(RegionKey key) {
    const LockGuard lock(mutex_);
    free_.push_back(key.slot);
}

std::optional<std::uint32_t>
RegionTable::addConnection() {
    // Who had one looks at it once more after the end of its connection.
    constexpr std::size_t kResting = 1024;
    const LockGuard lock(mutex_);
    const bool room = used_ + connections_ < TableLayout::kSlots;
    std::uint32_t slot;
    if (freeConnections_.size() > (room ? kResting : 0)) {
        slot = freeConnections_.front();
        freeConnections_.pop_front();
    } else if (room) {
        slot = TableLayout::kSlots - ++connections_;
    } else {
        return std::nullopt;
    }
    layout().slots[slot].address.store(0, std::memory_order_relaxed);
    layout().slots[slot].length.store(0, std::memory_order_relaxed);
    return slot;
}

void
RegionTable::removeConnection(std::uint32_t slot) {
    const LockGuard lock(mutex_);
    freeConnections_.push_back(slot);
}

void
RegionTable::closeAll() {
    const LockGuard lock(mutex_);
    layout().open.store(0, std::memory_order_seq_cst);
    for (std::uint32_t slot = 0; slot < used_; ++slot)
        layout().slots[slot].key.store(0, std::memory_order_seq_cst);
}

Result<PeerTable>
PeerTable::map(int fd) {
    auto mapping = mapForeignMemory(fd, sizeof(TableLayout));
    if (!mapping.ok())
        return mapping.status();
    return PeerTable(std::move(mapping).value());
}

} // namespace nixl::local
