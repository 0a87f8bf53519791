// Where the log lines of UCX go.
#pragma once

#include <string>

#include "engines/ucx/api.h"
#include "util/options.h"

namespace nixl::ucx {

/// Whether UCX writes its log by itself, because a person has said how.
bool ucxLogsItself(const Environment &environment);

/// Takes the log lines of a loaded UCX from now on: its warnings and errors become INFO of our log, the rest
/// DEBUG. With `listenOnly` they go where they went before as well, and only takeUcxMessage profits. Once per
/// process; UCX calls back until the process ends.
void routeLog(const Api &api, bool listenOnly);

/// What UCX said last on this thread as a warning or error, and forgets it; empty if nothing.
std::string takeUcxMessage();

} // namespace nixl::ucx
