// A program that speaks to engines without being one.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engines/ucx/block_message.h"
#include "engines/ucx/library.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/settings.h"
#include "engines/ucx/worker.h"
#include "util/options.h"

namespace nixl::ucx {

using namespace std::chrono_literals;

inline const nixl_b_params_t kTcp{{"engine_config", "TLS=tcp,NET_DEVICES=lo"}};

/// A program that speaks UCX, without an engine.
class Stranger {
public:
    /// It may be asked for a sign of life at any time: `pings` says whether those are messages for the test.
    explicit Stranger(bool pings = false) {
        auto settings = parseSettings(kTcp);
        context_ = Context::create(Library::get(Options()).value(), settings.value()).value();
        worker_ = ProgressWorker::create(*context_, 0).value();
        for (const unsigned id : {unsigned{kPutBlocks}, unsigned{kBlocksPut}, unsigned{kGetBlocks},
                                  unsigned{kBlocksGot}, unsigned{kPong}})
            EXPECT_TRUE(worker_->receive(id, onMessage, this).ok());
        const ucp_am_recv_callback_t ignore = [](void *, const void *, std::size_t, void *, std::size_t,
                                                 const ucp_am_recv_param_t *) { return UCS_OK; };
        EXPECT_TRUE(worker_->receive(kPing, pings ? &onMessage : ignore, this).ok());
    }

    ~Stranger() {
        for (ucp_ep_h endpoint : endpoints_) {
            ucp_request_param_t param{};
            param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
            param.flags = UCP_EP_CLOSE_FLAG_FORCE;
            release(api().ep_close_nbx(endpoint, &param));
        }
    }

    struct Message {
        std::string header;
        std::string bytes;
        ucp_ep_h reply;
    };

    ucp_ep_h
    connect(std::string_view info) {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        const std::string address(unmarkAddress(info).address);
        params.address = reinterpret_cast<const ucp_address_t *>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        ucp_ep_h endpoint = nullptr;
        EXPECT_EQ(api().ep_create(worker_->handle(), &params, &endpoint), UCS_OK);
        endpoints_.push_back(endpoint);
        return endpoint;
    }

    /// Without waiting; the bytes are copied.
    void
    send(ucp_ep_h endpoint, unsigned id, const std::string &header, const std::string &bytes) {
        if (sent_.empty() || sent_.back() != bytes)
            sent_.push_back(bytes);
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER;
        release(api().am_send_nbx(endpoint, id, header.data(), header.size(), sent_.back().data(),
                                  sent_.back().size(), &param));
    }

    /// How many messages have arrived, until none comes for a while.
    std::size_t
    count() {
        std::size_t count = 0;
        for (auto last = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - last < 500ms;) {
            worker_->progress();
            if (!arrived_.empty())
                last = std::chrono::steady_clock::now();
            count += arrived_.size();
            arrived_.clear();
        }
        return count;
    }

    /// The next message that arrives; one without header after 10 s.
    Message
    next() {
        const auto limit = std::chrono::steady_clock::now() + 10s;
        while (arrived_.empty() && std::chrono::steady_clock::now() < limit)
            worker_->progress();
        if (arrived_.empty())
            return {"", "", nullptr};
        Message first = std::move(arrived_.front());
        arrived_.erase(arrived_.begin());
        return first;
    }

    std::string
    address() const {
        return worker_->address().value();
    }

    void
    progress() {
        worker_->progress();
    }

private:
    const Api &
    api() const {
        return worker_->api();
    }

    void
    release(void *request) {
        if (UCS_PTR_IS_PTR(request))
            api().request_free(request);
    }

    static ucs_status_t
    onMessage(void *self, const void *header, std::size_t headerLength, void *data, std::size_t length,
              const ucp_am_recv_param_t *param) {
        static_cast<Stranger *>(self)->arrived_.push_back(
            {{static_cast<const char *>(header), headerLength},
             {static_cast<const char *>(data), length},
             (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 ? param->reply_ep : nullptr});
        return UCS_OK;
    }

    std::unique_ptr<Context> context_;
    std::unique_ptr<ProgressWorker> worker_;
    std::vector<ucp_ep_h> endpoints_;
    std::list<std::string> sent_;
    std::vector<Message> arrived_;
};

} // namespace nixl::ucx
