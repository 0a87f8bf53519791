#include "telemetry/metric_filter.h"

namespace nixl {

namespace {

/// One element of a pattern that fits exactly one character.
struct Element {
    std::size_t length; ///< characters of the pattern
    bool fits;
};

Element
matchElement(std::string_view pattern, char c) {
    if (pattern[0] != '[')
        return {1, pattern[0] == '?' || pattern[0] == c};
    const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
    const std::size_t first = negated ? 2 : 1;
    // A ']' directly after the opening belongs to the set.
    const std::size_t close = pattern.find(']', first + 1);
    if (close == std::string_view::npos)
        return {1, c == '['};
    bool member = false;
    for (std::size_t i = first; i < close; ++i) {
        const bool range = i + 2 < close && pattern[i + 1] == '-';
        const char last = range ? pattern[i + 2] : pattern[i];
        member = member || (pattern[i] <= c && c <= last);
        i += range ? 2 : 0;
    }
    return {close + 1, member != negated};
}

std::string_view
trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

} // namespace

bool
globMatches(std::string_view pattern, std::string_view text) {
    std::size_t p = 0;
    std::size_t t = 0;
    std::size_t star = std::string_view::npos;
    std::size_t starText = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            starText = t;
            continue;
        }
        if (p < pattern.size()) {
            const Element element = matchElement(pattern.substr(p), text[t]);
            if (element.fits) {
                p += element.length;
                ++t;
                continue;
            }
        }
        if (star == std::string_view::npos)
            return false;
        // The last '*' takes one character more; earlier ones need not be tried again.
        p = star + 1;
        t = ++starText;
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

MetricFilter
MetricFilter::parse(std::string_view patterns, std::vector<std::string> &unmatched) {
    MetricFilter filter;
    filter.enabled_.reset();
    bool any = false;
    while (!patterns.empty()) {
        const auto comma = patterns.find(',');
        const std::string_view token = trim(patterns.substr(0, comma));
        patterns.remove_prefix(comma == std::string_view::npos ? patterns.size() : comma + 1);
        if (token.empty())
            continue;
        any = true;
        bool matched = false;
        for (std::size_t i = 0; i < nixl_telemetry_event_type_count; ++i) {
            if (globMatches(token, nixlEnumStrings::telemetryEventTypeNames[i])) {
                filter.enabled_.set(i);
                matched = true;
            }
        }
        if (!matched)
            unmatched.emplace_back(token);
    }
    return any ? filter : MetricFilter();
}

} // namespace nixl
