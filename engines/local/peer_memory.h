// Memory of a peer that is mapped here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "engines/local/protocol.h"
#include "util/mapped_region.h"
#include "util/mutex.h"
#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl::local {

/// One memory of a peer, mapped as long as the object lives, whatever becomes of the peer.
class PeerMapping {
public:
    PeerMapping(const LentPiece &piece, MappedRegion mapping) : piece_(piece), mapping_(std::move(mapping)) {}

    /// Where [address, address + length) of the peer lies here; nullptr: not all of it is in this memory.
    std::byte *
    find(std::uint64_t address, std::uint64_t length) const {
        const std::uint64_t from = address - piece_.address;
        if (address < piece_.address || from > piece_.length || length > piece_.length - from)
            return nullptr;
        return mapping_.data() + from;
    }

private:
    const LentPiece piece_;
    const MappedRegion mapping_;
};

/// What a channel has mapped, by the name that the peer gave. Each memory is asked for once and mapped once,
/// until the peer says that its last registration has ended. Thread-safe.
class PeerMemory {
public:
    using Clock = std::chrono::steady_clock;

    /// How things stand with a memory. The caller that gets `true` has to ask the peer for it.
    bool begin(std::uint64_t id, Clock::time_point deadline);

    /// Waits for the answer to the question, until the deadline given with it and for at most `patience`. An
    /// error says why the memory is not mapped.
    Result<std::shared_ptr<const PeerMapping>> await(std::uint64_t id, Clock::duration patience);

    // ---- On the loop of the channel alone ----

    /// An answer: checks and maps. What is not as it must be is kept as the reason, and is not mapped.
    /// NIXL_ERR_MISMATCH: nobody asked.
    Status answered(const LentPiece &piece, ScopedFd fd);

    /// The peer lends it no more.
    void ended(std::uint64_t id);

    /// The channel is broken: unmaps what no run uses, and refuses what comes.
    void close();

private:
    struct Entry {
        Clock::time_point deadline;
        std::shared_ptr<const PeerMapping> mapping;
        std::optional<Status> refused;

        bool
        open() const {
            return !mapping && !refused;
        }
    };

    Mutex mutex_;
    ConditionVariable changed_;
    std::unordered_map<std::uint64_t, Entry> entries_ NIXL_GUARDED_BY(mutex_);
    bool closed_ NIXL_GUARDED_BY(mutex_) = false;
};

} // namespace nixl::local
