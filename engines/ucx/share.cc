#include "engines/ucx/share.h"

namespace nixl::ucx {

namespace {

/// A share of at most this many blocks is fed by the thread that posts it.
constexpr std::size_t kSmallShare = 32;

} // namespace

bool
Share::small() const {
    return blocks_.size() <= kSmallShare;
}

void
Share::start() {
    begun_ = stopped_ = moved_ = false;
    opening_ = 0;
    error_ = {};
    begin();
}

void
Share::begin() {
    const auto opening = connection_.open();
    if (!opening.ok() && connection_.judging())
        return;
    if (opening.ok())
        opening_ = opening.value();
    else
        error_ = opening.status();
    begun_ = true;
    reset();
}

void
Share::feed() {
    if (!begun_ && !stopped_)
        begin();
    if (begun_)
        goOn();
}

bool
Share::canPost() {
    if (connection_.stands(opening_))
        return true;
    error_ = connection_.failure();
    return false;
}

bool
Share::underWay(void *request) {
    if (UCS_PTR_IS_PTR(request))
        return true;
    --underWay_;
    if (const ucs_status_t status = UCS_PTR_STATUS(request); status != UCS_OK)
        fail(status, true);
    return false;
}

void
Share::fail(ucs_status_t status, bool posting) {
    Status error = connection_.report(opening_, status, posting);
    if (error_.ok())
        error_ = std::move(error);
}

void
Share::ended() {
    work_.onEnd();
}

} // namespace nixl::ucx
