// The keys at the top level of a TOML file.
#pragma once

#include <string>
#include <vector>

#include "util/options.h"

namespace nixl {

struct TomlEntry {
    std::string name;
    std::string text; ///< the value as it would stand in the environment
    std::string
        unusable; ///< instead of `text`: what the value is, if it is neither text, integer nor boolean
    unsigned line;
};

/// False in a build without the TOML library.
bool readsToml();

/// The entries in the order of their lines. NIXL_ERR_INVALID_PARAM with file, line and reason if it is no
/// TOML. In a build without the TOML library only an empty text is.
Result<std::vector<TomlEntry>> parseToml(const ConfigText &file);

} // namespace nixl
