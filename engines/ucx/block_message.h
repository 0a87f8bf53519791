// The messages by which blocks travel packed: docs/wire-format.md, "Packed blocks".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "util/status.h"

namespace nixl::ucx {

/// Active messages between engines of ours; NIXL uses 0 and never sends these.
enum BlockMessageId : unsigned {
    kPutBlocks = 1, ///< request and pieces, with the bytes
    kBlocksPut = 2, ///< answer
    kGetBlocks = 3, ///< request and pieces
    kBlocksGot = 4, ///< answer, with the bytes
};

/// What one message has at most. Bytes and pieces together fit into a frame of 64 KiB, which every peer
/// takes.
inline constexpr std::uint64_t kMessageBytes = 60 << 10;
inline constexpr std::size_t kMessagePieces = 128;

/// Names a run of a transfer: a place in the sender's table, and what a stranger cannot guess.
struct RunId {
    std::uint64_t secret;
    std::uint32_t place;
};

/// Where the bytes of a piece are or go at the target.
struct MessagePiece {
    std::uint64_t key;
    std::uint64_t address;
    std::uint64_t length;
};

/// In front of the pieces.
struct BlockRequest {
    RunId run;
    std::uint32_t message; ///< counts the messages of a run
};

struct BlockAnswer {
    RunId run;
    std::uint32_t message;
    std::int32_t code;   ///< a nixl_status_t; NIXL_SUCCESS: done
    std::uint32_t piece; ///< the culprit, if it failed
};

inline constexpr std::size_t kRequestBytes = 16;
inline constexpr std::size_t kPieceBytes = 24;
inline constexpr std::size_t kAnswerBytes = 24;
// UCX 1.22 damages its heap where it has to keep a header of more than 8 KiB.
static_assert(kRequestBytes + kPieceBytes * kMessagePieces < (8 << 10));

/// `header` has kRequestBytes + kPieceBytes * pieces.size() bytes.
void encodeRequest(const BlockRequest &request, std::span<const MessagePiece> pieces, char *header);
/// `header` has kAnswerBytes bytes.
void encodeAnswer(const BlockAnswer &answer, char *header);

/// A request that was checked, as far as it can be without knowing the keys.
struct ReceivedRequest {
    BlockRequest request;
    std::size_t pieces;
    std::uint64_t bytes; ///< of all pieces, at most kMessageBytes
};

/// Untrusted bytes. NIXL_ERR_MISMATCH with the cause.
Result<ReceivedRequest> decodeRequest(std::string_view header);
/// REQUIRES: decodeRequest() accepted the header; index below its pieces.
MessagePiece pieceAt(std::string_view header, std::size_t index);
Result<BlockAnswer> decodeAnswer(std::string_view header);

/// Copies bytes of a message to where they belong. What orders it with the rest of the program is the
/// network: the memory's owner learns of it by a message that comes later.
void copyArrived(void *to, const char *from, std::size_t length);

// ---- What tells that an engine takes them ----

/// The connection info of an engine: an address of UCX, and behind it, where UCX does not look, that it takes
/// packed blocks.
std::string markAddress(std::string_view address);

/// The address alone, and whether the mark was there. `info` is untrusted.
struct MarkedAddress {
    std::string_view address;
    bool packs;
};

MarkedAddress unmarkAddress(std::string_view info);

/// What is published of a region: UCX's remote key, and behind it, where UCX does not look, the key for
/// messages. Of engines that mark their address, every region's has both.
std::string appendMessageKey(std::string_view packedKey, std::uint64_t messageKey);

struct SplitKey {
    std::string_view packedKey;
    std::uint64_t messageKey; ///< 0: there is none
};

/// Untrusted bytes; what is too short has no key.
SplitKey splitMessageKey(std::string_view published);

} // namespace nixl::ucx
