#include "engines/local/life_page.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nixl::local {

namespace {

constexpr std::size_t kPageBytes = 4096;

} // namespace

Result<std::unique_ptr<LifePage>>
LifePage::create() {
    auto memory = createSharedMemory("nixl-life", kPageBytes);
    if (!memory.ok())
        return memory.status();
    return std::unique_ptr<LifePage>(new LifePage(std::move(memory).value()));
}

LifePage::LifePage(SharedMemory memory) : memory_(std::move(memory)) {
    head_.list.next = &head_.list;
}

LifeWord &
LifePage::word() const {
    return *reinterpret_cast<LifeWord *>(memory_.mapping.data());
}

Status
LifePage::adopt() {
    word().store(static_cast<std::uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
    head_.futex_offset = reinterpret_cast<char *>(memory_.mapping.data()) - reinterpret_cast<char *>(&node_);
    head_.list_op_pending = nullptr;
    node_.next = &head_.list;
    head_.list.next = &node_;
    if (syscall(SYS_set_robust_list, &head_, sizeof head_) != 0)
        return Status::error(NIXL_ERR_BACKEND, "the kernel keeps no robust futexes: ", strerror(errno));
    return {};
}

void
LifePage::end() {
    word().store(0, std::memory_order_release);
    head_.list.next = &head_.list;
}

Result<LifeView>
LifeView::map(int fd) {
    auto mapping = mapForeignMemory(fd, kPageBytes);
    if (!mapping.ok())
        return mapping.status();
    LifeView view(std::move(mapping).value(), 0);
    view.owner_ = view.word().load(std::memory_order_acquire);
    if (view.owner_ == 0 || (view.owner_ & FUTEX_OWNER_DIED) != 0)
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "the process has ended");
    return view;
}

} // namespace nixl::local
