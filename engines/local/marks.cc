#include "engines/local/marks.h"

#include <thread>

namespace nixl::local {

namespace {

std::uint64_t
nextValue() {
    static std::atomic<std::uint64_t> counter{0};
    return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Where a thread starts to look: where it was lucky last.
thread_local std::size_t lastMark = nextValue();

} // namespace

MarkGuard::MarkGuard(MarkPage &page) {
    const std::uint64_t value = nextValue();
    for (;;) {
        for (std::size_t i = 0; i < page.marks.size(); ++i) {
            const std::size_t at = (lastMark + i) % page.marks.size();
            std::uint64_t idle = 0;
            if (page.marks[at].word.compare_exchange_strong(idle, value, std::memory_order_seq_cst)) {
                lastMark = at;
                mark_ = &page.marks[at];
                return;
            }
        }
        std::this_thread::yield();
    }
}

void
collectBusy(const MarkPage &page, std::vector<BusyMark> &busy) {
    for (const auto &mark : page.marks) {
        const std::uint64_t value = mark.word.load(std::memory_order_seq_cst);
        if (value != 0)
            busy.push_back({&mark, value});
    }
}

Result<SharedMarks>
SharedMarks::create() {
    auto memory = createSharedMemory("nixl-marks", sizeof(MarkPage));
    if (!memory.ok())
        return memory.status();
    return SharedMarks(std::move(memory).value());
}

Result<MarksView>
MarksView::map(int fd) {
    auto mapping = mapForeignMemory(fd, sizeof(MarkPage));
    if (!mapping.ok())
        return mapping.status();
    return MarksView(std::move(mapping).value());
}

} // namespace nixl::local
