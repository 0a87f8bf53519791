// Busy marks: how whoever copies tells whoever ends a registration that it is copying.
//
// The copier sets a mark and then looks at the key of the region (region_table.h); the owner clears the key
// and then looks at the marks. Both sides use sequentially consistent accesses, so at least one of them sees
// the other: either the copier stays away, or the owner waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "util/mapped_region.h"
#include "util/status.h"

namespace nixl::local {

/// A page of marks, shared between processes or within one. 0 is idle; every use has a value of its own, so
/// that two uses one after the other are not taken for one that lasts.
struct MarkPage {
    struct alignas(64) Mark {
        std::atomic<std::uint64_t> word;
    };

    std::array<Mark, 64> marks;
};

static_assert(sizeof(MarkPage) == 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Holds a mark for its scope. Waits, giving way to other threads, while all marks of the page are taken.
class MarkGuard {
public:
    explicit MarkGuard(MarkPage &page);

    ~MarkGuard() {
        mark_->word.store(0, std::memory_order_release);
    }

    MarkGuard(const MarkGuard &) = delete;
    MarkGuard &operator=(const MarkGuard &) = delete;

private:
    MarkPage::Mark *mark_;
};

/// A mark that was seen busy.
struct BusyMark {
    const MarkPage::Mark *mark;
    std::uint64_t value;

    bool
    over() const {
        return mark->word.load(std::memory_order_acquire) != value;
    }
};

/// Appends the marks that are busy now.
void collectBusy(const MarkPage &page, std::vector<BusyMark> &busy);

/// Marks towards one peer, in memory that the peer reads.
class SharedMarks {
public:
    static Result<SharedMarks> create();

    MarkPage &
    page() const {
        return *reinterpret_cast<MarkPage *>(memory_.mapping.data());
    }

    int
    fd() const {
        return memory_.fd.get();
    }

private:
    explicit SharedMarks(SharedMemory memory) : memory_(std::move(memory)) {}

    SharedMemory memory_;
};

/// The marks of a peer towards us.
class MarksView {
public:
    MarksView() = default;

    /// NIXL_ERR_MISMATCH: not such a page.
    static Result<MarksView> map(int fd);

    const MarkPage &
    page() const {
        return *reinterpret_cast<const MarkPage *>(mapping_.data());
    }

private:
    explicit MarksView(MappedRegion mapping) : mapping_(std::move(mapping)) {}

    MappedRegion mapping_;
};

} // namespace nixl::local
