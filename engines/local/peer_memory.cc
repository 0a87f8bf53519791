#include "engines/local/peer_memory.h"

#include <algorithm>

namespace nixl::local {

bool
PeerMemory::begin(std::uint64_t id, Clock::time_point deadline) {
    const LockGuard lock(mutex_);
    if (closed_ || entries_.count(id) != 0)
        return false;
    Entry entry;
    entry.deadline = deadline;
    const bool room = entries_.size() < kMostLent;
    if (room)
        entries_.emplace(id, std::move(entry));
    return room;
}

Result<std::shared_ptr<const PeerMapping>>
PeerMemory::await(std::uint64_t id, Clock::duration patience) {
    const LockGuard lock(mutex_);
    for (;;) {
        const auto found = entries_.find(id);
        if (closed_ || found == entries_.end())
            return closed_ || entries_.size() < kMostLent
                       ? Status(NIXL_ERR_BACKEND, "the peer lends its memory no more")
                       : Status::error(NIXL_ERR_BACKEND, kMostLent,
                                       " memories of the peer are mapped already");
        const Entry &entry = found->second;
        if (entry.mapping)
            return entry.mapping;
        if (entry.refused)
            return *entry.refused;
        const auto left = std::min(entry.deadline - Clock::now(), patience);
        if (left <= Clock::duration::zero())
            return Status(NIXL_ERR_BACKEND, "the peer has not handed it over yet");
        changed_.waitFor(mutex_, left, [&]() NIXL_REQUIRES(mutex_) {
            const auto now = entries_.find(id);
            return closed_ || now == entries_.end() || !now->second.open();
        });
    }
}

Status
PeerMemory::answered(const LentPiece &piece, ScopedFd fd) {
    {
        const LockGuard lock(mutex_);
        const auto found = entries_.find(piece.id);
        if (found == entries_.end() || !found->second.open())
            return Status::error(NIXL_ERR_MISMATCH, "memory ", piece.id, " was not asked for");
    }
    if (piece.length == 0) { // it can be asked for again, should it be registered again
        ended(piece.id);
        return {};
    }
    auto mapped = mapForeignPiece(fd.get(), piece.offset, piece.length);
    {
        const LockGuard lock(mutex_);
        Entry &entry = entries_[piece.id]; // only the loop removes entries, and this is the loop
        if (mapped.ok())
            entry.mapping = std::make_shared<PeerMapping>(piece, std::move(mapped).value());
        else
            entry.refused = mapped.status();
    }
    changed_.notifyAll();
    return {};
}

void
PeerMemory::ended(std::uint64_t id) {
    std::shared_ptr<const PeerMapping> last; // unmapped without the lock
    {
        const LockGuard lock(mutex_);
        const auto found = entries_.find(id);
        if (found == entries_.end())
            return;
        last = std::move(found->second.mapping);
        entries_.erase(found);
    }
    changed_.notifyAll();
}

void
PeerMemory::close() {
    std::unordered_map<std::uint64_t, Entry> all;
    {
        const LockGuard lock(mutex_);
        closed_ = true;
        all.swap(entries_);
    }
    changed_.notifyAll();
}

} // namespace nixl::local
