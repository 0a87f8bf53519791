#include "engines/ucx/block_message.h"

#include <cstring>
#include <string>

#include "engines/ucx/header_bytes.h"

namespace nixl::ucx {

namespace {

constexpr std::string_view kMark = "nixlpak2";

} // namespace

void
encodeRequest(const BlockRequest &request, std::span<const MessagePiece> pieces, char *header) {
    putNumber(header, request.run.secret);
    putNumber(header, request.run.place);
    putNumber(header, request.message);
    for (const MessagePiece &piece : pieces) {
        putNumber(header, piece.key);
        putNumber(header, piece.address);
        putNumber(header, piece.length);
    }
}

void
encodeAnswer(const BlockAnswer &answer, char *header) {
    putNumber(header, answer.run.secret);
    putNumber(header, answer.run.place);
    putNumber(header, answer.message);
    putNumber(header, answer.code);
    putNumber(header, answer.piece);
}

Result<ReceivedRequest>
decodeRequest(std::string_view header) {
    if (header.size() < kRequestBytes || (header.size() - kRequestBytes) % kPieceBytes != 0 ||
        header.size() > kRequestBytes + kPieceBytes * kMessagePieces)
        return Status::error(NIXL_ERR_MISMATCH, "a request of ", header.size(), " bytes");
    ReceivedRequest received{{}, (header.size() - kRequestBytes) / kPieceBytes, 0};
    const char *at = header.data();
    getNumber(at, received.request.run.secret);
    getNumber(at, received.request.run.place);
    getNumber(at, received.request.message);
    for (std::size_t i = 0; i < received.pieces; ++i) {
        const std::uint64_t length = pieceAt(header, i).length;
        if (length > kMessageBytes - received.bytes)
            return Status::error(NIXL_ERR_MISMATCH, "a request for more than ", kMessageBytes, " bytes");
        received.bytes += length;
    }
    return received;
}

MessagePiece
pieceAt(std::string_view header, std::size_t index) {
    MessagePiece piece{};
    const char *at = header.data() + kRequestBytes + index * kPieceBytes;
    getNumber(at, piece.key);
    getNumber(at, piece.address);
    getNumber(at, piece.length);
    return piece;
}

Result<BlockAnswer>
decodeAnswer(std::string_view header) {
    if (header.size() != kAnswerBytes)
        return Status::error(NIXL_ERR_MISMATCH, "an answer of ", header.size(), " bytes");
    BlockAnswer answer{};
    const char *at = header.data();
    getNumber(at, answer.run.secret);
    getNumber(at, answer.run.place);
    getNumber(at, answer.message);
    getNumber(at, answer.code);
    getNumber(at, answer.piece);
    return answer;
}

#if defined(__SANITIZE_THREAD__)
// It does not see the network, and takes an initiator and a target in one process for a race.
__attribute__((no_sanitize("thread"))) void
copyArrived(void *to, const char *from, std::size_t length) {
    auto *at = static_cast<volatile char *>(to);
    for (std::size_t i = 0; i < length; ++i)
        at[i] = from[i];
}
#else
void
copyArrived(void *to, const char *from, std::size_t length) {
    std::memcpy(to, from, length);
}
#endif

std::string
markAddress(std::string_view address) {
    return std::string(address).append(kMark);
}

MarkedAddress
unmarkAddress(std::string_view info) {
    if (!info.ends_with(kMark))
        return {info, false};
    return {info.substr(0, info.size() - kMark.size()), true};
}

std::string
appendMessageKey(std::string_view packedKey, std::uint64_t messageKey) {
    std::string published(packedKey.size() + sizeof messageKey, '\0');
    std::memcpy(published.data(), packedKey.data(), packedKey.size());
    char *at = published.data() + packedKey.size();
    putNumber(at, messageKey);
    return published;
}

SplitKey
splitMessageKey(std::string_view published) {
    SplitKey split{published, 0};
    if (published.size() < sizeof split.messageKey)
        return split;
    split.packedKey.remove_suffix(sizeof split.messageKey);
    const char *at = published.data() + split.packedKey.size();
    getNumber(at, split.messageKey);
    return split;
}

} // namespace nixl::ucx
