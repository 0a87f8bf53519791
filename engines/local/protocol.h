// The bytes that LOCAL engines give each other (docs/wire-format.md, "LOCAL"): connection info and region
// data in metadata, frames on the socket. Readers are bounded and take any bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/local/region_table.h"
#include "util/scoped_fd.h"
#include "util/socket.h"
#include "util/status.h"
#include "wire/metadata_blob.h"

namespace nixl::local {

// ---- In metadata ----

/// What a process says about itself. Nothing here is trusted: it saves attempts without hope and gives better
/// words when one fails. Zero or empty: not known.
struct HostHints {
    std::array<char, 36> bootId{};
    std::uint64_t pidNamespace = 0;
    std::uint64_t netNamespace = 0;
    std::uint32_t pid = 0; ///< in that pid namespace
};

/// What an engine understands beside the first eight frames; it grows, and 0 means those only. Both sides
/// keep to the lower one.
inline constexpr std::uint32_t kRevision = 1; ///< heartbeats, counted messages, failures

struct ConnectionInfo {
    Incarnation incarnation{};
    HostHints hints;
    std::uint32_t revision = 0;
};

std::string encodeConnectionInfo(const ConnectionInfo &info);
/// NIXL_ERR_MISMATCH: not connection info of this version.
Result<ConnectionInfo> decodeConnectionInfo(std::string_view bytes);

std::string encodeRegionKey(RegionKey key);
/// NIXL_ERR_MISMATCH: not a region's data.
Result<RegionKey> decodeRegionKey(std::string_view bytes);

/// Abstract name of the socket of an engine.
std::string socketName(const Incarnation &incarnation);

// ---- On the socket ----

enum class FrameType : std::uint16_t {
    kHello = 1,        ///< initiator: who it is and a challenge; with its marks and its life page
    kWelcome = 2,      ///< target: where the challenge lies; with its region table and its life page
    kReady = 3,        ///< initiator: the target is who it seems to be
    kNotification = 4, ///< initiator: a message
    kRefuse = 5,       ///< target: why not; it closes
    kAskMemory = 6,    ///< initiator: wants to map memory that the region table names
    kMemory = 7,       ///< target: that memory, with its descriptor, or that there is none
    kMemoryEnded = 8,  ///< target: no registration lies in that memory any more
    // Since revision 1.
    kPing = 9,    ///< initiator: does the process run?
    kPong = 10,   ///< target: it does
    kFailed = 11, ///< initiator: a transfer failed that would have brought a message
};

inline constexpr std::size_t kHeaderBytes = 16;
/// Longest name of an agent, and longest frame of a handshake.
inline constexpr std::size_t kMaxNameBytes = 32 << 10;
inline constexpr std::size_t kMaxHandshakeBytes = kMaxNameBytes + 256;

using Challenge = std::array<std::uint8_t, 32>;

struct Hello {
    Incarnation target{}; ///< whom the initiator means
    Incarnation incarnation{};
    Challenge challenge{};
    Challenge token{}; ///< lies at tokenAddress in the initiator for as long as the connection lasts
    std::uint64_t tokenAddress = 0;
    std::string agent;
    std::uint32_t revision = 0; ///< not sent if it is 0
};

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct Welcome {
    Incarnation incarnation{};
    std::uint64_t challengeAddress = 0;
    std::string agent;
    /// Neither is sent if the first is 0, as to initiators that did not send theirs.
    std::uint32_t revision = 0;
    std::uint32_t slot = kNoSlot; ///< of this connection in the region table
};

/// Memory that a target lends.
struct LentPiece {
    std::uint64_t id = 0;
    std::uint64_t address = 0; ///< in the target
    std::uint64_t length = 0;  ///< 0: there is no such memory, and no descriptor comes
    std::uint64_t offset = 0;  ///< in the file
};

/// A transfer that failed.
struct FailedTransfer {
    std::string why;
    std::string message; ///< that does not come
};

/// Longest reason that is sent; what is beyond is cut off.
inline constexpr std::size_t kMaxReasonBytes = 1024;

/// Most memories that are lent over one connection at a time.
inline constexpr std::size_t kMostLent = 1024;

std::string frameHeader(FrameType type, std::uint64_t length);

/// Whole frames.
std::string encodeHello(const Hello &hello);
std::string encodeWelcome(const Welcome &welcome);
std::string encodeRefuse(std::string_view reason);
std::string encodeAskMemory(std::uint64_t id);
std::string encodeMemory(const LentPiece &piece);
std::string encodeMemoryEnded(std::uint64_t id);
std::string encodeFailed(std::string_view message, std::string_view why);

/// Payloads. NIXL_ERR_MISMATCH: malformed.
Result<Hello> decodeHello(std::string_view payload);
Result<Welcome> decodeWelcome(std::string_view payload);
/// Of kAskMemory and kMemoryEnded.
Result<std::uint64_t> decodeMemoryId(std::string_view payload);
Result<LentPiece> decodeMemory(std::string_view payload);
Result<FailedTransfer> decodeFailed(std::string_view payload);

struct Frame {
    FrameType type;
    std::string payload;
};

/// Cuts a stream into frames.
class FrameReader {
public:
    /// Bytes of payload that a frame may have; one that brings a reason beside a message, a little more.
    void
    setLimit(std::uint64_t limit) {
        limit_ = limit;
    }

    /// Reads once from the socket, at most 256 KiB; memory grows only with what really arrived.
    IoState readOnce(int socket);

    /// Takes the next complete frame out. False: there is none yet. NIXL_ERR_MISMATCH: the stream is not made
    /// of frames of this version, or a frame is above the limit; no more frames come.
    Result<bool> next(Frame &frame);

    /// Descriptors that came with the bytes read so far; those beyond the fourth are closed.
    std::vector<ScopedFd> fds;

private:
    std::string buffer_;
    std::size_t start_ = 0; // of the first byte not taken yet
    std::uint64_t limit_ = kMaxHandshakeBytes;
};

} // namespace nixl::local
