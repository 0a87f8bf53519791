#include "inmem_engine.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <stdexcept>

namespace {

std::size_t
readChunk(const nixl_b_params_t &params) {
    constexpr std::size_t kLargestChunk = std::size_t{1} << 30;
    const auto found = params.find("chunk_size");
    const std::string text = found == params.end() ? InMemEngine::kDefaultChunk : found->second;
    std::size_t chunk = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), chunk);
    if (error != std::errc() || end != text.data() + text.size() || chunk == 0 || chunk > kLargestChunk)
        throw std::invalid_argument("chunk_size is \"" + text +
                                    "\"; it must be a number of bytes from 1 to " +
                                    std::to_string(kLargestChunk));
    return chunk;
}

/// A segment of this agent or of a peer.
class InMemMD : public nixlBackendMD {
public:
    InMemMD(bool isPrivate, inmem::MemberId owner, inmem::SegmentId number)
        : nixlBackendMD(isPrivate), member(owner), segment(number) {}

    const inmem::MemberId member;
    const inmem::SegmentId segment;
};

const InMemMD &
metadata(const nixlMetaDesc &desc) {
    return *static_cast<const InMemMD *>(desc.metadataP);
}

} // namespace

/// The lists, the name and the arguments stay where they are until the request is released.
class InMemRequest : public nixlBackendReqH {
public:
    InMemRequest(nixl_xfer_op_t op, const nixl_meta_dlist_t &localList, const nixl_meta_dlist_t &remoteList,
                 inmem::MemberId peer)
        : operation(op), local(localList), remote(remoteList), target(peer) {}

    const nixl_xfer_op_t operation;
    const nixl_meta_dlist_t &local;
    const nixl_meta_dlist_t &remote;
    const inmem::MemberId target;
    std::string message; // set by postXfer
    bool hasMessage = false;

    nixl_status_t status = NIXL_ERR_NOT_POSTED; // guarded by the engine's mutex
    std::atomic<bool> cancelled{false};
};

InMemEngine::InMemEngine(const nixlBackendInitParams *init_params)
    : nixlBackendEngine(init_params), chunk_(readChunk(getCustomParams())), self_(localAgent) {
    thread_ = std::thread([this] { copyLoop(); });
}

InMemEngine::~InMemEngine() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    posted_.notify_all();
    thread_.join();
}

bool
InMemEngine::supportsRemote() const {
    return true;
}

bool
InMemEngine::supportsLocal() const {
    return true;
}

bool
InMemEngine::supportsNotif() const {
    return true;
}

nixl_mem_list_t
InMemEngine::getSupportedMems() const {
    return {DRAM_SEG};
}

// ---- Memory ----

nixl_status_t
InMemEngine::registerMem(const nixlBlobDesc &mem, const nixl_mem_t &nixl_mem, nixlBackendMD *&out) {
    if (nixl_mem != DRAM_SEG)
        return NIXL_ERR_NOT_SUPPORTED;
    if (mem.len == 0 || mem.len > UINTPTR_MAX - mem.addr)
        return NIXL_ERR_INVALID_PARAM;
    out = new InMemMD(true, self_.id(), self_.add(mem.addr, mem.len));
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::deregisterMem(nixlBackendMD *meta) {
    self_.remove(static_cast<InMemMD *>(meta)->segment);
    delete meta;
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::getPublicData(const nixlBackendMD *meta, std::string &str) const {
    str = inmem::pack('s', static_cast<const InMemMD *>(meta)->segment);
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::loadLocalMD(nixlBackendMD *input, nixlBackendMD *&output) {
    output = new InMemMD(false, self_.id(), static_cast<InMemMD *>(input)->segment);
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::loadRemoteMD(const nixlBlobDesc &input, const nixl_mem_t &nixl_mem,
                          const std::string &remote_agent, nixlBackendMD *&output) {
    if (nixl_mem != DRAM_SEG)
        return NIXL_ERR_NOT_SUPPORTED;
    const auto peer = peers_.find(remote_agent);
    if (peer == peers_.end())
        return NIXL_ERR_NOT_FOUND;
    // A forged number is harmless: whether the segment exists and holds the bytes is checked at every copy.
    const auto segment = inmem::unpack('s', input.metaInfo);
    if (!segment)
        return NIXL_ERR_MISMATCH;
    output = new InMemMD(false, peer->second, *segment);
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::unloadMD(nixlBackendMD *input) {
    delete input;
    return NIXL_SUCCESS;
}

// ---- Peers ----

nixl_status_t
InMemEngine::getConnInfo(std::string &str) const {
    str = inmem::pack('m', self_.id());
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::loadRemoteConnInfo(const std::string &remote_agent, const std::string &remote_conn_info) {
    const auto member = inmem::unpack('m', remote_conn_info);
    if (!member)
        return NIXL_ERR_MISMATCH;
    return peers_.emplace(remote_agent, *member).second ? NIXL_SUCCESS : NIXL_ERR_INVALID_PARAM;
}

nixl_status_t
InMemEngine::connect(const std::string &remote_agent) {
    const std::optional<inmem::MemberId> target = find(remote_agent);
    if (!target)
        return NIXL_ERR_NOT_FOUND;
    return inmem::exists(*target) ? NIXL_SUCCESS : NIXL_ERR_REMOTE_DISCONNECT;
}

nixl_status_t
InMemEngine::disconnect(const std::string &remote_agent) {
    return peers_.erase(remote_agent) != 0 ? NIXL_SUCCESS : NIXL_ERR_NOT_FOUND;
}

std::optional<inmem::MemberId>
InMemEngine::find(const std::string &agent) const {
    if (agent == localAgent)
        return self_.id();
    const auto peer = peers_.find(agent);
    return peer == peers_.end() ? std::nullopt : std::optional(peer->second);
}

// ---- Transfers ----

nixl_status_t
InMemEngine::prepXfer(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                      const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                      nixlBackendReqH *&handle, const nixl_opt_b_args_t *) const {
    if (local.isEmpty() || local.descCount() != remote.descCount())
        return NIXL_ERR_INVALID_PARAM;
    for (int i = 0; i < local.descCount(); ++i)
        if (local[i].len != remote[i].len)
            return NIXL_ERR_INVALID_PARAM;
    const std::optional<inmem::MemberId> target = find(remote_agent);
    if (!target)
        return NIXL_ERR_NOT_FOUND;
    handle = new InMemRequest(operation, local, remote, *target);
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &, const nixl_meta_dlist_t &,
                      const std::string &, nixlBackendReqH *&handle,
                      const nixl_opt_b_args_t *opt_args) const {
    auto *request = static_cast<InMemRequest *>(handle);
    const std::lock_guard lock(mutex_);
    if (request->status == NIXL_IN_PROG)
        return NIXL_ERR_REPOST_ACTIVE;
    request->hasMessage = opt_args != nullptr && opt_args->hasNotif;
    request->message = request->hasMessage ? opt_args->notifMsg : "";
    request->status = NIXL_IN_PROG;
    queue_.push_back(request);
    posted_.notify_all();
    return NIXL_IN_PROG;
}

nixl_status_t
InMemEngine::checkXfer(nixlBackendReqH *handle) const {
    const std::lock_guard lock(mutex_);
    return static_cast<InMemRequest *>(handle)->status;
}

nixl_status_t
InMemEngine::releaseReqH(nixlBackendReqH *handle) const {
    auto *request = static_cast<InMemRequest *>(handle);
    {
        std::unique_lock lock(mutex_);
        request->cancelled = true;
        if (const auto queued = std::find(queue_.begin(), queue_.end(), request); queued != queue_.end()) {
            queue_.erase(queued);
            request->status = NIXL_ERR_CANCELED;
        }
        // The thread looks at `cancelled` after each chunk, so this does not take long.
        finished_.wait(lock, [request] { return request->status != NIXL_IN_PROG; });
    }
    delete request;
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::estimateXferCost(const nixl_xfer_op_t &, const nixl_meta_dlist_t &local,
                              const nixl_meta_dlist_t &, const std::string &, nixlBackendReqH *const &,
                              std::chrono::microseconds &duration, std::chrono::microseconds &err_margin,
                              nixl_cost_t &method, const nixl_opt_args_t *) const {
    constexpr std::size_t kBytesPerUs = 5000;
    std::size_t bytes = 0;
    for (const nixlMetaDesc &desc : local)
        bytes += desc.len;
    duration = std::chrono::microseconds(5 + bytes / kBytesPerUs);
    err_margin = duration;
    method = nixl_cost_t::ANALYTICAL_BACKEND;
    return NIXL_SUCCESS;
}

void
InMemEngine::copyLoop() {
    std::unique_lock lock(mutex_);
    for (;;) {
        posted_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_)
            return;
        InMemRequest *request = queue_.front();
        queue_.pop_front();
        lock.unlock();
        const nixl_status_t status = run(*request);
        lock.lock();
        request->status = status;
        finished_.notify_all();
    }
}

nixl_status_t
InMemEngine::run(const InMemRequest &request) const {
    for (int i = 0; i < request.local.descCount(); ++i) {
        const nixlMetaDesc &local = request.local[i];
        const nixlMetaDesc &remote = request.remote[i];
        const inmem::Place here{self_.id(), metadata(local).segment, local.addr};
        const inmem::Place there{metadata(remote).member, metadata(remote).segment, remote.addr};
        const bool write = request.operation == NIXL_WRITE;
        const nixl_status_t status =
            copyBlock(request, write ? here : there, write ? there : here, local.len);
        if (status != NIXL_SUCCESS)
            return status;
    }
    if (request.hasMessage && !inmem::send(localAgent, request.target, request.message))
        return NIXL_ERR_REMOTE_DISCONNECT;
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::copyBlock(const InMemRequest &request, inmem::Place from, inmem::Place to,
                       std::size_t length) const {
    while (length != 0) {
        if (request.cancelled)
            return NIXL_ERR_CANCELED;
        const std::size_t size = std::min(chunk_, length);
        const inmem::CopyResult result = inmem::copy(from, to, size);
        if (result != inmem::CopyResult::kDone)
            return result == inmem::CopyResult::kNoMember ? NIXL_ERR_REMOTE_DISCONNECT : NIXL_ERR_NOT_FOUND;
        from.address += size;
        to.address += size;
        length -= size;
    }
    return NIXL_SUCCESS;
}

// ---- Notifications ----

nixl_status_t
InMemEngine::getNotifs(notif_list_t &notif_list) {
    if (!notif_list.empty())
        return NIXL_ERR_INVALID_PARAM;
    notif_list = self_.takeMessages();
    return NIXL_SUCCESS;
}

nixl_status_t
InMemEngine::genNotif(const std::string &remote_agent, const std::string &msg) const {
    const std::optional<inmem::MemberId> target = find(remote_agent);
    if (!target)
        return NIXL_ERR_NOT_FOUND;
    return inmem::send(localAgent, *target, msg) ? NIXL_SUCCESS : NIXL_ERR_REMOTE_DISCONNECT;
}
