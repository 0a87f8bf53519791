// Handles that cannot dangle: what a program holds is a number, looked up at every use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "util/mutex.h"

namespace nixl {

/// Owns objects and names each by a token that is never used twice in the process, so that a token of a
/// removed object, or of another table, finds nothing. Thread-safe. T is the class whose pointers the public
/// interface hands out; such a pointer carries the token and is never dereferenced.
template<typename T> class HandleTable {
public:
    T *
    add(std::shared_ptr<T> object) {
        const std::uint64_t token = nextToken();
        WriteLock lock(mutex_);
        objects_.emplace(token, std::move(object));
        return reinterpret_cast<T *>(static_cast<std::uintptr_t>(token));
    }

    /// nullptr if the handle names nothing in this table.
    std::shared_ptr<T>
    find(const T *handle) const {
        ReadLock lock(mutex_);
        const auto found = objects_.find(tokenOf(handle));
        return found == objects_.end() ? nullptr : found->second;
    }

    /// Removes and returns what the handle names, nullptr if that is nothing.
    std::shared_ptr<T>
    remove(const T *handle) {
        std::shared_ptr<T> object;
        WriteLock lock(mutex_);
        const auto found = objects_.find(tokenOf(handle));
        if (found != objects_.end()) {
            object = std::move(found->second);
            objects_.erase(found);
        }
        return object;
    }

    std::vector<std::shared_ptr<T>>
    all() const {
        std::vector<std::shared_ptr<T>> objects;
        ReadLock lock(mutex_);
        objects.reserve(objects_.size());
        for (const auto &[token, object] : objects_)
            objects.push_back(object);
        return objects;
    }

    /// Empties the table and returns what was in it.
    std::vector<std::shared_ptr<T>>
    clear() {
        std::vector<std::shared_ptr<T>> objects = all();
        WriteLock lock(mutex_);
        objects_.clear();
        return objects;
    }

private:
    static std::uint64_t
    nextToken() {
        static_assert(sizeof(std::uintptr_t) == sizeof(std::uint64_t));
        // Steps of 16 keep a token aligned like the pointer that it is handed out as.
        static std::atomic<std::uint64_t> next{16};
        return next.fetch_add(16, std::memory_order_relaxed);
    }

    static std::uint64_t
    tokenOf(const T *handle) {
        return reinterpret_cast<std::uintptr_t>(handle);
    }

    mutable SharedMutex mutex_;
    std::unordered_map<std::uint64_t, std::shared_ptr<T>> objects_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
