#include "engines/ucx/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <type_traits>

#include "util/scoped_fd.h"

namespace nixl::ucx {

namespace {

constexpr std::size_t kLargestFile = std::size_t{256} << 20;
constexpr std::size_t kLongestVersion = 16;

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "unknown architecture"
#endif

Status
malformed(std::string_view what) {
    return Status::error(NIXL_ERR_INVALID_PARAM, "is no usable library: ", what);
}

/// A part of the bytes, nothing if it does not lie within them.
std::optional<std::string_view>
slice(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
    if (offset > bytes.size() || size > bytes.size() - offset)
        return std::nullopt;
    return bytes.substr(offset, size);
}

/// A record at any alignment. REQUIRES: it lies within the bytes.
template<typename Record>
Record
recordAt(std::string_view table, std::size_t index) {
    static_assert(std::is_trivially_copyable_v<Record>);
    Record record;
    std::memcpy(&record, table.data() + index * sizeof(Record), sizeof(Record));
    return record;
}

bool
hasOurFormat(const Elf64_Ehdr &header) {
    return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
           header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_DYN && header.e_machine == kMachine;
}

/// The text that begins at `offset`, nothing if it does not end within the table.
std::optional<std::string_view>
textAt(std::string_view table, std::size_t offset) {
    if (offset >= table.size())
        return std::nullopt;
    const std::size_t end = table.find('\0', offset);
    if (end == std::string_view::npos)
        return std::nullopt;
    return table.substr(offset, end - offset);
}

bool
isDigit(char c) {
    return c >= '0' && c <= '9';
}

/// The "1.22.0" that `constants` has right before `end`; empty if something else stands there.
std::string_view
versionBefore(std::string_view constants, std::size_t end) {
    std::size_t begin = end;
    std::size_t dots = 0;
    while (begin > 0 && end - begin <= kLongestVersion) {
        const char c = constants[begin - 1];
        if (!isDigit(c) && c != '.')
            break;
        dots += c == '.';
        --begin;
    }
    const std::string_view text = constants.substr(begin, end - begin);
    const bool good = dots == 2 && text.size() <= kLongestVersion && text.front() != '.' &&
                      text.back() != '.' && text.find("..") == std::string_view::npos;
    return good ? text : std::string_view();
}

} // namespace

Result<ElfFile>
ElfFile::parse(std::string_view bytes) {
    if (bytes.size() < sizeof(Elf64_Ehdr))
        return malformed("too short");
    const auto header = recordAt<Elf64_Ehdr>(bytes, 0);
    if (!hasOurFormat(header))
        return malformed("not a 64-bit shared library for this processor");
    if (header.e_shentsize != sizeof(Elf64_Shdr))
        return malformed("sections of unknown form");
    const auto sections = slice(bytes, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    if (!sections)
        return malformed("sections outside of the file");
    ElfFile out;
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        const auto section = recordAt<Elf64_Shdr>(*sections, i);
        const bool constant = section.sh_type == SHT_PROGBITS &&
                              (section.sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) == SHF_ALLOC;
        if (!constant && section.sh_type != SHT_DYNSYM)
            continue;
        const auto content = slice(bytes, section.sh_offset, section.sh_size);
        if (!content)
            return malformed("a section outside of the file");
        if (constant) {
            out.constants_.push_back(*content);
            continue;
        }
        if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_link >= header.e_shnum)
            return malformed("symbols of unknown form");
        const auto strings = recordAt<Elf64_Shdr>(*sections, section.sh_link);
        const auto names = slice(bytes, strings.sh_offset, strings.sh_size);
        if (!names)
            return malformed("names outside of the file");
        out.symbols_ = *content;
        out.names_ = *names;
    }
    if (out.symbols_.empty())
        return malformed("without symbols");
    return out;
}

std::string_view
ElfFile::firstMissing(std::span<const std::string_view> names) const {
    std::set<std::string_view> open(names.begin(), names.end());
    const std::size_t count = symbols_.size() / sizeof(Elf64_Sym);
    for (std::size_t i = 0; i < count && !open.empty(); ++i) {
        const auto symbol = recordAt<Elf64_Sym>(symbols_, i);
        if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
            continue;
        if (const auto name = textAt(names_, symbol.st_name))
            open.erase(*name);
    }
    for (const std::string_view name : names)
        if (open.count(name) != 0)
            return name;
    return {};
}

std::optional<std::string>
ElfFile::versionText() const {
    std::set<std::string_view> found;
    for (const std::string_view constants : constants_)
        for (std::size_t end = constants.find('\0'); end != std::string_view::npos;
             end = constants.find('\0', end + 1))
            if (const std::string_view text = versionBefore(constants, end); !text.empty())
                found.insert(text);
    if (found.size() != 1)
        return std::nullopt;
    return std::string(*found.begin());
}

Result<std::string>
readLibraryFile(const std::string &path) {
    const auto failed = [&] {
        return Status::error(NIXL_ERR_NOT_FOUND, "'", path, "' cannot be read: ", std::strerror(errno));
    };
    // Not blocking: the path may be a FIFO.
    const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info{};
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0)
        return failed();
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) > kLargestFile)
        return Status::error(NIXL_ERR_NOT_FOUND, "'", path, "' is no library");
    std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
    std::size_t size = 0;
    while (size < bytes.size()) {
        const ssize_t n = ::read(fd.get(), bytes.data() + size, bytes.size() - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed();
        if (n == 0)
            break;
        size += static_cast<std::size_t>(n);
    }
    bytes.resize(size);
    return bytes;
}

} // namespace nixl::ucx
