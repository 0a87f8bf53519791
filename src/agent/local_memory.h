// The registrations of an agent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "agent/engine_slot.h"
#include "agent/region_entry.h"
#include "memory/covering_index.h"
#include "nixl_descriptors.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

using LocalEntryPtr = std::shared_ptr<LocalEntry>;

/// Registrations of one kind of memory in one engine, for a metadata blob.
struct LocalSection {
    EnginePtr engine;
    nixl_mem_t memory;
    std::vector<LocalEntryPtr> entries; ///< in the order of addresses; of equal ranges the oldest only
};

/// A range as it is registered and looked up: length 0 of files, objects and block devices means "unbounded".
nixlBasicDesc normalized(nixl_mem_t memory, const nixlBasicDesc &desc);

/// NIXL_ERR_INVALID_PARAM, naming the element, if a range is empty or wraps.
Status checkRanges(const nixl_reg_dlist_t &descs);

/// Sections per (kind of memory, engine). Thread-safe.
class LocalMemory {
public:
    /// A range with how many of its registrations a call means.
    struct CountedRange {
        nixlBasicDesc range;
        std::size_t count;
    };

    /// Registers all descriptors in one engine, or none.
    Status add(const EnginePtr &engine, const nixl_reg_dlist_t &descs);

    /// Ends one registration per descriptor in every engine of `groups` that has it; in each group, each
    /// descriptor must be in some engine. `quiesce` is called for an entry that posted requests use and ends
    /// those; its error stops the call.
    /// NIXL_ERR_NOT_FOUND: an entry is not registered, or another call is ending it; nothing was done. Other
    /// errors: what is left stays registered, closed to new transfers, until the call is repeated.
    /// REQUIRES: no engine is in two groups.
    Status remove(const std::vector<EngineList> &groups, const nixl_reg_dlist_t &descs,
                  const std::function<Status(const LocalEntryPtr &)> &quiesce);

    /// Ends every registration; the first error is returned, and all are tried.
    Status removeAll(const std::function<Status(const LocalEntryPtr &)> &quiesce);

    /// Engines that have memory of this kind, in the order in which they got it first.
    EngineList enginesWith(nixl_mem_t memory) const;

    /// Calls `visit(index)` with the registrations of a section while they cannot change; an empty index if
    /// there are none.
    template<typename Visitor>
    auto
    withSection(const EngineSlot *engine, nixl_mem_t memory, Visitor visit) const {
        static const CoveringIndex<LocalEntryPtr> kEmpty;
        ReadLock lock(mutex_);
        const Section *section = find(engine, memory);
        return visit(section ? section->index : kEmpty);
    }

    /// Grows with every change.
    std::uint64_t epoch() const;

    /// All registrations of engines that reach peers, with the epoch they belong to.
    std::pair<std::vector<LocalSection>, std::uint64_t> snapshot() const;

    /// The registrations of `descs` in the engines of `candidates` that have all of them.
    /// NIXL_ERR_NOT_FOUND, naming the element, if no engine has all.
    Result<std::pair<std::vector<LocalSection>, std::uint64_t>> snapshot(const EngineList &candidates,
                                                                         const nixl_reg_dlist_t &descs) const;

private:
    struct Section {
        EnginePtr engine;
        nixl_mem_t memory;
        CoveringIndex<LocalEntryPtr> index;
        std::vector<LocalEntryPtr> closing; ///< closed to transfers, not yet deregistered by the engine
    };

    const Section *find(const EngineSlot *engine, nixl_mem_t memory) const NIXL_REQUIRES_SHARED(mutex_);
    void take(Section &section, std::size_t closingBefore, const nixlBasicDesc &range, std::size_t count,
              std::vector<LocalEntryPtr> &out) NIXL_REQUIRES(mutex_);
    /// NIXL_ERR_NOT_FOUND if a range is in none of the sections as often as wanted.
    Status checkRegistered(const std::vector<Section *> &sections,
                           const std::vector<CountedRange> &ranges) const NIXL_REQUIRES_SHARED(mutex_);
    std::size_t countOf(const Section &section, const nixlBasicDesc &range) const
        NIXL_REQUIRES_SHARED(mutex_);
    Status finish(const std::vector<LocalEntryPtr> &entries,
                  const std::function<Status(const LocalEntryPtr &)> &quiesce);

    mutable SharedMutex mutex_;
    std::vector<std::unique_ptr<Section>> sections_ NIXL_GUARDED_BY(mutex_); // in order of creation
    std::uint64_t epoch_ NIXL_GUARDED_BY(mutex_) = 1;
};

} // namespace nixl
