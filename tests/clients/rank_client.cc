#include "rank_client.h"

#include <utility>

namespace nixl::test {
namespace {

[[noreturn]] void
fail(const std::string &what) {
    throw std::runtime_error(what);
}

void
check(nixl_status_t status, const std::string &what) {
    if (status != NIXL_SUCCESS)
        fail(what + ": " + nixlEnumStrings::statusStr(status));
}

std::string
agentName(int rank) {
    return "rank_" + std::to_string(rank);
}

std::string
metadataKey(int rank) {
    return "nixl_agent_md_rank_" + std::to_string(rank);
}

} // namespace

RankClient::Handle::Handle(Handle &&other) noexcept
    : agent_(other.agent_), request_(std::exchange(other.request_, nullptr)), posted_(other.posted_) {}

RankClient::Handle &
RankClient::Handle::operator=(Handle &&other) noexcept {
    std::swap(agent_, other.agent_);
    std::swap(request_, other.request_);
    std::swap(posted_, other.posted_);
    return *this;
}

RankClient::Handle::~Handle() {
    if (request_ != nullptr)
        agent_->releaseXferReq(request_);
}

RankClient::RankClient(int rank, int ranks, nixl_mem_t memory) : rank_(rank), ranks_(ranks), memory_(memory) {
    nixlAgentConfig config;
    config.useProgThread = false;
    agent_ = std::make_unique<nixlAgent>(agentName(rank), config);
    nixl_mem_list_t memories;
    nixl_b_params_t params;
    check(agent_->getPluginParams("UCX", memories, params), "parameters of UCX");
    check(agent_->createBackend("UCX", params, backend_), "creating UCX");
    available_ = probe();
}

// Some builds of UCX take device memory for host memory: only registering and preparing tells.
bool
RankClient::probe() {
    const auto byte = std::make_unique<char>();
    const std::vector<Tensor> tensors{{reinterpret_cast<std::uintptr_t>(byte.get()), 1, 0}};
    const nixl_reg_dlist_t descs = regions(tensors);
    if (agent_->registerMem(descs) != NIXL_SUCCESS)
        return false;
    nixlDlistH *list = nullptr;
    const nixl_status_t prepared = agent_->prepXferDlist(NIXL_INIT_AGENT, blocks(tensors), list);
    if (list != nullptr)
        agent_->releasedDlistH(list);
    agent_->deregisterMem(descs);
    return prepared == NIXL_SUCCESS;
}

void
RankClient::requireAvailable() const {
    if (!available_)
        fail("the client is not available: this UCX cannot reach memory of the kind " +
             nixlEnumStrings::memTypeStr(memory_));
}

nixl_reg_dlist_t
RankClient::regions(const std::vector<Tensor> &tensors) const {
    nixl_reg_dlist_t list(memory_);
    for (const Tensor &tensor : tensors)
        list.addDesc(nixlBlobDesc(tensor.addr, tensor.size, tensor.device, ""));
    return list;
}

nixl_xfer_dlist_t
RankClient::blocks(const std::vector<Tensor> &tensors) const {
    nixl_xfer_dlist_t list(memory_);
    for (const Tensor &tensor : tensors)
        list.addDesc(nixlBasicDesc(tensor.addr, tensor.size, tensor.device));
    return list;
}

void
RankClient::registerTensors(const std::vector<Tensor> &tensors) {
    requireAvailable();
    check(agent_->registerMem(regions(tensors)), "registering");
    exchanged_ = false;
}

void
RankClient::deregisterTensors(const std::vector<Tensor> &tensors) {
    requireAvailable();
    check(agent_->deregisterMem(regions(tensors)), "deregistering");
    exchanged_ = false;
}

void
RankClient::exchangeMetadata(Store &store) {
    requireAvailable();
    nixl_blob_t blob;
    check(agent_->getLocalMD(blob), "metadata of this rank");
    store.set(metadataKey(rank_), blob);
    for (int rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_)
            continue;
        std::string name;
        check(agent_->loadRemoteMD(store.get(metadataKey(rank)), name),
              "metadata of rank " + std::to_string(rank));
        if (name != agentName(rank))
            fail("metadata of rank " + std::to_string(rank) + " is that of " + name);
    }
    // Nobody may miss a key that is gone, nor find an old one when all exchange again.
    store.barrier([this] { progress(); });
    store.remove(metadataKey(rank_));
    store.barrier([this] { progress(); });
    exchanged_ = true;
}

RankClient::Handle
RankClient::prepareTransfer(const std::vector<Tensor> &local, const std::vector<Tensor> &remote, int rank,
                            nixl_xfer_op_t op) {
    requireAvailable();
    if (!exchanged_)
        fail("metadata is not exchanged");
    if (local.empty() || local.size() != remote.size())
        fail("lists of " + std::to_string(local.size()) + " and " + std::to_string(remote.size()) +
             " tensors");
    nixlXferReqH *request = nullptr;
    check(agent_->createXferReq(op, blocks(local), blocks(remote), agentName(rank), request),
          "creating a request");
    return {agent_.get(), request};
}

void
RankClient::post(Handle &handle) {
    requireAvailable();
    if (!handle.valid() || handle.posted_)
        fail("a handle that is empty or posted");
    const nixl_status_t status = agent_->postXferReq(handle.request_);
    if (status != NIXL_IN_PROG)
        check(status, "posting");
    handle.posted_ = true;
}

RankClient::Status
RankClient::status(const Handle &handle) const {
    if (!handle.valid() || !handle.posted_)
        fail("a handle that is empty or not posted");
    switch (agent_->getXferStatus(handle.request_)) {
    case NIXL_SUCCESS:
        return Status::kDone;
    case NIXL_IN_PROG:
        return Status::kInProgress;
    default:
        return Status::kError;
    }
}

void
RankClient::wait(Handle &handle) {
    Status now = Status::kInProgress;
    while ((now = status(handle)) == Status::kInProgress) {
    }
    handle.posted_ = false;
    if (now == Status::kError)
        fail("the transfer failed");
}

void
RankClient::progress() {
    nixl_notifs_t notifs;
    check(agent_->getNotifs(notifs), "asking for notifications");
}

} // namespace nixl::test
