#include "engines/ucx/single_request.h"

namespace nixl::ucx {

void
SingleRequest::start() {
    const auto opening = connection_->open();
    if (!opening.ok()) {
        outcome_ = opening.status();
        over_ = true;
        return;
    }
    opening_ = opening.value();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = onDone;
    param.user_data = this;
    void *request = post(connection_->endpoint(), param);
    if (UCS_PTR_IS_PTR(request))
        connection_->began();
    else
        conclude(UCS_PTR_STATUS(request), true);
}

void
SingleRequest::onDone(void *request, ucs_status_t status, void *argument) {
    auto *self = static_cast<SingleRequest *>(argument);
    self->connection_->ended(status == UCS_OK);
    self->conclude(status, false);
    self->connection_->worker().api().request_free(request);
}

void
SingleRequest::conclude(ucs_status_t status, bool posting) {
    over_ = true;
    if (status != UCS_OK)
        outcome_ = connection_->report(opening_, status, posting);
}

void
SingleRequest::ended() {
    if (done_)
        done_(outcome_);
    delete this;
}

} // namespace nixl::ucx
