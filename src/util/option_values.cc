// How the value of an option is written, by the type of its field.
#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <type_traits>

#include "util/options.h"

namespace nixl {

namespace {

constexpr std::array<std::string_view, 6> kTrueWords = {"y", "yes", "on", "true", "enable", "1"};
constexpr std::array<std::string_view, 6> kFalseWords = {"n", "no", "off", "false", "disable", "0"};

bool
isOneOf(std::string_view text, const std::array<std::string_view, 6> &words) {
    return std::any_of(words.begin(), words.end(), [text](std::string_view word) {
        return text.size() == word.size() && ::strncasecmp(text.data(), word.data(), text.size()) == 0;
    });
}

// One `parse` for each type of field: the value, or nothing if the text is none.

std::optional<bool>
parse(std::string_view text, const OptionRow &, std::type_identity<bool>) {
    return parseYesNo(text);
}

std::optional<std::uint64_t>
parse(std::string_view text, const OptionRow &row, std::type_identity<std::uint64_t>) {
    const std::optional<std::uint64_t> value = parseNumber(text);
    return value && *value >= row.least && *value <= row.most ? value : std::nullopt;
}

std::optional<unsigned>
parse(std::string_view text, const OptionRow &row, std::type_identity<unsigned>) {
    const std::optional<std::uint64_t> value = parse(text, row, std::type_identity<std::uint64_t>());
    if (!value || *value > std::numeric_limits<unsigned>::max())
        return std::nullopt;
    return static_cast<unsigned>(*value);
}

std::optional<std::chrono::milliseconds>
parse(std::string_view text, const OptionRow &row, std::type_identity<std::chrono::milliseconds>) {
    const std::optional<std::uint64_t> value = parse(text, row, std::type_identity<std::uint64_t>());
    if (!value)
        return std::nullopt;
    return std::chrono::milliseconds(*value);
}

std::optional<LogLevel>
parse(std::string_view text, const OptionRow &, std::type_identity<LogLevel>) {
    return parseLogLevel(text);
}

std::optional<std::string>
parse(std::string_view text, const OptionRow &, std::type_identity<std::string>) {
    // A path or address would end at the NUL for the system.
    if (text.find('\0') != std::string_view::npos)
        return std::nullopt;
    return std::string(text);
}

std::optional<std::optional<bool>>
parse(std::string_view text, const OptionRow &row, std::type_identity<std::optional<bool>>) {
    const std::optional<bool> value = parse(text, row, std::type_identity<bool>());
    return value ? std::make_optional(value) : std::nullopt;
}

std::string
print(bool value) {
    return value ? "on" : "off";
}

std::string
print(std::optional<bool> value) {
    return value ? print(*value) : "";
}

std::string
print(const std::string &value) {
    return value;
}

std::string
print(std::uint64_t value) {
    return std::to_string(value);
}

std::string
print(unsigned value) {
    return std::to_string(value);
}

std::string
print(std::chrono::milliseconds value) {
    return std::to_string(value.count());
}

std::string
print(LogLevel value) {
    return std::string(logLevelName(value));
}

std::string
numbers(const char *what, const OptionRow &row) {
    return concat(what, " from ", row.least, " to ", row.most, ", decimal or hexadecimal with 0x");
}

std::string
accepted(const OptionRow &, std::type_identity<bool>) {
    return "one of y, yes, on, true, enable, 1 or n, no, off, false, disable, 0, in any case of letters";
}

std::string
accepted(const OptionRow &row, std::type_identity<std::optional<bool>>) {
    return accepted(row, std::type_identity<bool>());
}

std::string
accepted(const OptionRow &, std::type_identity<std::string>) {
    return "any text without a NUL byte";
}

std::string
accepted(const OptionRow &row, std::type_identity<std::uint64_t>) {
    return numbers("a number", row);
}

std::string
accepted(const OptionRow &row, std::type_identity<unsigned>) {
    return numbers("a number", row);
}

std::string
accepted(const OptionRow &row, std::type_identity<std::chrono::milliseconds>) {
    return numbers("a number of milliseconds", row);
}

std::string
accepted(const OptionRow &, std::type_identity<LogLevel>) {
    return "one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL, in any case of letters";
}

template<typename T>
std::type_identity<T>
typeOf(T Options::*) {
    return {};
}

} // namespace

std::optional<bool>
parseYesNo(std::string_view text) {
    if (isOneOf(text, kTrueWords))
        return true;
    if (isOneOf(text, kFalseWords))
        return false;
    return std::nullopt;
}

std::optional<std::uint64_t>
parseNumber(std::string_view text) {
    int base = 10;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text.remove_prefix(2);
        base = 16;
    }
    std::uint64_t value = 0;
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, base);
    if (error != std::errc() || stop != end)
        return std::nullopt;
    return value;
}

std::string
optionValue(const Options &options, const OptionRow &row) {
    const std::string value = std::visit([&](auto field) { return print(options.*field); }, row.field);
    return row.secret && !value.empty() ? "(hidden)" : value;
}

std::string
acceptedValues(const OptionRow &row) {
    return std::visit([&](auto field) { return accepted(row, typeOf(field)); }, row.field);
}

Status
setOption(Options &options, const OptionRow &row, std::string_view text) {
    const auto set = [&](auto field) -> Status {
        if (text.empty()) {
            options.*field = Options().*field;
            return {};
        }
        auto value = parse(text, row, typeOf(field));
        if (!value)
            return Status::error(NIXL_ERR_INVALID_PARAM, "accepted is ", acceptedValues(row));
        options.*field = *std::move(value);
        return {};
    };
    return std::visit(set, row.field);
}

} // namespace nixl
