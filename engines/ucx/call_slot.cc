#include "engines/ucx/call_slot.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace nixl::ucx {

namespace {

#ifdef __aarch64__
constexpr unsigned kCallSlot = R_AARCH64_JUMP_SLOT;
constexpr unsigned kDataSlot = R_AARCH64_GLOB_DAT;
#else
constexpr unsigned kCallSlot = R_X86_64_JUMP_SLOT;
constexpr unsigned kDataSlot = R_X86_64_GLOB_DAT;
#endif

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

    /// nullptr if there is none.
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

std::uintptr_t
pageOf(std::uintptr_t address) {
    return address & ~(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
}

/// Whether the loader has made the page of an address read-only after it had filled it in: of the part that
/// is to be so, the last page only if it is whole.
bool
readOnly(const void *address) {
    const auto look = [](dl_phdr_info *info, std::size_t, void *wanted) {
        const auto page = pageOf(reinterpret_cast<std::uintptr_t>(wanted));
        for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
            const auto &part = info->dlpi_phdr[i];
            const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
            if (part.p_type == PT_GNU_RELRO && page >= pageOf(begin) && page < pageOf(begin + part.p_memsz))
                return 1;
        }
        return 0;
    };
    return ::dl_iterate_phdr(look, const_cast<void *>(address)) != 0;
}

} // namespace

Status
redirectCalls(void *library, const char *function, void *to) {
    link_map *map = nullptr;
    if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr)
        return Status::error(NIXL_ERR_NOT_FOUND, "the loader does not know the library");
    void **slot = Loaded(*map).slotOf(function);
    if (slot == nullptr)
        return Status::error(NIXL_ERR_NOT_FOUND, "'", map->l_name, "' does not call ", function);
    auto *page = reinterpret_cast<void *>(pageOf(reinterpret_cast<std::uintptr_t>(slot)));
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const bool locked = readOnly(slot);
    if (locked && ::mprotect(page, size, PROT_READ | PROT_WRITE) != 0)
        return Status::error(NIXL_ERR_BACKEND, "mprotect: ", std::strerror(errno));
    __atomic_store_n(slot, to, __ATOMIC_RELEASE);
    if (locked)
        (void)::mprotect(page, size, PROT_READ);
    return {};
}

} // namespace nixl::ucx
