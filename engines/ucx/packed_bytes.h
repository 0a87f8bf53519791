// Bytes that another process's UCX packed: walking them before this process's UCX reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "util/status.h"

namespace nixl::ucx {

/// Walks packed bytes from the front and never beyond their end. The first thing that does not fit ends the
/// walk for good: later steps do nothing and numbers read as 0, so a loop over what was read asks ok().
class PackedBytes {
public:
    /// `whole` names the bytes in messages: "the worker address". Both must outlive the walk.
    PackedBytes(std::string_view bytes, std::string_view whole) : bytes_(bytes), whole_(whole) {}

    std::uint8_t takeU8(std::string_view what);
    std::uint64_t takeU64(std::string_view what);
    float takeFloat(std::string_view what);
    void skip(std::size_t length, std::string_view what);
    /// Empty if they do not fit.
    std::string_view takeBytes(std::size_t length, std::string_view what);

    /// The next byte without moving on; -1: there is none.
    int peek() const;

    /// What was read at byte `at` is not as UCX packs it.
    template<typename... Parts>
    void
    refuse(std::size_t at, const Parts &...parts) {
        if (ok())
            status_ = Status::error(NIXL_ERR_MISMATCH, "byte ", at, " of ", whole_, ": ", parts...);
    }

    std::size_t
    position() const {
        return position_;
    }

    bool
    ok() const {
        return status_.ok();
    }

    /// Success if everything fitted and nothing is left; NIXL_ERR_MISMATCH with position and cause else.
    Status finish();

private:
    const char *take(std::size_t length, std::string_view what);
    template<typename Number> Number takeNumber(std::string_view what);

    std::string_view bytes_;
    std::string_view whole_;
    std::size_t position_ = 0;
    Status status_;
};

/// `bytes` with zeros behind them, for UCX to read. It hands the parts of a checked key or address to its
/// transports without their lengths; a transport that finds its part too short, or a text in it without an
/// end, reads on, and then into these zeros instead of foreign memory.
std::string padded(std::string_view bytes);

} // namespace nixl::ucx
