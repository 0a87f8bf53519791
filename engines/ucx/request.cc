#include "engines/ucx/request.h"

namespace nixl::ucx {

Status
checkMessageSize(std::size_t bytes, std::uint64_t most) {
    if (bytes <= most)
        return {};
    return Status::error(NIXL_ERR_INVALID_PARAM, "a notification of ", bytes, " bytes; at most ", most,
                         " are sent (NIXL_NOTIF_MAX_BYTES)");
}

Progress
UcxRequest::post(const std::optional<std::string> &notification) {
    if (notification) {
        if (Status status = checkMessageSize(notification->size(), notifMaxBytes_); !status.ok())
            return Progress::failed(std::move(status));
    }
    return transfer_->start(notification);
}

/// Drives the workers also where threads do: the caller looks, so it need not wait for a thread to wake up.
Progress
UcxRequest::check() {
    Progress progress = transfer_->progress();
    if (progress.code != NIXL_IN_PROG)
        return progress;
    transfer_->drive();
    return transfer_->progress();
}

bool
UcxRequest::cancel(std::chrono::milliseconds patience) {
    return transfer_->cancel(patience);
}

void
UcxRequest::cutOff() {
    transfer_->cutOff();
}

} // namespace nixl::ucx
