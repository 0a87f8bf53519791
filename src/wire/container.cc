#include "wire/container.h"

#include <cstring>

namespace nixl {

namespace {

template<typename Number>
std::string_view
bytesOf(const Number &number) {
    return {reinterpret_cast<const char *>(&number), sizeof(number)};
}

} // namespace

void
Writer::add(std::string_view tag, std::string_view head, std::string_view tail) {
    const std::uint64_t length = head.size() + tail.size();
    out_.append(tag).append(bytesOf(length)).append(head).append(tail).push_back('|');
}

void
Writer::addU64(std::string_view tag, std::uint64_t value) {
    add(tag, bytesOf(value));
}

void
Writer::addI32(std::string_view tag, std::int32_t value) {
    add(tag, bytesOf(value));
}

Result<Reader>
Reader::open(std::string_view container) {
    if (!container.starts_with(kContainerPrefix))
        return Status::error(NIXL_ERR_MISMATCH, "the ", container.size(), " bytes do not begin with '",
                             kContainerPrefix, "'");
    return Reader(container, kContainerPrefix.size());
}

Result<std::string_view>
Reader::peek(std::string_view tag) const {
    std::string_view rest = container_.substr(cursor_);
    if (!rest.starts_with(tag))
        return Status::error(NIXL_ERR_MISMATCH, "no item '", tag, "' at byte ", cursor_);
    rest.remove_prefix(tag.size());
    std::uint64_t length = 0;
    if (rest.size() < sizeof(length))
        return Status::error(NIXL_ERR_MISMATCH, "item '", tag, "' at byte ", cursor_, " is cut off");
    std::memcpy(&length, rest.data(), sizeof(length));
    rest.remove_prefix(sizeof(length));
    // The separator must be there too, hence less than, not up to, what follows.
    if (length >= rest.size())
        return Status::error(NIXL_ERR_MISMATCH, "item '", tag, "' at byte ", cursor_, " claims ", length,
                             " bytes, ", rest.size(), " follow");
    return rest.substr(0, length);
}

Result<std::string_view>
Reader::take(std::string_view tag) {
    auto payload = peek(tag);
    if (payload.ok())
        cursor_ += tag.size() + kItemOverhead + payload.value().size();
    return payload;
}

template<typename Number>
Result<Number>
Reader::takeNumber(std::string_view tag) {
    const auto payload = peek(tag);
    if (!payload.ok())
        return payload.status();
    Number number = 0;
    if (payload.value().size() != sizeof(number))
        return Status::error(NIXL_ERR_MISMATCH, "item '", tag, "' at byte ", cursor_, " has ",
                             payload.value().size(), " bytes, a number of ", sizeof(number), " is expected");
    std::memcpy(&number, payload.value().data(), sizeof(number));
    cursor_ += tag.size() + kItemOverhead + sizeof(number);
    return number;
}

Result<std::uint64_t>
Reader::takeU64(std::string_view tag) {
    return takeNumber<std::uint64_t>(tag);
}

Result<std::int32_t>
Reader::takeI32(std::string_view tag) {
    return takeNumber<std::int32_t>(tag);
}

Result<std::size_t>
Reader::takeCount(std::string_view tag, std::size_t least) {
    Reader ahead = *this;
    const auto count = ahead.takeU64(tag);
    if (!count.ok())
        return count.status();
    if (count.value() > ahead.remaining() / least)
        return Status::error(NIXL_ERR_MISMATCH, "item '", tag, "' at byte ", cursor_, " announces ",
                             count.value(), " entries, ", ahead.remaining(), " bytes follow");
    *this = ahead;
    return count;
}

} // namespace nixl
