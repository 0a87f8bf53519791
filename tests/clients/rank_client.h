// A client as rank-based programs such as nvFuser have it: one agent per rank with one UCX engine and no
// progress thread, metadata exchanged over a key-value store, tensors written and read by ranges. On nixl.h
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "nixl.h"

namespace nixl::test {

/// What a job of several ranks has beside NIXL.
class Store {
public:
    virtual ~Store() = default;

    virtual void set(const std::string &key, const std::string &value) = 0;

    /// Waits until somebody has set it.
    virtual std::string get(const std::string &key) = 0;

    virtual void remove(const std::string &key) = 0;

    /// Waits until every rank is here. `meanwhile` is called again and again.
    virtual void barrier(const std::function<void()> &meanwhile) = 0;
};

struct Tensor {
    std::uintptr_t addr = 0;
    std::size_t size = 0;
    std::uint32_t device = 0;
};

class RankClient {
public:
    enum class Status {
        kDone,
        kInProgress,
        kError,
    };

    /// A transfer that can be posted many times; releases its request.
    class Handle {
    public:
        Handle() = default;

        Handle(nixlAgent *agent, nixlXferReqH *request) : agent_(agent), request_(request) {}

        Handle(Handle &&other) noexcept;
        Handle &operator=(Handle &&other) noexcept;
        ~Handle();

        bool
        valid() const {
            return request_ != nullptr;
        }

    private:
        friend class RankClient;
        nixlAgent *agent_ = nullptr;
        nixlXferReqH *request_ = nullptr;
        bool posted_ = false;
    };

    /// `memory` is the kind of the tensors. Registers a probe of it and prepares a list of that: a client for
    /// which this fails is unavailable. Throws if the agent or its engine cannot be made.
    RankClient(int rank, int ranks, nixl_mem_t memory);

    bool
    available() const {
        return available_;
    }

    // Every other call throws std::runtime_error with the reason if it fails, and on an unavailable client.

    void registerTensors(const std::vector<Tensor> &tensors);

    void deregisterTensors(const std::vector<Tensor> &tensors);

    /// Everybody learns about everybody.
    void exchangeMetadata(Store &store);

    Handle prepareTransfer(const std::vector<Tensor> &local, const std::vector<Tensor> &remote, int rank,
                           nixl_xfer_op_t op);

    void post(Handle &handle);

    Status status(const Handle &handle) const;

    /// Spins until it is done; the handle can be posted again then.
    void wait(Handle &handle);

    /// Lets peers make progress here: without a thread that happens inside of calls only.
    void progress();

private:
    bool probe();

    void requireAvailable() const;

    nixl_reg_dlist_t regions(const std::vector<Tensor> &tensors) const;

    nixl_xfer_dlist_t blocks(const std::vector<Tensor> &tensors) const;

    const int rank_;
    const int ranks_;
    const nixl_mem_t memory_;
    std::unique_ptr<nixlAgent> agent_;
    nixlBackendH *backend_ = nullptr;
    bool available_ = false;
    bool exchanged_ = false;
};

} // namespace nixl::test
