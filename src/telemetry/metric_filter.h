// Which events are wanted.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry_event.h"

namespace nixl {

/// True if the whole text fits the pattern: '*' any characters, '?' one, '[ab]', '[a-z]' and '[!a]' one of a
/// set (an unclosed '[' stands for itself), everything else itself. Takes at most pattern x text steps.
bool globMatches(std::string_view pattern, std::string_view text);

/// A selection of events by their names. Immutable.
class MetricFilter {
public:
    /// Selects everything.
    MetricFilter() {
        enabled_.set();
    }

    /// A comma-separated list of patterns, blanks around them ignored; without any, everything is selected.
    /// Patterns that fit no event are appended to `unmatched` and select nothing.
    static MetricFilter parse(std::string_view patterns, std::vector<std::string> &unmatched);

    /// False also for values that are no event.
    bool
    enabled(nixl_telemetry_event_type_t type) const {
        const auto index = static_cast<std::size_t>(type);
        return index < enabled_.size() && enabled_[index];
    }

private:
    std::bitset<nixl_telemetry_event_type_count> enabled_;
};

} // namespace nixl
