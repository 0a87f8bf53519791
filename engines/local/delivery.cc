#include "engines/local/delivery.h"

#include <utility>

namespace nixl::local {

std::optional<Status>
deliverThen(const Endpoint &from, Endpoint &to, std::string message, const void *who,
            Anteroom::Entered entered) {
    if (!to.table.view().open())
        return to.ended();
    auto outcome = to.anteroom.enter(from.agent, std::move(message), who, std::move(entered));
    if (outcome && outcome->ok())
        to.signalActivity();
    return outcome;
}

Status
deliverWithin(const Endpoint &from, Endpoint &to, std::string message, std::chrono::milliseconds patience) {
    if (!to.table.view().open())
        return to.ended();
    const auto outcome = to.anteroom.enterWithin(from.agent, std::move(message), patience);
    if (!outcome)
        return Status::error(NIXL_ERR_NOT_ALLOWED, "agent '", to.agent,
                             "' does not read its notifications: its queue is full");
    if (outcome->ok())
        to.signalActivity();
    return *outcome;
}

} // namespace nixl::local
