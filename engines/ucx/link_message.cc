#include "engines/ucx/link_message.h"

#include "engines/ucx/header_bytes.h"
#include "wire/container.h"

namespace nixl::ucx {

namespace {

/// Longest words about a failure that are taken in.
constexpr std::size_t kMostWords = 64 << 10;
constexpr std::uint32_t kAnswer = 1;

Status
checkSize(std::string_view header, std::size_t bytes, const char *what) {
    return header.size() == bytes
               ? Status()
               : Status::error(NIXL_ERR_MISMATCH, what, " with a header of ", header.size(), " bytes");
}

/// The items that notifications and failures begin with.
Result<Notification>
takeMessage(Reader &reader, std::uint64_t maxBytes) {
    const auto name = reader.take("name");
    if (!name.ok())
        return name.status();
    if (name.value().empty())
        return Status::error(NIXL_ERR_MISMATCH, "the sender has no name");
    const auto message = reader.take("msg");
    if (!message.ok())
        return message.status();
    if (message.value().size() > maxBytes)
        return Status::error(NIXL_ERR_MISMATCH, "it has ", message.value().size(), " bytes; the limit is ",
                             maxBytes, " (NIXL_NOTIF_MAX_BYTES)");
    return Notification{std::string(name.value()), std::string(message.value())};
}

} // namespace

void
encodeLetterHeader(const LetterHeader &letter, char *header) {
    putNumber(header, letter.link);
    putNumber(header, letter.number);
    putNumber(header, static_cast<std::uint32_t>(letter.kind));
    putNumber(header, letter.answer ? kAnswer : 0U);
}

Result<LetterHeader>
decodeLetterHeader(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kLetterHeaderBytes, "a letter"));
    LetterHeader letter{};
    std::uint32_t kind = 0;
    std::uint32_t flags = 0;
    const char *at = header.data();
    getNumber(at, letter.link);
    getNumber(at, letter.number);
    getNumber(at, kind);
    getNumber(at, flags);
    if (kind > static_cast<std::uint32_t>(LetterKind::kFailure))
        return Status::error(NIXL_ERR_MISMATCH, "a letter of kind ", kind);
    letter.kind = static_cast<LetterKind>(kind);
    letter.answer = (flags & kAnswer) != 0;
    return letter;
}

void
encodePing(const Ping &ping, char *header) {
    putNumber(header, ping.link);
    putNumber(header, ping.number);
}

Result<Ping>
decodePing(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kPingBytes, "a ping"));
    Ping ping{};
    const char *at = header.data();
    getNumber(at, ping.link);
    getNumber(at, ping.number);
    return ping;
}

void
encodePong(const Pong &pong, char *header) {
    putNumber(header, pong.link);
    putNumber(header, pong.expected);
    putNumber(header, static_cast<std::uint32_t>(pong.state));
    putNumber(header, pong.ping);
}

Result<Pong>
decodePong(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kPongBytes, "a pong"));
    Pong pong{};
    std::uint32_t state = 0;
    const char *at = header.data();
    getNumber(at, pong.link);
    getNumber(at, pong.expected);
    getNumber(at, state);
    getNumber(at, pong.ping);
    if (state > static_cast<std::uint32_t>(LetterState::kGap))
        return Status::error(NIXL_ERR_MISMATCH, "a pong of state ", state);
    pong.state = static_cast<LetterState>(state);
    return pong;
}

std::string
encodeNotification(std::string_view sender, std::string_view message) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    writer.expect(sender.size() + message.size() + 64);
    writer.add("name", sender);
    writer.add("msg", message);
    return bytes;
}

Result<Notification>
decodeNotification(std::string_view payload, std::uint64_t maxBytes) {
    auto reader = Reader::open(payload);
    return reader.ok() ? takeMessage(reader.value(), maxBytes) : reader.status();
}

std::string
encodeFailure(const FailedNotification &failure) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    const std::string_view why = std::string_view(failure.why).substr(0, kMostWords);
    writer.expect(failure.agent.size() + failure.message.size() + why.size() + 96);
    writer.add("name", failure.agent);
    writer.add("msg", failure.message);
    writer.add("why", why);
    return bytes;
}

Result<FailedNotification>
decodeFailure(std::string_view payload, std::uint64_t maxBytes) {
    auto reader = Reader::open(payload);
    if (!reader.ok())
        return reader.status();
    auto message = takeMessage(reader.value(), maxBytes);
    if (!message.ok())
        return message.status();
    const auto why = reader.value().take("why");
    if (!why.ok())
        return why.status();
    if (why.value().size() > kMostWords)
        return Status::error(NIXL_ERR_MISMATCH, "its reason has ", why.value().size(), " bytes");
    return FailedNotification{std::move(message.value().agent), std::move(message.value().message),
                              std::string(why.value())};
}

} // namespace nixl::ucx
