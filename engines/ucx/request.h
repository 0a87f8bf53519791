// A request of the UCX engine.
#pragma once

#include <memory>

#include "engines/ucx/transfer.h"

namespace nixl::ucx {

class UcxRequest : public EngineRequest {
public:
    UcxRequest(std::shared_ptr<Transfer> transfer, std::uint64_t notifMaxBytes)
        : transfer_(std::move(transfer)), notifMaxBytes_(notifMaxBytes) {}

    Progress post(const std::optional<std::string> &notification) override;
    Progress check() override;
    bool cancel(std::chrono::milliseconds patience) override;
    void cutOff() override;

private:
    const std::shared_ptr<Transfer> transfer_;
    const std::uint64_t notifMaxBytes_;
};

/// NIXL_ERR_INVALID_PARAM for a notification that is longer than it may be.
Status checkMessageSize(std::size_t bytes, std::uint64_t most);

} // namespace nixl::ucx
