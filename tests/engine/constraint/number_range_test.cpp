// Bounds of numbers hold exactly: every candidate is taken if and only if comparing says so.
#include "engine/constraint/number_range.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/constraint/grammar_matches.h"

namespace gemmatrace::engine {
namespace {

TEST(NumberRangeTest, integers_between_all_small_bounds) {
    const std::vector<int> bounds{-121, -100, -99, -10, -1, 0, 1, 9, 10, 57, 99, 100, 130};
    for (const int low : bounds) {
        for (const int high : bounds) {
            if (low > high) continue;
            const GrammarPtr grammar =
                schema_grammar(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high));
            for (int value = -140; value <= 140; ++value) {
                ASSERT_EQ(takes(grammar, std::to_string(value)), low <= value && value <= high)
                    << value << " in " << low << " to " << high;
            }
        }
    }
}

TEST(NumberRangeTest, bounds_of_integers_may_be_fractions_exclusive_or_large) {
    EXPECT_TRUE(schema_takes(R"({"type":"integer","minimum":-1.5,"exclusiveMaximum":2.0})", "-1"));
    EXPECT_FALSE(schema_takes(R"({"type":"integer","minimum":-1.5})", "-2"));
    EXPECT_FALSE(schema_takes(R"({"type":"integer","exclusiveMaximum":2.0})", "2"));
    EXPECT_TRUE(schema_takes(R"({"type":"integer","exclusiveMinimum":1.5})", "2"));
    EXPECT_FALSE(schema_takes(R"({"type":"integer","exclusiveMinimum":1.5})", "1"));
    EXPECT_TRUE(schema_takes(R"({"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991})",
                             "9007199254740991"));
    EXPECT_FALSE(schema_takes(R"({"type":"integer","maximum":9007199254740991})", "9007199254740992"));
    EXPECT_TRUE(schema_takes(R"({"type":"integer","maximum":18446744073709551615})", "999999999999999999"));
    EXPECT_TRUE(schema_takes(R"({"type":"integer","minimum":1e3})", "1000"));
    EXPECT_FALSE(schema_takes(R"({"type":"integer","minimum":1e3})", "999"));
    EXPECT_THROW(schema_grammar(R"({"type":"integer","minimum":1e30})"), Error);
    EXPECT_FALSE(schema_takes(R"({"type":"integer","minimum":0})", "-0"));
}

TEST(NumberRangeTest, decimals_between_bounds) {
    struct Case {
        const char* schema;
        double low;
        double high;
    };
    const std::vector<Case> cases{{R"({"type":"number","minimum":-1.25,"maximum":3.5})", -1.25, 3.5},
                                  {R"({"type":"number","minimum":0.09,"maximum":10.01})", 0.09, 10.01},
                                  {R"({"type":"number","minimum":-20,"maximum":-0.5})", -20, -0.5},
                                  {R"({"type":"number","minimum":9.99,"maximum":100})", 9.99, 100}};
    for (const Case& entry : cases) {
        const GrammarPtr grammar = schema_grammar(entry.schema);
        for (int hundredths = -2200; hundredths <= 11000; hundredths += 1) {
            const std::string sign = hundredths < 0 ? "-" : "";
            const int magnitude = std::abs(hundredths);
            const std::string text = fmt::format("{}{}.{:02}", sign, magnitude / 100, magnitude % 100);
            const double value = std::strtod(text.c_str(), nullptr);
            ASSERT_EQ(takes(grammar, text), entry.low <= value && value <= entry.high)
                << text << " for " << entry.schema;
        }
    }
}

TEST(NumberRangeTest, exclusive_bounds_of_decimals_are_not_reached) {
    const GrammarPtr grammar = schema_grammar(R"({"type":"number","exclusiveMinimum":1.5,"exclusiveMaximum":2})");
    for (const char* text : {"1.5", "1.50", "1.500000", "2", "2.0"}) EXPECT_FALSE(takes(grammar, text)) << text;
    for (const char* text : {"1.500001", "1.6", "1.999999"}) EXPECT_TRUE(takes(grammar, text)) << text;
}

TEST(NumberRangeTest, a_bound_of_zero_keeps_exponents) {
    EXPECT_TRUE(schema_takes(R"({"type":"number","minimum":0})", "1.5e-7"));
    EXPECT_FALSE(schema_takes(R"({"type":"number","minimum":0})", "-1"));
    EXPECT_FALSE(schema_takes(R"({"type":"number","exclusiveMinimum":0})", "0.0"));
    EXPECT_TRUE(schema_takes(R"({"type":"number","exclusiveMinimum":0})", "0.01e2"));
    EXPECT_TRUE(schema_takes(R"({"type":"number","maximum":0})", "0"));
    EXPECT_TRUE(schema_takes(R"({"type":"number","maximum":0})", "-3e5"));
    EXPECT_FALSE(schema_takes(R"({"type":"number","exclusiveMaximum":0})", "0"));
    EXPECT_TRUE(schema_takes(R"({"type":"number","maximum":1.7976931348623157e308})", "1e99"));
}

TEST(NumberRangeTest, numbers_between_two_close_decimals) {
    const GrammarPtr grammar = schema_grammar(R"({"type":"number","minimum":0.1,"maximum":0.1})");
    EXPECT_TRUE(takes(grammar, "0.1"));
    EXPECT_TRUE(takes(grammar, "0.100"));
    EXPECT_FALSE(takes(grammar, "0.11"));
    EXPECT_FALSE(takes(grammar, "0"));
}

}  // namespace
}  // namespace gemmatrace::engine
