// The messages by which engines tell each other things other than blocks: docs/wire-format.md, "UCX" and
// "Letters and pings".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "util/status.h"

namespace nixl::ucx {

/// Active messages, beside those of packed blocks (block_message.h).
enum LinkMessageId : unsigned {
    kPlainNotification = 0, ///< as NIXL's. The others are between engines of ours
    kLetter = 5,            ///< a notification with a number, or the word that a transfer failed
    kPing = 6,
    kPong = 7, ///< answer to both
};

enum class LetterKind : std::uint32_t {
    kNotification = 0,
    kFailure = 1,
};

/// In front of a letter's payload. Letters of one link are numbered from 0 without a gap.
struct LetterHeader {
    std::uint64_t link; ///< which connection of the sender, by a number that a stranger cannot guess
    std::uint64_t number;
    LetterKind kind;
    bool answer; ///< a pong is wanted in any case
};

/// What became of letters.
enum class LetterState : std::uint32_t {
    kTaken = 0, ///< all before `expected` were taken in
    kFull = 1,  ///< so they were, and there is no room for the next, which is dropped
    kGap = 2,   ///< so they were, and one that is later than the next came, which is dropped
};

struct Ping {
    std::uint64_t link;
    std::uint32_t number; ///< from 1 on, of the pings of a link
};

struct Pong {
    std::uint64_t link;
    std::uint64_t expected; ///< number of the letter that is taken in next; 0 if none ever came
    LetterState state;
    std::uint32_t ping; ///< number of the ping that it answers; 0: it answers a letter
};

inline constexpr std::size_t kLetterHeaderBytes = 24;
inline constexpr std::size_t kPingBytes = 12;
inline constexpr std::size_t kPongBytes = 24;

/// `header` has kLetterHeaderBytes, kPingBytes and kPongBytes bytes.
void encodeLetterHeader(const LetterHeader &letter, char *header);
void encodePing(const Ping &ping, char *header);
void encodePong(const Pong &pong, char *header);

/// Untrusted bytes. NIXL_ERR_MISMATCH with the cause.
Result<LetterHeader> decodeLetterHeader(std::string_view header);
Result<Ping> decodePing(std::string_view header);
Result<Pong> decodePong(std::string_view header);

/// The payload of a notification.
std::string encodeNotification(std::string_view sender, std::string_view message);

/// Untrusted bytes. NIXL_ERR_MISMATCH: not a notification, or one whose message is longer than `maxBytes`.
Result<Notification> decodeNotification(std::string_view payload, std::uint64_t maxBytes);

/// The payload of a failure.
std::string encodeFailure(const FailedNotification &failure);
Result<FailedNotification> decodeFailure(std::string_view payload, std::uint64_t maxBytes);

} // namespace nixl::ucx
