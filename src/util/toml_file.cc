#include "util/toml_file.h"

#ifdef NIXL_HAVE_TOML
#include <algorithm>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>
#endif

namespace nixl {

#ifdef NIXL_HAVE_TOML

namespace {

/// What the value is, for a message.
const char *
kind(const toml::node &node) {
    switch (node.type()) {
    case toml::node_type::table:
        return "a table";
    case toml::node_type::array:
        return "an array";
    case toml::node_type::floating_point:
        return "a floating-point number";
    default:
        return "a date or time";
    }
}

TomlEntry
makeEntry(std::string_view name, const toml::node &node) {
    TomlEntry entry{.name = std::string(name), .text = {}, .unusable = {}, .line = node.source().begin.line};
    if (const auto *text = node.as_string())
        entry.text = text->get();
    else if (const auto *number = node.as_integer())
        entry.text = std::to_string(number->get());
    else if (const auto *boolean = node.as_boolean())
        entry.text = boolean->get() ? "true" : "false";
    else
        entry.unusable = kind(node);
    return entry;
}

} // namespace

bool
readsToml() {
    return true;
}

Result<std::vector<TomlEntry>>
parseToml(const ConfigText &file) {
    const toml::parse_result parsed = toml::parse(std::string_view(file.text));
    if (!parsed)
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", file.path, "', line ",
                             parsed.error().source().begin.line, ": ", parsed.error().description());
    std::vector<TomlEntry> entries;
    for (auto &&[key, node] : parsed.table())
        entries.push_back(makeEntry(key.str(), node));
    std::stable_sort(entries.begin(), entries.end(),
                     [](const TomlEntry &a, const TomlEntry &b) { return a.line < b.line; });
    return entries;
}

#else

bool
readsToml() {
    return false;
}

Result<std::vector<TomlEntry>>
parseToml(const ConfigText &file) {
    if (!file.text.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", file.path,
                             "' cannot be read: this library was built without toml++");
    return std::vector<TomlEntry>();
}

#endif

} // namespace nixl
