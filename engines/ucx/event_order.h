// The order in which UCX hears that a socket can be read and that it can be written.
#pragma once

#include "util/status.h"

namespace nixl::ucx {

/// UCX's TCP works on what comes over a socket first, then on what goes. With the first it may free the
/// endpoint to which both belong: if both sides have closed a connection, and this one has more to send, it
/// goes on with freed memory (1.22, uct_tcp_iface_handle_events). From here on it is told of the second
/// first, which frees nothing at once. To be called once in a process, with the loader's handle of libuct;
/// this library stays loaded as long as UCX. REQUIRES: no thread of this library runs in that UCX yet.
Status writeBeforeRead(void *libuct);

} // namespace nixl::ucx
