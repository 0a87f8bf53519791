// UCX libraries that this process had already, brought by other packages.
#pragma once

#include <string>
#include <vector>

namespace nixl::ucx {

struct ForeignUcx {
    /// Files that bear UCX's own names: the loader takes them for ours too, so there can be no second UCX of
    /// these names in the process.
    std::vector<std::string> sameName;
    /// Files under names of their own ("libucp-1a2b3c4d.so.0.0.0", as in wheels): they run beside ours.
    std::vector<std::string> otherName;
};

/// What is loaded now.
ForeignUcx findForeignUcx();

/// Sorts one loaded file in, by its path.
void classifyLoaded(const std::string &path, ForeignUcx &out);

/// Whether functions of a UCX are visible to every library of the process, and would be taken for ours.
bool ucxIsGlobal();

} // namespace nixl::ucx
