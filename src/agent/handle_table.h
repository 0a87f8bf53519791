// Handles that cannot dangle: what a program holds is a number, looked up at every use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// Owns objects and names each by a token that is never used twice in the process, so that a token of a removed
/// object, or of another table, finds nothing. Thread-safe. T is the class whose pointers the public interface hands
/// out; such a pointer carries the token and is never dereferenced.
template<typename T> class HandleTable {
public:
    T *
    add(std::shared_ptr<T> object) {
        static_assert(sizeof(std::uintptr_t) == 8);
        WriteLock lock(mutex_);
        std::size_t index = slots_.size();
        if (free_.empty()) {
            slots_.emplace_back();
        } else {
            index = free_.back();
            free_.pop_back();
        }
        const std::uint64_t token = (nextSerial() << kIndexBits) | index;
        slots_[index] = {token, std::move(object)};
        return asPointer(token);
    }

    /// nullptr if the handle names nothing in this table.
    std::shared_ptr<T>
    find(const T *handle) const {
        ReadLock lock(mutex_);
        const Slot *slot = slotOf(handle);
        return slot ? slot->object : nullptr;
    }

    std::shared_ptr<T>
    remove(const T *handle) {
        WriteLock lock(mutex_);
        Slot *slot = const_cast<Slot *>(slotOf(handle));
        if (!slot)
            return nullptr;
        free_.push_back(static_cast<std::size_t>(slot - slots_.data()));
        slot->token = 0;
        return std::move(slot->object);
    }

    std::vector<std::shared_ptr<T>>
    all() const {
        std::vector<std::shared_ptr<T>> objects;
        ReadLock lock(mutex_);
        for (const Slot &slot : slots_) {
            if (slot.object)
                objects.push_back(slot.object);
        }
        return objects;
    }

    /// Empties the table and returns what was in it.
    std::vector<std::shared_ptr<T>>
    clear() {
        std::vector<std::shared_ptr<T>> objects = all();
        WriteLock lock(mutex_);
        slots_.clear();
        free_.clear();
        return objects;
    }

private:
    static constexpr unsigned kIndexBits = 24;

    struct Slot {
        std::uint64_t token = 0;
        std::shared_ptr<T> object;
    };

    static std::uint64_t
    nextSerial() {
        static std::atomic<std::uint64_t> serial{1};
        return serial.fetch_add(1, std::memory_order_relaxed);
    }

    static T *
    asPointer(std::uint64_t token) {
        return reinterpret_cast<T *>(static_cast<std::uintptr_t>(token));
    }

    const Slot *
    slotOf(const T *handle) const NIXL_REQUIRES_SHARED(mutex_) {
        const auto token = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
        const std::size_t index = token & ((std::uint64_t{1} << kIndexBits) - 1);
        return token != 0 && index < slots_.size() && slots_[index].token == token ? &slots_[index] : nullptr;
    }

    mutable SharedMutex mutex_;
    std::vector<Slot> slots_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::size_t> free_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
