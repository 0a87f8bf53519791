// Names that begin with NIXL_ and are not in the table of options.
#pragma once

#include <string>
#include <string_view>

namespace nixl {

enum class SettingName {
    kUnknown,
    kElsewhere, ///< of a part or version of NIXL that this library does not contain
    kPython,    ///< read by the Python package
};

SettingName classifySetting(std::string_view name);

/// The option whose name is most like `name`, empty if none is much like it.
std::string_view similarOption(std::string_view name);

} // namespace nixl
