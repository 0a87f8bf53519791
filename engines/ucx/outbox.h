// The letters of a link until the peer has taken them in.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "engines/ucx/link_message.h"
#include "engines/ucx/worker.h"

namespace nixl::ucx {

class Connection;

/// Belongs to a connection to an engine of ours. Sends letters in their order, and again whatever the peer
/// has not taken in when the connection had to be opened anew or the peer had no room. So each is taken in
/// once, while both live. Everything REQUIRES the worker's lock, unless it says otherwise.
class Outbox : public Operation {
public:
    /// Called without locks: success once UCX has sent the letter, or why it never will.
    using Done = std::function<void(const Status &)>;

    /// Told of a letter that may not have arrived although its sender was told nothing else.
    using Undelivered = std::function<void(const std::string &peer, const std::string &payload,
                                           LetterKind kind, const std::string &why)>;

    explicit Outbox(Connection &connection);
    ~Outbox() override;

    /// Sends a letter after those before it. Never fails: `done` tells, perhaps before this returns. No lock
    /// is held.
    static void send(const std::shared_ptr<Connection> &connection, LetterKind kind, std::string payload,
                     Done done);

    /// Whether the peer takes letters in, and few wait for that. Any thread.
    bool
    room() const {
        return !blocked_.load(std::memory_order_relaxed) && bytes() <= kMostBytes;
    }

    /// Of letters that were not taken in. Any thread.
    std::uint64_t
    bytes() const {
        return bytes_.load(std::memory_order_relaxed);
    }

    /// Whether the peer has taken in everything.
    bool
    empty() const {
        return letters_.empty();
    }

    /// The number of the next letter.
    std::uint64_t
    end() const {
        return first_ + letters_.size();
    }

    /// Whether a letter is still to be sent, for the first time or because the peer had no room.
    bool waits() const;

    /// Whether the worker works on it.
    bool
    working() const {
        return keep_ != nullptr;
    }

    /// Whether the peer has taken in less than was sent.
    bool
    unanswered() const {
        return next_ > first_;
    }

    void takeIn(const Pong &pong);

    /// No letter is sent any more. Those whose Done was success, or that have none, may not have arrived,
    /// which the connection tells if it is to.
    void giveUp(const Status &why, bool tellUndelivered);

    void feed() override;
    bool over() const override;
    void ended() override;

private:
    using Clock = std::chrono::steady_clock;

    /// Bytes that wait before the next letter has to, of which this many may be on their way.
    static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
    static constexpr std::uint64_t kWindow = std::uint64_t{16} << 20;
    /// Letters that UCX may keep because the connection does not take them yet.
    static constexpr std::size_t kMostSending = 64;

    struct Letter {
        std::string payload;
        LetterKind kind;
        Done done; ///< empty once it was called
        bool sent = false;
    };

    using LetterPtr = std::shared_ptr<Letter>;

    struct Sending; ///< a letter that UCX is sending

    bool push(LetterPtr letter);
    bool openAnew();
    bool mayTransmit() const;
    void retryFull();
    bool transmit(bool answer);
    bool wantsAnswer(std::size_t bytes);
    void tell(const LetterPtr &letter, Status status);
    void join();

    const LetterPtr &
    letter(std::uint64_t number) const {
        return letters_[number - first_];
    }

    static void onSent(void *request, ucs_status_t status, void *sending);
    std::unique_ptr<Sending> takeSending();

    Connection &connection_;
    std::shared_ptr<Connection> keep_;    ///< while the worker works on it
    std::deque<LetterPtr> letters_;       ///< that were not taken in
    std::uint64_t first_ = 0;             ///< number of the first of them
    std::uint64_t next_ = 0;              ///< number of the one to send next
    std::uint64_t opening_ = 0;           ///< of the connection over which those before it were sent
    std::uint64_t onTheWay_ = 0;          ///< bytes of those before it
    std::size_t sending_ = 0;             ///< requests of UCX
    std::unique_ptr<Sending> idle_;       ///< for the next
    std::uint64_t unasked_ = 0;           ///< bytes since an answer was wanted
    Clock::time_point asked_{};           ///< when that was
    std::chrono::milliseconds retry_{10}; ///< pause before a full peer is tried again
    Clock::time_point retryAt_{};      ///< not before: opening anew, or a letter for which there was no room
    std::atomic<bool> blocked_{false}; ///< the peer has no room
    std::atomic<std::uint64_t> bytes_{0};
};

} // namespace nixl::ucx
