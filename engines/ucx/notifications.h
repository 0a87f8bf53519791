// Messages: those that arrived, and those on their way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engines/ucx/single_request.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// Active message by which notifications travel, as NIXL's.
inline constexpr unsigned kNotificationId = 0;

/// The payload of a notification: docs/wire-format.md, "UCX".
std::string encodeNotification(std::string_view sender, std::string_view message);

/// Untrusted bytes. NIXL_ERR_MISMATCH: not a notification, or one whose message is longer than `maxBytes`.
Result<Notification> decodeNotification(std::string_view payload, std::uint64_t maxBytes);

/// What arrived and was not taken yet. Thread-safe.
class Inbox {
public:
    /// `onArrival` may be empty. Messages longer than `maxBytes` are refused.
    Inbox(std::uint64_t maxBytes, std::function<void()> onArrival)
        : maxBytes_(maxBytes), onArrival_(std::move(onArrival)) {}

    /// Has the notifications that arrive at `worker` put in here, which must outlive it.
    Status receiveFrom(ProgressWorker &worker);

    void put(Notification notification);
    void take(std::vector<Notification> &out);

private:
    static ucs_status_t onMessage(void *inbox, const void *header, std::size_t headerLength, void *data,
                                  std::size_t length, const ucp_am_recv_param_t *param);

    const std::uint64_t maxBytes_;
    const std::function<void()> onArrival_;
    Mutex mutex_;
    std::vector<Notification> waiting_ NIXL_GUARDED_BY(mutex_);
};

/// A notification on its way.
class Message : public SingleRequest {
public:
    /// Sends `payload` on `connection`, opening it if need be; what is sent on one connection arrives in that
    /// order. Never fails: `sent` tells, perhaps before this returns; success once the bytes are UCX's to
    /// deliver.
    static void send(const std::shared_ptr<Connection> &connection, std::string payload, Done sent);

    void ended() override;

private:
    Message(std::shared_ptr<Connection> connection, std::string payload, Done sent);

    void *post(ucp_ep_h endpoint, ucp_request_param_t param) override;

    const std::string payload_;
};

} // namespace nixl::ucx
