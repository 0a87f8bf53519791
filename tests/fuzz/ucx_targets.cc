#include <string>
#include <vector>

#include "engines/ucx/address_check.h"
#include "engines/ucx/block_message.h"
#include "engines/ucx/elf_file.h"
#include "engines/ucx/knock.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/rkey_check.h"
#include "fuzz/promise.h"
#include "fuzz/targets.h"

namespace nixl::fuzz {

namespace {

template<typename Check>
void
checkExact(std::string_view bytes, Check check) {
    const Status status = check(bytes);
    if (!status.ok()) {
        require(status.code() == NIXL_ERR_MISMATCH && !status.message().empty(),
                "an error has a code and a message");
        return;
    }
    require(!check(bytes.substr(0, bytes.size() - 1)).ok(), "nothing is missing");
    require(!check(std::string(bytes) + bytes.back()).ok(), "nothing is left");
}

} // namespace

void
elf(std::string_view bytes) {
    constexpr std::string_view kNames[] = {"ucp_get_version", "ucp_from_the_future"};
    const Result<ucx::ElfFile> file = ucx::ElfFile::parse(bytes);
    if (!file.ok()) {
        require(!file.status().message().empty(), "an error has a message");
        return;
    }
    const std::string_view missing = file.value().firstMissing(kNames);
    require(missing.empty() || missing == kNames[0] || missing == kNames[1], "a name that was asked for");
    const std::optional<std::string> version = file.value().versionText();
    require(!version || (version->size() >= 5 && bytes.find(*version) != std::string_view::npos),
            "a version that stands there");
}

void
ucxAddress(std::string_view bytes) {
    checkExact(bytes, ucx::checkWorkerAddress);
    const auto sockets = ucx::tcpAddresses(bytes, bytes);
    require(sockets.empty() || ucx::checkWorkerAddress(bytes).ok(), "sockets of an address only");
    const auto packer = ucx::workerAddressPacker(bytes, 22);
    require(packer.ok() == ucx::checkWorkerAddress(bytes).ok(), "both readers agree");
    require(!packer.ok() || packer.value() == 0 || (packer.value() >= 14 && packer.value() <= 29),
            "a version near the own");
}

void
ucxKey(std::string_view bytes) {
    if (bytes.empty())
        return;
    const auto packer = static_cast<unsigned char>(bytes[0]);
    checkExact(bytes.substr(1), [&](std::string_view key) { return ucx::checkPackedKey(key, packer); });
}

void
ucxLink(std::string_view bytes) {
    const auto letter = ucx::decodeLetterHeader(bytes);
    require(!letter.ok() || bytes.size() == ucx::kLetterHeaderBytes, "a letter's header has one size");
    const auto pong = ucx::decodePong(bytes);
    if (pong.ok()) {
        char again[ucx::kPongBytes];
        ucx::encodePong(pong.value(), again);
        require(bytes == std::string_view(again, sizeof again), "a pong is written as it was read");
    }
    const auto ping = ucx::decodePing(bytes);
    require(ping.ok() == (bytes.size() == ucx::kPingBytes), "a ping is a number");
    const auto failure = ucx::decodeFailure(bytes, 1000);
    require(!failure.ok() || (failure.value().message.size() <= 1000 && !failure.value().agent.empty()),
            "a failure is bounded and has a sender");
    const auto notification = ucx::decodeNotification(bytes, 1000);
    require(!notification.ok() ||
                (notification.value().message.size() <= 1000 && !notification.value().agent.empty()),
            "a notification is bounded and has a sender");
}

void
ucxBlocks(std::string_view bytes) {
    const auto request = ucx::decodeRequest(bytes);
    if (request.ok()) {
        std::uint64_t sum = 0;
        std::vector<ucx::MessagePiece> pieces;
        for (std::size_t i = 0; i < request.value().pieces; ++i) {
            pieces.push_back(ucx::pieceAt(bytes, i));
            require(pieces.back().length <= ucx::kMessageBytes - sum, "a request is bounded");
            sum += pieces.back().length;
        }
        require(sum == request.value().bytes, "the sum of the pieces");
        std::string again(bytes.size(), '\0');
        ucx::encodeRequest(request.value().request, pieces, again.data());
        require(again == bytes, "a request is written as it was read");
    } else {
        require(request.status().code() == NIXL_ERR_MISMATCH, "an error has a code");
    }
    require(ucx::decodeAnswer(bytes).ok() == (bytes.size() == ucx::kAnswerBytes), "answers have one length");
    const auto [address, packs] = ucx::unmarkAddress(bytes);
    require(packs ? ucx::markAddress(address) == bytes : address == bytes, "the mark, or none");
    const auto [packedKey, messageKey] = ucx::splitMessageKey(bytes);
    require(bytes.size() < sizeof messageKey || ucx::appendMessageKey(packedKey, messageKey) == bytes,
            "a key behind a key");
}

} // namespace nixl::fuzz
