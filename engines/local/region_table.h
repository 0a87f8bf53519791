// Which registrations of an engine are valid, in memory that its peers read before every batch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "util/mapped_region.h"
#include "util/mutex.h"
#include "util/random.h"
#include "util/status.h"

namespace nixl::local {

/// Names one registration. The key is random and new for each, so the name of an ended one never fits again.
struct RegionKey {
    std::uint32_t slot = 0;
    std::uint64_t key = 0;
};

/// The table's bytes. Sparse: a page exists once a slot in it was used.
struct TableLayout {
    static constexpr std::uint32_t kSlots = 1U << 20;

    /// The others are written before the key, and stay while somebody holds a mark that was set
    /// before the key was seen.
    ///
    /// A slot without a key may belong to a connection of a peer instead: `address` counts the messages that
    /// were taken in over it, and `length` is 1 while the inbox has no room for the next. It stays that
    /// connection's until the peer has closed it, and what it says stays for longer than the process lives.
    struct Slot {
        std::atomic<std::uint64_t> key; ///< 0: no registration
        std::atomic<std::uint64_t> address;
        std::atomic<std::uint64_t> length;
        std::atomic<std::uint64_t> sealed; ///< name of the memory it lies in, if peers can map that; else 0
    };

    std::atomic<std::uint64_t> open; ///< 1 while the engine lives
    std::array<std::uint64_t, 511> reserved;
    std::array<Slot, kSlots> slots;
};

/// The memory of a registration, as its owner has it; metadata that came another way may say otherwise.
struct MemoryRange {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t sealed = 0; ///< the memory it lies in, as its owner lends it (lent_memory.h); 0: not lent

    bool
    covers(std::uint64_t from, std::uint64_t bytes) const {
        return from >= address && from - address <= length && bytes <= length - (from - address);
    }
};

/// What reads a table, an own one or a peer's.
class TableView {
public:
    explicit TableView(const TableLayout *layout) : layout_(layout) {}

    /// False once the engine has ended.
    bool
    open() const {
        return layout_->open.load(std::memory_order_seq_cst) == 1;
    }

    /// The memory of a registration that is still valid, or nullopt. `key` may be anything.
    std::optional<MemoryRange>
    find(RegionKey key) const {
        if (key.slot >= TableLayout::kSlots || key.key == 0)
            return std::nullopt;
        const TableLayout::Slot &slot = layout_->slots[key.slot];
        if (slot.key.load(std::memory_order_seq_cst) != key.key)
            return std::nullopt;
        return MemoryRange{slot.address.load(std::memory_order_relaxed),
                           slot.length.load(std::memory_order_relaxed),
                           slot.sealed.load(std::memory_order_relaxed)};
    }

    /// Messages taken in over the connection that has this slot.
    std::uint64_t
    takenIn(std::uint32_t slot) const {
        return layout_->slots[slot].address.load(std::memory_order_acquire);
    }

    /// Whether that connection waits for room in the inbox.
    bool
    waitsForRoom(std::uint32_t slot) const {
        return layout_->slots[slot].length.load(std::memory_order_relaxed) != 0;
    }

private:
    const TableLayout *layout_;
};

/// An engine's own table. Thread-safe.
class RegionTable {
public:
    static Result<RegionTable> create();

    RegionTable(RegionTable &&other) noexcept : memory_(std::move(other.memory_)) {}

    /// Enters a registration. NIXL_ERR_BACKEND: the table is full.
    Result<RegionKey> add(MemoryRange memory);

    /// Makes a registration invalid; harmless if it is.
    void close(RegionKey key);

    /// Lets the slot be used again, once nobody works with the closed registration.
    void recycle(RegionKey key);

    /// A slot for a connection, with nothing counted; nullopt: the table is full.
    std::optional<std::uint32_t> addConnection();
    void removeConnection(std::uint32_t slot);

    /// A message was taken in over the connection. One thread at a time.
    void
    countMessage(std::uint32_t slot) {
        auto &count = layout().slots[slot].address;
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    void
    setWaitsForRoom(std::uint32_t slot, bool waits) {
        layout().slots[slot].length.store(waits ? 1 : 0, std::memory_order_relaxed);
    }

    /// Makes all registrations invalid, and the table itself.
    void closeAll();

    TableView
    view() const {
        return TableView(&layout());
    }

    int
    fd() const {
        return memory_.fd.get();
    }

private:
    explicit RegionTable(SharedMemory memory) : memory_(std::move(memory)) {}

    TableLayout &
    layout() const {
        return *reinterpret_cast<TableLayout *>(memory_.mapping.data());
    }

    SharedMemory memory_;
    Mutex mutex_;
    std::uint32_t used_ NIXL_GUARDED_BY(mutex_) = 0; // slots from here on were never used
    std::vector<std::uint32_t> free_ NIXL_GUARDED_BY(mutex_);
    /// Connections have slots from the end, so that counting does not slow down who reads registrations.
    std::uint32_t connections_ NIXL_GUARDED_BY(mutex_) = 0;
    std::deque<std::uint32_t> freeConnections_ NIXL_GUARDED_BY(mutex_);
    RandomKeys keys_ NIXL_GUARDED_BY(mutex_){SIZE_MAX}; // a forked child registers nothing in this table
};

/// A peer's table, mapped for reading.
class PeerTable {
public:
    /// NIXL_ERR_MISMATCH: not such a table.
    static Result<PeerTable> map(int fd);

    TableView
    view() const {
        return TableView(reinterpret_cast<const TableLayout *>(mapping_.data()));
    }

private:
    explicit PeerTable(MappedRegion mapping) : mapping_(std::move(mapping)) {}

    MappedRegion mapping_;
};

} // namespace nixl::local
