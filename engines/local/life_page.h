// Whether a process still runs the program it ran, told in shared memory by the kernel itself.
//
// The control thread owns a word of a shared page as a robust futex. When that thread ends (the process
// exits, is killed, or executes another program, which ends all other threads first), the kernel marks the
// word before the memory of the process goes away. So peers learn it from one load, without a system call,
// and no recycled pid, no exec and no forked child, which inherits neither thread nor robust list, can look
// like the old process.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "util/mapped_region.h"
#include "util/status.h"

namespace nixl::local {

using LifeWord = std::atomic<std::uint32_t>;
static_assert(LifeWord::is_always_lock_free);

/// A process's own page.
class LifePage {
public:
    static Result<std::unique_ptr<LifePage>> create();

    /// Binds the page to the calling thread, which from now on owns no other robust mutex.
    Status adopt();

    /// Says that the process is not to be reached any more. On the thread that called adopt(), before it
    /// ends.
    void end();

    int
    fd() const {
        return memory_.fd.get();
    }

private:
    explicit LifePage(SharedMemory memory);

    LifeWord &word() const;

    const SharedMemory memory_;
    robust_list_head head_{}; // read by the kernel when the thread ends
    robust_list node_{};
};

/// A peer's page.
class LifeView {
public:
    LifeView() = default;

    /// NIXL_ERR_MISMATCH: not such a page; NIXL_ERR_REMOTE_DISCONNECT: the process is already gone.
    static Result<LifeView> map(int fd);

    bool
    alive() const {
        return word().load(std::memory_order_acquire) == owner_;
    }

    /// Whether the process ended or executed another program, rather than letting go of its last agent.
    bool
    died() const {
        return (word().load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
    }

private:
    LifeView(MappedRegion mapping, std::uint32_t owner) : mapping_(std::move(mapping)), owner_(owner) {}

    const LifeWord &
    word() const {
        return *reinterpret_cast<const LifeWord *>(mapping_.data());
    }

    MappedRegion mapping_;
    std::uint32_t owner_ = 0;
};

} // namespace nixl::local
