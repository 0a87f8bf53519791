// Runs plugins that were written for NIXL's south-bound interface (include/backend) as engines.
#pragma once

#include "engine/registry.h"

namespace nixl {

/// Takes libraries that export nixl_plugin_init. Those that were not compiled against our headers, or whose
/// description cannot be used, are refused with NIXL_ERR_NOT_FOUND and a text that says what to do; of them
/// no function runs.
ModuleAdapter southBoundAdapter();

} // namespace nixl
