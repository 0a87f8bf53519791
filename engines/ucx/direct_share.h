// A share whose blocks are put or got one by one, by whatever transport UCX has to the peer.
#pragma once

#include "engines/ucx/share.h"

namespace nixl::ucx {

class DirectShare : public Share {
public:
    DirectShare(const ShareWork &work, Connection &connection, std::span<const Block> blocks);

    void feed() override;

    bool
    over() const override {
        return underWay_ == 0 && (moved_ || !error_.ok() || (stopped_ && !allFed()));
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
    static void onDone(void *request, ucs_status_t status, void *share);

    const unsigned window_; ///< operations that may be under way

    // Under the worker's lock while it runs.
    std::size_t next_ = 0;     ///< block to feed
    std::uint64_t offset_ = 0; ///< bytes of that block that were fed
    bool flushing_ = false;
};

} // namespace nixl::ucx
