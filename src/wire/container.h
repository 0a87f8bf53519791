// The container that everything is written into: a prefix, then items of tag, length, payload and a
// separator.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "util/status.h"

namespace nixl {

static_assert(std::endian::native == std::endian::little && sizeof(std::size_t) == 8,
              "numbers are written as they lie in memory: little-endian, 64 bits");

inline constexpr std::string_view kContainerPrefix = "nixlSerDes|";

/// Bytes of an item beside its tag and payload: the length and the separator.
inline constexpr std::size_t kItemOverhead = sizeof(std::uint64_t) + 1;

/// Appends items to a string that begins with kContainerPrefix and outlives the writer.
class Writer {
public:
    explicit Writer(std::string &out) : out_(out) {}

    void
    add(std::string_view tag, std::string_view payload) {
        add(tag, payload, {});
    }

    /// One item whose payload is `head` and `tail` together.
    void add(std::string_view tag, std::string_view head, std::string_view tail);

    void addU64(std::string_view tag, std::uint64_t value);
    void addI32(std::string_view tag, std::int32_t value);

    /// Makes room for `bytes` more.
    void
    expect(std::size_t bytes) {
        out_.reserve(out_.size() + bytes);
    }

private:
    std::string &out_;
};

/// Reads items in order. Every length is compared with the bytes that really follow before it is used, so no
/// input moves the cursor backwards or beyond the end. Payloads are views into the container. Errors are
/// NIXL_ERR_MISMATCH with tag and position; they leave the cursor where it was.
class Reader {
public:
    /// A reader before the first item, if the prefix is there.
    static Result<Reader> open(std::string_view container);

    /// Continues at `cursor`. REQUIRES: cursor <= container.size().
    Reader(std::string_view container, std::size_t cursor) : container_(container), cursor_(cursor) {}

    /// Payload of the next item without moving on. The value of the separator is not looked at.
    Result<std::string_view> peek(std::string_view tag) const;
    /// The same, and moves behind the item.
    Result<std::string_view> take(std::string_view tag);

    /// An item whose payload is exactly such a number.
    Result<std::uint64_t> takeU64(std::string_view tag);
    Result<std::int32_t> takeI32(std::string_view tag);

    /// A count of things that follow, each at least `least` bytes long: refused if they cannot all be there.
    Result<std::size_t> takeCount(std::string_view tag, std::size_t least);

    std::size_t
    cursor() const {
        return cursor_;
    }

    std::size_t
    remaining() const {
        return container_.size() - cursor_;
    }

private:
    template<typename Number> Result<Number> takeNumber(std::string_view tag);

    std::string_view container_;
    std::size_t cursor_;
};

} // namespace nixl
