#include "engines/ucx/link_message.h"

#include <cstring>

#include "wire/container.h"

namespace nixl::ucx {

namespace {

/// Longest words about a failure that are taken in.
constexpr std::size_t kMostWords = 64 << 10;
constexpr std::uint32_t kAnswer = 1;

template<typename Number>
void
put(char *&at, Number number) {
    std::memcpy(at, &number, sizeof number);
    at += sizeof number;
}

template<typename Number>
void
get(const char *&at, Number &number) {
    std::memcpy(&number, at, sizeof number);
    at += sizeof number;
}

Status
checkSize(std::string_view header, std::size_t bytes, const char *what) {
    return header.size() == bytes
               ? Status()
               : Status::error(NIXL_ERR_MISMATCH, what, " with a header of ", header.size(), " bytes");
}

} // namespace

void
encodeLetterHeader(const LetterHeader &letter, char *header) {
    put(header, letter.link);
    put(header, letter.number);
    put(header, static_cast<std::uint32_t>(letter.kind));
    put(header, letter.answer ? kAnswer : 0U);
}

Result<LetterHeader>
decodeLetterHeader(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kLetterHeaderBytes, "a letter"));
    LetterHeader letter{};
    std::uint32_t kind = 0;
    std::uint32_t flags = 0;
    const char *at = header.data();
    get(at, letter.link);
    get(at, letter.number);
    get(at, kind);
    get(at, flags);
    if (kind > static_cast<std::uint32_t>(LetterKind::kFailure))
        return Status::error(NIXL_ERR_MISMATCH, "a letter of kind ", kind);
    letter.kind = static_cast<LetterKind>(kind);
    letter.answer = (flags & kAnswer) != 0;
    return letter;
}

void
encodePing(const Ping &ping, char *header) {
    put(header, ping.link);
    put(header, ping.number);
}

Result<Ping>
decodePing(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kPingBytes, "a ping"));
    Ping ping{};
    const char *at = header.data();
    get(at, ping.link);
    get(at, ping.number);
    return ping;
}

void
encodePong(const Pong &pong, char *header) {
    put(header, pong.link);
    put(header, pong.expected);
    put(header, static_cast<std::uint32_t>(pong.state));
    put(header, pong.ping);
}

Result<Pong>
decodePong(std::string_view header) {
    NIXL_RETURN_IF_ERROR(checkSize(header, kPongBytes, "a pong"));
    Pong pong{};
    std::uint32_t state = 0;
    const char *at = header.data();
    get(at, pong.link);
    get(at, pong.expected);
    get(at, state);
    get(at, pong.ping);
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
    if (!reader.ok())
        return reader.status();
    const auto name = reader.value().take("name");
    if (!name.ok())
        return name.status();
    if (name.value().empty())
        return Status::error(NIXL_ERR_MISMATCH, "the sender has no name");
    const auto message = reader.value().take("msg");
    if (!message.ok())
        return message.status();
    if (message.value().size() > maxBytes)
        return Status::error(NIXL_ERR_MISMATCH, "it has ", message.value().size(), " bytes; the limit is ",
                             maxBytes, " (NIXL_NOTIF_MAX_BYTES)");
    return Notification{std::string(name.value()), std::string(message.value())};
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
    const auto name = reader.value().take("name");
    if (!name.ok())
        return name.status();
    const auto message = reader.value().take("msg");
    if (!message.ok())
        return message.status();
    const auto why = reader.value().take("why");
    if (!why.ok())
        return why.status();
    if (name.value().empty() || message.value().size() > maxBytes || why.value().size() > kMostWords)
        return Status::error(NIXL_ERR_MISMATCH, "a failure whose parts have ", name.value().size(), ", ",
                             message.value().size(), " and ", why.value().size(), " bytes");
    return FailedNotification{std::string(name.value()), std::string(message.value()),
                              std::string(why.value())};
}

} // namespace nixl::ucx
