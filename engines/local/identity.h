// Who this process and its peers are, and words for why a peer cannot be reached.
#pragma once

#include <sys/types.h>

#include <string>

#include "engines/local/protocol.h"
#include "util/status.h"

namespace nixl::local {

/// About this process.
HostHints ownHints();

/// An error if the hints say that an attempt is without hope: another host.
Status checkHints(const HostHints &own, const HostHints &peer);

/// Why nobody listens on the socket of a peer. NIXL_ERR_REMOTE_DISCONNECT if it is gone, NIXL_ERR_BACKEND if
/// it may live where we do not see it.
Status explainNoListener(const HostHints &own, const HostHints &peer);

/// Why a process_vm call on a process failed with `error`. NIXL_ERR_REMOTE_DISCONNECT if the process is gone.
Status explainDenied(pid_t pid, int error);

/// Why a process does not answer: "it is stopped", or that it does not.
std::string explainSilence(pid_t pid);

} // namespace nixl::local
