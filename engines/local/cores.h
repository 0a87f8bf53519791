// How many cores this process may use.
#pragma once

#include <optional>
#include <string>

namespace nixl::local {

/// The cores that the calling thread may run on, or as many as the processor time that its control groups
/// grant would keep busy if that is less. At least 1.
unsigned usableCores();

/// The least that a control group grants, in whole cores and at least 1; nullopt: no limit is known. `groups`
/// is a file as /proc/self/cgroup; `tree` the folder where both versions of control groups are mounted. Files
/// that are absent, or hold something else, say nothing.
std::optional<unsigned> coresByQuota(const std::string &groups, const std::string &tree);

} // namespace nixl::local
