// Messages from one agent of this process to another.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "engines/local/endpoint.h"
#include "util/status.h"

namespace nixl::local {

/// Hands a message to an engine of this process. Waits, at most `patience`, while its inbox is full, with no
/// lock held. NIXL_ERR_NOT_ALLOWED: it was full for so long; NIXL_ERR_REMOTE_DISCONNECT: the engine has
/// ended.
Status deliverWithin(const Endpoint &from, Endpoint &to, std::string message,
                     std::chrono::milliseconds patience);

/// Without waiting: as Anteroom::enter(). The program of the receiver is woken.
std::optional<Status> deliverThen(const Endpoint &from, Endpoint &to, std::string message, const void *who,
                                  Anteroom::Entered entered);

} // namespace nixl::local
