#include "engines/ucx/direct_share.h"

#include <algorithm>

namespace nixl::ucx {

namespace {

/// A block is posted in pieces of at most this size, so that a cancelled transfer stops soon.
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
/// Bytes, and operations, that a share has under way: enough to keep a fast network busy.
constexpr std::uint64_t kWindowBytes = std::uint64_t{16} << 20;
constexpr unsigned kLeastWindow = 8;
constexpr unsigned kLargestWindow = 512;

unsigned
windowFor(std::span<const Block> blocks) {
    std::uint64_t bytes = 0;
    for (const Block &block : blocks)
        bytes += block.length;
    const std::uint64_t typical = std::clamp<std::uint64_t>(bytes / blocks.size(), 1, kPiece);
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(kWindowBytes / typical, kLeastWindow, kLargestWindow));
}

} // namespace

DirectShare::DirectShare(const ShareWork &work, Connection &connection, std::span<const Block> blocks,
                         bool confirmed)
    : Share(work, connection, blocks), window_(windowFor(blocks)),
      confirmed_(confirmed && work.operation == NIXL_WRITE) {}

void
DirectShare::reset() {
    next_ = 0;
    offset_ = 0;
    flushing_ = false;
    awaited_ = 0;
}

void
DirectShare::goOn() {
    while (error_.ok() && !stopped_ && !allFed() && underWay_ < window_)
        postNext();
    if (error_.ok() && allFed() && !flushing_)
        flush();
    if (awaited_ > 0 && !moved_ && !stopped_)
        confirm();
}

void
DirectShare::postNext() {
    if (!canPost())
        return;
    const Block &block = blocks_[next_];
    auto &remote = static_cast<PeerRegion &>(*work_.remoteRegions[block.remoteRegion].region);
    const auto key = remote.key(connection_, opening_);
    if (!key.ok()) {
        error_ = key.status();
        return;
    }
    const auto &local = static_cast<OwnRegion &>(*work_.localRegions[block.localRegion].region);
    const std::uint64_t length = std::min(block.length - offset_, kPiece);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
    param.cb.send = onDone;
    param.user_data = this;
    param.memh = local.handle();
    auto *memory = reinterpret_cast<char *>(block.local + offset_);
    const Api &api = connection_.worker().api();
    ++underWay_; // before the post: it may call back
    void *request = work_.operation == NIXL_WRITE ? api.put_nbx(connection_.endpoint(), memory, length,
                                                                block.remote + offset_, key.value(), &param)
                                                  : api.get_nbx(connection_.endpoint(), memory, length,
                                                                block.remote + offset_, key.value(), &param);
    if (underWay(request))
        connection_.began();
    else if (!error_.ok())
        return;
    offset_ += length;
    if (offset_ == block.length) {
        ++next_;
        offset_ = 0;
    }
}

/// After it everything is where it belongs: puts are complete at the target only when they are flushed.
void
DirectShare::flush() {
    if (!canPost())
        return;
    flushing_ = true;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = onDone;
    param.user_data = this;
    ++underWay_;
    if (underWay(connection_.worker().api().ep_flush_nbx(connection_.endpoint(), &param)))
        connection_.began();
    else
        judge();
}

void
DirectShare::judge() {
    if (!flushing_ || underWay_ > 0 || !error_.ok())
        return;
    if (confirmed_)
        awaited_ = connection_.pinged() + 1; // asked by feed(): this may be a callback
    else
        moved_ = true;
}

void
DirectShare::confirm() {
    if (!error_.ok() || !canPost())
        return;
    if (connection_.pinged() < awaited_)
        connection_.ping();
    moved_ = connection_.ponged() >= awaited_;
}

void
DirectShare::onDone(void *request, ucs_status_t status, void *argument) {
    auto *share = static_cast<DirectShare *>(argument);
    --share->underWay_;
    share->connection_.ended(status == UCS_OK);
    if (status != UCS_OK)
        share->fail(status, false);
    share->judge();
    share->connection_.worker().api().request_free(request);
}

} // namespace nixl::ucx
