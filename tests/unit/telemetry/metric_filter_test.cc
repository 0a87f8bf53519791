#include "telemetry/metric_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nixl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The values of the events that a list of patterns selects.
std::vector<std::uint32_t>
selected(std::string_view patterns, std::vector<std::string> *unmatched = nullptr) {
    std::vector<std::string> ignored;
    const MetricFilter filter = MetricFilter::parse(patterns, unmatched ? *unmatched : ignored);
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < 64; ++i) {
        if (filter.enabled(static_cast<nixl_telemetry_event_type_t>(i)))
            values.push_back(i);
    }
    return values;
}

TEST(GlobTest, MatchesTheWholeText) {
    EXPECT_TRUE(globMatches("abc", "abc"));
    EXPECT_FALSE(globMatches("abc", "abcd"));
    EXPECT_FALSE(globMatches("abc", "xabc"));
    EXPECT_FALSE(globMatches("", "a"));
    EXPECT_TRUE(globMatches("", ""));
    EXPECT_TRUE(globMatches("*", ""));
    EXPECT_TRUE(globMatches("a*c", "abbbc"));
    EXPECT_TRUE(globMatches("a**c*", "ac"));
    EXPECT_FALSE(globMatches("a*c", "abbbcd"));
    EXPECT_TRUE(globMatches("*ab*ab", "abxabab"));
    EXPECT_TRUE(globMatches("a?c", "abc"));
    EXPECT_FALSE(globMatches("a?c", "ac"));
}

TEST(GlobTest, Sets) {
    EXPECT_TRUE(globMatches("agent_[rt]x", "agent_tx"));
    EXPECT_FALSE(globMatches("agent_[rt]x", "agent_sx"));
    EXPECT_TRUE(globMatches("[a-c]z", "bz"));
    EXPECT_FALSE(globMatches("[a-c]z", "dz"));
    EXPECT_TRUE(globMatches("[!a-c]z", "dz"));
    EXPECT_FALSE(globMatches("[^a-c]z", "az"));
    EXPECT_TRUE(globMatches("[]x]", "]"));
    EXPECT_TRUE(globMatches("[a-]", "-"));
    EXPECT_TRUE(globMatches("[", "["));
    EXPECT_TRUE(globMatches("*[0-9]*[0-9]", "ab1cd2"));
}

TEST(GlobTest, ManyStarsEndSoon) {
    std::string pattern;
    for (int i = 0; i < 2000; ++i)
        pattern += "*a";
    EXPECT_FALSE(globMatches(pattern + "b", std::string(5000, 'a')));
}

TEST(MetricFilterTest, SelectsByName) {
    EXPECT_EQ(21u, selected("").size());
    EXPECT_EQ(21u, selected(" , ,").size());
    EXPECT_EQ(21u, selected("*").size());
    EXPECT_THAT(selected("agent_tx_bytes"), ElementsAre(0));
    EXPECT_THAT(selected("agent_[rt]x_bytes, agent_memory_*"), ElementsAre(0, 1, 4, 5));
    EXPECT_THAT(selected("\tagent_xfer_time ,agent_xfer_post_time"), ElementsAre(6, 7));
    EXPECT_THAT(selected("agent_telemetry*"), ElementsAre(20));
}

TEST(MetricFilterTest, ReportsWhatMatchesNothing) {
    std::vector<std::string> unmatched;
    EXPECT_THAT(selected("agent_tx_byte, agent_rx_bytes,AGENT_*", &unmatched), ElementsAre(1));
    EXPECT_THAT(unmatched, ElementsAre("agent_tx_byte", "AGENT_*"));
    // A list of which nothing fits selects nothing; it does not turn into "everything".
    EXPECT_THAT(selected("nonsense"), IsEmpty());
}

} // namespace
} // namespace nixl
