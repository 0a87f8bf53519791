// Errors are values with a cause: the code of the public interface and a sentence that names what was wrong.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "nixl_types.h"
#include "util/concat.h"

namespace nixl {

/// The outcome of an operation. Success carries nothing and costs nothing; an error carries a negative
/// nixl_status_t and a message for a person. NIXL_IN_PROG is not an outcome and never stored here.
class [[nodiscard]] Status {
public:
    Status() = default;

    Status(nixl_status_t code, std::string message) : code_(code), message_(std::move(message)) {}

    /// An error whose message is the concatenation of `parts`.
    template<typename... Parts>
    static Status
    error(nixl_status_t code, const Parts &...parts) {
        return Status(code, concat(parts...));
    }

    bool
    ok() const {
        return code_ == NIXL_SUCCESS;
    }

    nixl_status_t
    code() const {
        return code_;
    }

    const std::string &
    message() const {
        return message_;
    }

    /// The same error with `context` and ": " in front of its message.
    Status
    withContext(std::string_view context) const {
        return ok() ? *this : Status(code_, concat(context, ": ", message_));
    }

private:
    nixl_status_t code_ = NIXL_SUCCESS;
    std::string message_;
};

/// A value or the error that prevented it.
template<typename T> class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}

    Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool
    ok() const {
        return state_.index() == 0;
    }

    /// REQUIRES: ok().
    T &
    value() & {
        return std::get<0>(state_);
    }

    const T &
    value() const & {
        return std::get<0>(state_);
    }

    T &&
    value() && {
        return std::get<0>(std::move(state_));
    }

    /// The error, or success if there is a value.
    Status
    status() const {
        return ok() ? Status() : std::get<1>(state_);
    }

private:
    std::variant<T, Status> state_;
};

} // namespace nixl

/// Leaves the enclosing function with the error of `expr`, if it has one.
#define NIXL_RETURN_IF_ERROR(expr)                                                                           \
    do {                                                                                                     \
        if (::nixl::Status status_ = (expr); !status_.ok())                                                  \
            return status_;                                                                                  \
    } while (0)
