#include "agent/edge.h"

namespace nixl {

namespace {

thread_local std::string last_error;

} // namespace

void
setLastError(std::string message) {
    last_error = std::move(message);
}

const std::string &
lastError() {
    return last_error;
}

} // namespace nixl
