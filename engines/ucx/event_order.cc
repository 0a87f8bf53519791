#include "engines/ucx/event_order.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <ucs/sys/event_set.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace nixl::ucx {

namespace {

constexpr const char *kWait = "ucs_event_set_wait";
constexpr ucs_event_set_types_t kRead = UCS_EVENT_SET_EVREAD;
constexpr ucs_event_set_types_t kWrite = UCS_EVENT_SET_EVWRITE;

#ifdef __aarch64__
constexpr unsigned kCallSlot = R_AARCH64_JUMP_SLOT;
constexpr unsigned kDataSlot = R_AARCH64_GLOB_DAT;
#else
constexpr unsigned kCallSlot = R_X86_64_JUMP_SLOT;
constexpr unsigned kDataSlot = R_X86_64_GLOB_DAT;
#endif

decltype(&ucs_event_set_wait) wait = nullptr;

struct Waiting {
    ucs_event_set_handler_t handler;
    void *argument;
};

void
handle(void *data, ucs_event_set_types_t events, void *waiting) {
    const auto &to = *static_cast<const Waiting *>(waiting);
    if ((events & kRead) != 0 && (events & kWrite) != 0) {
        to.handler(data, kWrite, to.argument);
        events = static_cast<ucs_event_set_types_t>(events & ~kWrite);
    }
    to.handler(data, events, to.argument);
}

ucs_status_t
waitInOrder(ucs_sys_event_set_t *set, unsigned *count, int timeoutMs, ucs_event_set_handler_t handler,
            void *argument) {
    Waiting waiting{handler, argument};
    return wait(set, count, timeoutMs, handle, &waiting);
}

/// What the loader keeps of a library, in which it has made pointers absolute, on most systems.
class Loaded {
public:
    explicit Loaded(const link_map &map) : base_(map.l_addr) {
        for (const ElfW(Dyn) *entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
            switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols_ = at<ElfW(Sym)>(entry->d_un.d_ptr);
                break;
            case DT_STRTAB:
                names_ = at<char>(entry->d_un.d_ptr);
                break;
            case DT_JMPREL:
                calls_ = at<ElfW(Rela)>(entry->d_un.d_ptr);
                break;
            case DT_PLTRELSZ:
                callBytes_ = entry->d_un.d_val;
                break;
            case DT_RELA:
                data_ = at<ElfW(Rela)>(entry->d_un.d_ptr);
                break;
            case DT_RELASZ:
                dataBytes_ = entry->d_un.d_val;
                break;
            default:
                break;
            }
        }
    }

    /// The pointer through which it calls a function of another library; nullptr if there is none.
    void **
    slotOf(std::string_view function) const {
        if (symbols_ == nullptr || names_ == nullptr)
            return nullptr;
        void **slot = find(calls_, callBytes_, kCallSlot, function);
        return slot != nullptr ? slot : find(data_, dataBytes_, kDataSlot, function);
    }

private:
    template<typename T>
    const T *
    at(ElfW(Addr) address) const {
        return reinterpret_cast<const T *>(address < base_ ? base_ + address : address);
    }

    void **
    find(const ElfW(Rela) * table, std::size_t bytes, unsigned type, std::string_view function) const {
        for (std::size_t i = 0; table != nullptr && i < bytes / sizeof *table; ++i) {
            if (ELF64_R_TYPE(table[i].r_info) == type &&
                names_ + symbols_[ELF64_R_SYM(table[i].r_info)].st_name == function)
                return reinterpret_cast<void **>(base_ + table[i].r_offset);
        }
        return nullptr;
    }

    const ElfW(Addr) base_;
    const ElfW(Sym) *symbols_ = nullptr;
    const char *names_ = nullptr;
    const ElfW(Rela) *calls_ = nullptr, *data_ = nullptr;
    std::size_t callBytes_ = 0, dataBytes_ = 0;
};

/// Whether the loader has made an address read-only after it had filled it in.
bool
readOnly(const void *address) {
    const auto look = [](dl_phdr_info *info, std::size_t, void *wanted) {
        const auto target = reinterpret_cast<ElfW(Addr)>(wanted);
        for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
            const auto &part = info->dlpi_phdr[i];
            const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
            if (part.p_type == PT_GNU_RELRO && target >= begin && target < begin + part.p_memsz)
                return 1;
        }
        return 0;
    };
    return ::dl_iterate_phdr(look, const_cast<void *>(address)) != 0;
}

Status
store(void **slot, void *value) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    auto *begin = reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(slot) & ~(page - 1));
    const bool locked = readOnly(slot);
    if (locked && ::mprotect(begin, page, PROT_READ | PROT_WRITE) != 0)
        return Status::error(NIXL_ERR_BACKEND, "mprotect: ", std::strerror(errno));
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (locked)
        (void)::mprotect(begin, page, PROT_READ);
    return {};
}

} // namespace

Status
writeBeforeRead(void *libuct) {
    if (wait != nullptr)
        return {};
    link_map *map = nullptr;
    if (::dlinfo(libuct, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr)
        return Status::error(NIXL_ERR_BACKEND, "the loader does not know libuct");
    void **slot = Loaded(*map).slotOf(kWait);
    // Not what the slot holds: that may be the loader's, which fills it in at the first call.
    wait = reinterpret_cast<decltype(wait)>(::dlsym(libuct, kWait));
    if (slot == nullptr || wait == nullptr)
        return Status::error(NIXL_ERR_BACKEND, "libuct does not call ", kWait);
    return store(slot, reinterpret_cast<void *>(waitInOrder));
}

} // namespace nixl::ucx
