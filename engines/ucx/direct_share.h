// A share whose blocks are put or got one by one, by whatever transport UCX has to the peer.
#pragma once

#include "engines/ucx/share.h"

namespace nixl::ucx {

class DirectShare : public Share {
public:
    /// `confirmed`: puts are done when the peer, an engine of ours, has said that it is there after them.
    /// Without that, a peer that has ended its side of the connection can make UCX report puts that never
    /// arrived.
    DirectShare(const ShareWork &work, Connection &connection, std::span<const Block> blocks, bool confirmed);

    void goOn() override;

    bool
    done() const override {
        return underWay_ == 0 && (moved_ || !error_.ok() || (stopped_ && (!allFed() || awaited_ > 0)));
    }

private:
    bool
    allFed() const {
        return next_ == blocks_.size();
    }

    void reset() override;
    void postNext();
    void flush();
    void judge();
    void confirm();
    static void onDone(void *request, ucs_status_t status, void *share);

    const unsigned window_; ///< operations that may be under way
    const bool confirmed_;

    // Under the worker's lock while it runs.
    std::size_t next_ = 0;     ///< block to feed
    std::uint64_t offset_ = 0; ///< bytes of that block that were fed
    bool flushing_ = false;
    std::uint32_t awaited_ = 0; ///< number of the ping whose answer is the peer's word; 0: not asked
};

} // namespace nixl::ucx
