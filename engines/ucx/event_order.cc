#include "engines/ucx/event_order.h"

#include <dlfcn.h>
#include <ucs/sys/event_set.h>

#include "engines/ucx/call_slot.h"

namespace nixl::ucx {

namespace {

constexpr const char *kWait = "ucs_event_set_wait";
constexpr ucs_event_set_types_t kRead = UCS_EVENT_SET_EVREAD;
constexpr ucs_event_set_types_t kWrite = UCS_EVENT_SET_EVWRITE;

decltype(&ucs_event_set_wait) waitOfUcx = nullptr;

struct Waiting {
    ucs_event_set_handler_t handler;
    void *argument;
};

void
handle(void *data, ucs_event_set_types_t events, void *waiting) {
    const auto &to = *static_cast<const Waiting *>(waiting);
    if ((events & kRead) != 0 && (events & kWrite) != 0) {
        to.handler(data, kWrite, to.argument);
        events = static_cast<ucs_event_set_types_t>(events & ~kWrite);
    }
    to.handler(data, events, to.argument);
}

ucs_status_t
waitInOrder(ucs_sys_event_set_t *set, unsigned *count, int timeoutMs, ucs_event_set_handler_t handler,
            void *argument) {
    Waiting waiting{handler, argument};
    return waitOfUcx(set, count, timeoutMs, handle, &waiting);
}

} // namespace

Status
writeBeforeRead(void *libuct) {
    // Not what libuct has: that may be the loader's, which looks for the function at the first call.
    waitOfUcx = reinterpret_cast<decltype(waitOfUcx)>(::dlsym(libuct, kWait));
    if (waitOfUcx == nullptr)
        return Status::error(NIXL_ERR_NOT_FOUND, "it has no ", kWait);
    return redirectCalls(libuct, kWait, reinterpret_cast<void *>(waitInOrder));
}

} // namespace nixl::ucx
