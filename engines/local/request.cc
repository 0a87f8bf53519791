#include "engines/local/request.h"

namespace nixl::local {

Status
checkMessageSize(std::size_t bytes, const Settings &settings) {
    if (bytes <= settings.notifMaxBytes)
        return {};
    return Status::error(NIXL_ERR_INVALID_PARAM, "a notification of ", bytes, " bytes; at most ",
                         settings.notifMaxBytes, " are sent");
}

LocalRequest::LocalRequest(HostProcess &process, std::shared_ptr<Endpoint> self, const Settings &settings,
                           const TransferSpec &spec, BatchPlan plan, LocalPeer *peer, Reach reach)
    : process_(process), self_(std::move(self)), settings_(settings), peer_(peer),
      path_(std::move(reach.path)), transfer_(std::make_shared<Transfer>(
                                        process, self_, spec, std::move(plan), std::move(reach.mappings))) {}

LocalRequest::~LocalRequest() {
    if (guard_.inherited())
        new std::shared_ptr<Transfer>(
            std::move(transfer_)); // a thread of the parent may have been at work on it
}

Progress
LocalRequest::post(const std::optional<std::string> &notification) {
    if (const Status begun = begin(notification); !begun.ok()) {
        if (!guard_.inherited())
            transfer_->fail(begun);
        return Progress::failed(begun);
    }
    if (transfer_->small() || !process_.pool().add(transfer_)) {
        while (const auto claimed = transfer_->claim())
            transfer_->run(claimed->batch);
    }
    return transfer_->posted();
}

Status
LocalRequest::begin(const std::optional<std::string> &notification) {
    if (guard_.inherited())
        return Status::error(NIXL_ERR_NOT_ALLOWED,
                             "this process is a forked child; the request is its parent's");
    if (notification)
        NIXL_RETURN_IF_ERROR(checkMessageSize(notification->size(), settings_));
    Lane lane{self_, nullptr};
    if (peer_ != nullptr) {
        auto found = peer_->lane();
        if (!found.ok())
            return found.status();
        lane = std::move(found).value();
    }
    transfer_->start(lane, notification);
    return {};
}

Progress
LocalRequest::check() {
    if (guard_.inherited())
        return {NIXL_ERR_NOT_ALLOWED, "this process is a forked child; the request is its parent's"};
    return transfer_->progress();
}

std::shared_ptr<EngineWork>
LocalRequest::work() {
    return guard_.inherited() || !transfer_->wantsHelp() ? nullptr : transfer_;
}

bool
LocalRequest::cancel(std::chrono::milliseconds patience) {
    return guard_.inherited() || transfer_->cancel(patience);
}

} // namespace nixl::local
