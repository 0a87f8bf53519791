// What a shared library says about itself, read from its file without loading it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "util/status.h"

namespace nixl::ucx {

/// A 64-bit shared library of this machine's architecture. Holds views into the bytes it was made from.
class ElfFile {
public:
    /// NIXL_ERR_INVALID_PARAM: no such library, or one whose tables do not lie within it. Any bytes may be
    /// given.
    static Result<ElfFile> parse(std::string_view bytes);

    /// Of these names the first that the library does not define for others; empty if it defines all.
    std::string_view firstMissing(std::span<const std::string_view> names) const;

    /// The text "1.22.0" among its constants, if there is exactly one of that kind.
    std::optional<std::string> versionText() const;

private:
    ElfFile() = default;

    std::string_view symbols_;
    std::string_view names_;
    std::vector<std::string_view> constants_;
};

/// A file's bytes. NIXL_ERR_NOT_FOUND: it cannot be read, is not regular, or is larger than any library.
Result<std::string> readLibraryFile(const std::string &path);

} // namespace nixl::ucx
