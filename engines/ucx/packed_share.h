// A share whose blocks travel packed into messages, to an engine of ours on the other side. Over transports
// that move a block by messages anyway this saves, for every block, a message, its answer and their system
// calls; and the target looks at keys before it touches its memory.
#pragma once

#include <array>
#include <vector>

#include "engine/batch_plan.h"
#include "engines/ucx/block_message.h"
#include "engines/ucx/share.h"

namespace nixl::ucx {

class PackedShare;

/// A message until it was sent and answered.
struct MessageSlot {
    PackedShare *share;
    std::size_t message;
    bool sending;
    bool unanswered;
    std::uint64_t bytes;
    std::size_t pieces;
    std::array<ucp_dt_iov_t, kMessagePieces> local;
    std::array<char, kRequestBytes + kPieceBytes * kMessagePieces> header;
};

/// The packed shares of a worker that run, for answers to find them, and the slots that they use in turns.
/// Under the worker's lock, but for receive().
class RunTable {
public:
    explicit RunTable(ProgressWorker &worker) : worker_(worker) {}

    /// Has the answers that arrive at the worker handed out. The table must outlive the worker.
    Status receive();

private:
    friend class PackedShare;

    /// A run from its beginning until all its answers have come, or the connection broke: a share that ends
    /// early leaves the answers that the peer owes, which take room in the connection's window until then.
    struct Run {
        PackedShare *share = nullptr; ///< nullptr: it has ended
        std::uint64_t secret = 0;
        std::size_t owed = 0; ///< answers that the ended run left
        std::weak_ptr<Connection> connection;
        std::uint64_t opening = 0;
    };

    std::uint32_t enter(PackedShare &share);
    void leave(std::uint32_t place, std::size_t owed);
    void release(std::uint32_t place);
    void releaseBroken();
    void arrivedLate(std::uint32_t place);
    MessageSlot &takeSlot();
    void giveBack(MessageSlot &slot);
    static ucs_status_t onAnswer(void *table, const void *header, std::size_t headerLength, void *data,
                                 std::size_t length, const ucp_am_recv_param_t *param);

    ProgressWorker &worker_;
    std::vector<Run> runs_; ///< by place
    std::vector<std::uint32_t> freePlaces_;
    std::vector<std::unique_ptr<MessageSlot>> slots_;
    std::vector<MessageSlot *> idleSlots_;
};

class PackedShare : public Share {
public:
    /// NIXL_ERR_INVALID_PARAM: more bytes than any memory has. REQUIRES: the remote regions have keys for
    /// messages.
    static Result<std::unique_ptr<Share>> create(const ShareWork &work, Connection &connection,
                                                 std::span<const Block> blocks, RunTable &runs,
                                                 std::size_t mostPieces);
    void goOn() override;

    void
    cutOff() override {
        if (!over())
            connection_.cutOff(opening_);
    }

    bool
    done() const override {
        return underWay_ == 0 && !running_;
    }

private:
    friend class RunTable;

    PackedShare(const ShareWork &work, Connection &connection, std::span<const Block> blocks, RunTable &runs,
                BatchPlan plan);

    void reset() override;
    void postNext();
    void describe(MessageSlot &slot);
    void *post(MessageSlot &slot);
    void noMoreAnswer(MessageSlot &slot);
    void settle(MessageSlot &slot);
    void endRun();
    void answered(const BlockAnswer &answer, std::string_view bytes);
    Status refusal(const BlockAnswer &answer) const;
    static void onSent(void *request, ucs_status_t status, void *slot);

    RunTable &runs_;
    const BatchPlan plan_;

    // Under the worker's lock while it runs.
    std::vector<MessageSlot *> window_; ///< of message m: at m modulo their number; nullptr: none
    std::uint64_t secret_;
    std::uint32_t place_ = 0;    ///< in the table, while running_
    std::size_t next_ = 0;       ///< message to send
    std::size_t unanswered_ = 0; ///< messages
    bool running_ = false;       ///< answers are taken
};

} // namespace nixl::ucx
