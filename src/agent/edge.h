// Where statuses leave the library: the code goes to the caller, the text to the log and to nixl_last_error().
#pragma once

#include <string>

#include "nixl_types.h"
#include "util/status.h"

namespace nixl {

/// Keeps `message` as this thread's last error.
void setLastError(std::string message);

/// This thread's last error, "" if there was none.
const std::string &lastError();

} // namespace nixl
