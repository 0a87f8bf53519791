// The pointer through which a loaded library calls a function of another one.
#pragma once

#include "util/status.h"

namespace nixl::ucx {

/// Has `library`, a handle of the loader, call `to` where it calls `function`; what it called is to be asked
/// of the loader. NIXL_ERR_NOT_FOUND: it does not call it, or not through the loader. REQUIRES: `to` stays
/// loaded as long as the library; no other thread runs in it.
Status redirectCalls(void *library, const char *function, void *to);

} // namespace nixl::ucx
