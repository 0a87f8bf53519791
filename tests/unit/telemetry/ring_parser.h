// Reads a telemetry buffer file byte by byte as docs/telemetry.md describes it, with none of the library's
// code.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace nixl::test {

struct RingEvent {
    std::uint32_t type;
    std::uint64_t value;

    bool
    operator==(const RingEvent &other) const {
        return std::tie(type, value) == std::tie(other.type, other.value);
    }
};

inline std::ostream &
operator<<(std::ostream &out, const RingEvent &event) {
    return out << "{" << event.type << ", " << event.value << "}";
}

inline std::string
fileBytes(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Ring {
    std::uint64_t write, read, capacity, mask;
    std::uint64_t version, expectedVersion;
    std::uint64_t fileSize;
    std::vector<RingEvent> events; ///< not read yet, oldest first
    std::uint64_t padding = 0;     ///< all padding bytes of all slots, or-ed
};

/// Throws if the file is shorter than it says.
inline Ring
parseRing(const std::string &path) {
    const std::string bytes = fileBytes(path);
    const auto number = [&](std::size_t offset, int count) {
        std::uint64_t value = 0;
        for (int i = count - 1; i >= 0; --i)
            value = value << 8 | static_cast<unsigned char>(bytes.at(offset + static_cast<std::size_t>(i)));
        return value;
    };
    Ring ring{number(0, 8),  number(8, 8),  number(24, 8), number(32, 8),
              number(16, 4), number(20, 4), bytes.size(),  {}};
    if (ring.capacity == 0 || ring.capacity > bytes.size())
        throw std::runtime_error("capacity");
    for (std::uint64_t slot = ring.read; slot != ring.write; slot = (slot + 1) % ring.capacity)
        ring.events.push_back(
            {static_cast<std::uint32_t>(number(40 + 16 * slot, 4)), number(48 + 16 * slot, 8)});
    for (std::uint64_t slot = 0; slot < ring.capacity; ++slot)
        ring.padding |= number(44 + 16 * slot, 4);
    return ring;
}

} // namespace nixl::test
