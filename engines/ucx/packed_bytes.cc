#include "engines/ucx/packed_bytes.h"

#include <cstring>

namespace nixl::ucx {

namespace {

// A part has at most 255 bytes, and what transports read of one is not longer.
constexpr std::size_t kPadding = 512;

} // namespace

const char *
PackedBytes::take(std::size_t length, std::string_view what) {
    if (!ok())
        return nullptr;
    const std::size_t left = bytes_.size() - position_;
    if (length > left) {
        refuse(position_, what, " needs ", length, " bytes, ", left, " follow");
        return nullptr;
    }
    const char *start = bytes_.data() + position_;
    position_ += length;
    return start;
}

template<typename Number>
Number
PackedBytes::takeNumber(std::string_view what) {
    Number number{};
    if (const char *start = take(sizeof number, what))
        std::memcpy(&number, start, sizeof number);
    return number;
}

std::uint8_t
PackedBytes::takeU8(std::string_view what) {
    return takeNumber<std::uint8_t>(what);
}

std::uint64_t
PackedBytes::takeU64(std::string_view what) {
    return takeNumber<std::uint64_t>(what);
}

float
PackedBytes::takeFloat(std::string_view what) {
    return takeNumber<float>(what);
}

void
PackedBytes::skip(std::size_t length, std::string_view what) {
    take(length, what);
}

std::string_view
PackedBytes::takeBytes(std::size_t length, std::string_view what) {
    const char *start = take(length, what);
    return start != nullptr ? std::string_view(start, length) : std::string_view();
}

int
PackedBytes::peek() const {
    return ok() && position_ < bytes_.size() ? static_cast<unsigned char>(bytes_[position_]) : -1;
}

Status
PackedBytes::finish() {
    if (position_ < bytes_.size())
        refuse(position_, bytes_.size() - position_, " bytes follow its end");
    return status_;
}

std::string
padded(std::string_view bytes) {
    std::string result;
    result.reserve(bytes.size() + kPadding);
    result.append(bytes).append(kPadding, '\0');
    return result;
}

} // namespace nixl::ucx
