// What arrives at an engine beside blocks: notifications of any peer; letters and pings of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string_view>
#include <unordered_map>

#include "engine/inbox.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/worker.h"

namespace nixl::ucx {

/// Serves one worker. Everything that arrives is a stranger's.
///
/// Letters of a link are taken in once each and in their order, however often and over whatever connections
/// they come: whoever sends them repeats what was not taken. Answers are posted from within the handler, the
/// only moment at which UCX vouches for the endpoint.
class Receiver {
public:
    /// Messages longer than `maxBytes` are refused. `onArrival` may be empty. All must outlive the worker.
    Receiver(ProgressWorker &worker, Inbox &inbox, std::uint64_t maxBytes, std::function<void()> onArrival)
        : worker_(worker), inbox_(inbox), maxBytes_(maxBytes), onArrival_(std::move(onArrival)) {}

    Status receive();

private:
    /// A link of a peer.
    struct Link {
        std::uint64_t id;
        std::uint64_t expected; ///< number of the next letter to take in
        bool refused;           ///< one was dropped since the last that was taken in, and its sender told
    };

    using Links = std::list<Link>;

    static ucs_status_t onNotification(void *receiver, const void *header, std::size_t headerLength,
                                       void *data, std::size_t length, const ucp_am_recv_param_t *param);
    static ucs_status_t onLetter(void *receiver, const void *header, std::size_t headerLength, void *data,
                                 std::size_t length, const ucp_am_recv_param_t *param);
    static ucs_status_t onPing(void *receiver, const void *header, std::size_t headerLength, void *data,
                               std::size_t length, const ucp_am_recv_param_t *param);

    /// An answer that UCX has not sent yet.
    struct Answering {
        Receiver *receiver;
        ucp_ep_h endpoint;
    };

    static void onAnswered(void *request, ucs_status_t status, void *answering);

    Link &linkOf(const LetterHeader &letter);
    bool takeIn(LetterKind kind, std::string_view payload);
    bool takeNotification(std::string_view payload);
    bool takeFailure(std::string_view payload);
    void answer(const ucp_am_recv_param_t &param, const Pong &pong);

    ProgressWorker &worker_;
    Inbox &inbox_;
    const std::uint64_t maxBytes_;
    const std::function<void()> onArrival_;
    // Under the worker's lock.
    Links links_; ///< the one that was heard of last is first
    std::unordered_map<std::uint64_t, Links::iterator> byId_;
    std::unordered_map<ucp_ep_h, std::size_t> answering_; ///< answers that an endpoint has not taken yet
    bool dropping_ = false;                               ///< of plain notifications, which was said
};

} // namespace nixl::ucx
