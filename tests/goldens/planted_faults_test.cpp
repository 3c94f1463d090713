// An oracle that cannot fail is no oracle: the comparison is green as it is and red, at the right stage, for each
// fault.
#include "goldens/planted_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "goldens/pass.h"

namespace gemmatrace::goldens {
namespace {

// The longest pass crosses the window several times.
const Pass& longest_pass(const Golden& golden) {
    return *std::max_element(golden.passes.begin(), golden.passes.end(),
                             [](const Pass& a, const Pass& b) { return a.ids.size() < b.ids.size(); });
}

class EveryFault : public testing::TestWithParam<PlantedFault> {};

TEST_P(EveryFault, TurnsTheGoldenComparisonRedAtItsStage) {
    const PlantedFault& fault = GetParam();
    size_t shown = 0;
    for (const auto& checkpoint : checkpoints_with_goldens()) {
        Parts parts(checkpoint);
        if (!fault.concerns(parts.config)) continue;
        const Golden golden = read_golden(checkpoint);
        const Pass& pass = longest_pass(golden);
        ASSERT_FALSE(first_difference(parts, pass).has_value()) << checkpoint << " is not green without the fault";
        const std::string stage = fault.first_stage(parts.config);
        Changes changes;
        fault.plant(parts, changes);
        const auto difference = first_difference(parts, pass, changes);
        ASSERT_TRUE(difference.has_value()) << checkpoint << " stays green with " << fault.name;
        EXPECT_EQ(difference->stage, stage) << checkpoint;
        ++shown;
    }
    EXPECT_GT(shown, 0U) << "no checkpoint can show this fault";
}

INSTANTIATE_TEST_SUITE_P(Planted, EveryFault, testing::ValuesIn(planted_faults()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace gemmatrace::goldens
