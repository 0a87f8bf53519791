// The life of a transfer: its states, and what leads from one to another. docs/transfers.md draws it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace nixl {

enum class Life {
    kCreated,    ///< never posted
    kInProgress, ///< posted
    kCancelling, ///< posted, and shall end: nothing new is started, what is under way ends or is cut off
    kDone,       ///< the last run moved everything
    kFailed,     ///< the last run ended with an error, or was cancelled
    kReleased,   ///< gone for the program
};

enum class LifeEvent {
    kPost,    ///< the program posts
    kSuccess, ///< the engine has moved everything
    kFailure, ///< the engine has ended the run without that
    kCancel,  ///< the program, a deadline or a deregistration wants the run to end
    kRelease, ///< the program gives it back
};

inline constexpr std::size_t kLives = 6;
inline constexpr std::size_t kLifeEvents = 5;

/// Where an event leads; nothing where it is refused. In all states but kInProgress and kCancelling local
/// memory is quiet.
constexpr std::optional<Life>
after(Life life, LifeEvent event) {
    using enum Life;
    constexpr std::optional<Life> no;
    constexpr std::array<std::array<std::optional<Life>, kLifeEvents>, kLives> kTable{{
        //                post         success  failure  cancel       release
        /* created    */ {kInProgress, no, no, kCreated, kReleased},
        /* in progress*/ {no, kDone, kFailed, kCancelling, no},
        /* cancelling */ {no, kDone, kFailed, kCancelling, no},
        /* done       */ {kInProgress, no, no, kDone, kReleased},
        /* failed     */ {kInProgress, no, no, kFailed, kReleased},
        /* released   */ {no, no, no, no, no},
    }};
    return kTable[static_cast<std::size_t>(life)][static_cast<std::size_t>(event)];
}

/// Whether no byte of local memory is read or written by the transfer.
constexpr bool
quiet(Life life) {
    return life != Life::kInProgress && life != Life::kCancelling;
}

} // namespace nixl
