// Text from parts, for messages: g++ 12 has no <format>.
#pragma once

#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

namespace nixl {

/// A number printed as 0x hexadecimal: addresses.
struct Hex {
    std::uint64_t value;
};

inline std::ostream &
operator<<(std::ostream &out, Hex hex) {
    const auto flags = out.flags();
    out << "0x" << std::hex << hex.value;
    out.flags(flags);
    return out;
}

/// The parts, streamed one after the other.
template<typename... Parts>
std::string
concat(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return std::move(out).str();
}

} // namespace nixl
