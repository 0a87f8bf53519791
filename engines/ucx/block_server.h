// The target's side of packed blocks: copies what messages bring into memory of ours, and sends what they
// ask for.
#pragma once

#include <memory>
#include <vector>

#include "engines/ucx/block_message.h"
#include "engines/ucx/region_keys.h"
#include "engines/ucx/worker.h"

namespace nixl::ucx {

/// One per worker. Everything that arrives is a stranger's: keys and bounds are checked for every piece.
///
/// Answers are sent from within the handler, the only moment at which UCX vouches for the endpoint.
class BlockServer {
public:
    BlockServer(ProgressWorker &worker, const RegionKeys &keys) : worker_(worker), keys_(keys) {}

    /// Has requests that arrive at the worker served. The server must outlive the worker.
    Status receive();

private:
    /// Bytes of ours on their way to a peer.
    struct Sending {
        BlockServer *server;
        std::vector<ucp_dt_iov_t> pieces;
        std::vector<std::shared_ptr<OpenMemory>> memory;
        char header[kAnswerBytes];
    };

    static ucs_status_t onPut(void *server, const void *header, std::size_t headerLength, void *data,
                              std::size_t length, const ucp_am_recv_param_t *param);
    static ucs_status_t onGet(void *server, const void *header, std::size_t headerLength, void *data,
                              std::size_t length, const ucp_am_recv_param_t *param);
    static void onSent(void *request, ucs_status_t status, void *sending);

    BlockAnswer copyIn(const ReceivedRequest &request, std::string_view header, const char *bytes) const;
    BlockAnswer collect(const ReceivedRequest &request, std::string_view header, Sending &sending) const;
    void answer(ucp_ep_h endpoint, const BlockAnswer &answer) const;
    void send(ucp_ep_h endpoint, const BlockAnswer &answer, Sending &sending);
    Sending *idleSending();
    void recycle(Sending &sending);

    ProgressWorker &worker_;
    const RegionKeys &keys_;
    // Under the worker's lock.
    std::vector<std::unique_ptr<Sending>> sendings_;
    std::vector<Sending *> idle_;
};

} // namespace nixl::ucx
