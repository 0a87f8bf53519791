// The target's side of packed blocks: copies what messages bring into memory of ours, and sends what they
// ask for.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engines/ucx/block_message.h"
#include "engines/ucx/region_keys.h"
#include "engines/ucx/worker.h"

namespace nixl::ucx {

/// One per worker. Everything that arrives is a stranger's: keys and bounds are checked for every piece.
///
/// Answers are posted from within the handler, the only moment at which UCX vouches for the endpoint. What an
/// endpoint does not take waits in UCX; how much may, is bounded.
class BlockServer {
public:
    BlockServer(ProgressWorker &worker, const RegionKeys &keys) : worker_(worker), keys_(keys) {}

    /// Has requests that arrive at the worker served. The server must outlive the worker.
    Status receive();

private:
    /// An answer on its way to a peer.
    struct Sending {
        BlockServer *server;
        ucp_ep_h endpoint;
        std::vector<ucp_dt_iov_t> pieces;
        std::vector<std::shared_ptr<OpenMemory>> memory;
        char header[kAnswerBytes];
        std::list<Sending>::iterator self;
    };

    static ucs_status_t onPut(void *server, const void *header, std::size_t headerLength, void *data,
                              std::size_t length, const ucp_am_recv_param_t *param);
    static ucs_status_t onGet(void *server, const void *header, std::size_t headerLength, void *data,
                              std::size_t length, const ucp_am_recv_param_t *param);
    static void onSent(void *request, ucs_status_t status, void *sending);

    template<typename Answer>
    ucs_status_t serve(std::string_view header, const ucp_am_recv_param_t &param, Answer answer);
    std::optional<ReceivedRequest> accept(std::string_view header, const ucp_am_recv_param_t &param);
    BlockAnswer copyIn(const ReceivedRequest &request, std::string_view header, const char *bytes) const;
    BlockAnswer collect(const ReceivedRequest &request, std::string_view header, Sending &sending) const;
    Sending &newSending(ucp_ep_h endpoint);
    void send(unsigned id, const BlockAnswer &answer, Sending &sending);
    static void letGo(Sending &sending);
    void recycle(Sending &sending);

    ProgressWorker &worker_;
    const RegionKeys &keys_;
    // Under the worker's lock.
    std::list<Sending> sendings_; ///< on their way
    std::list<Sending> idle_;
    std::unordered_map<ucp_ep_h, std::size_t> waiting_; ///< answers that an endpoint has not taken yet
    bool dropping_ = false;                             ///< requests, which was said
};

} // namespace nixl::ucx
