// The decode step in miniature: sharded ranks agree, the cache lies in place, faults show.
#include <gtest/gtest.h>

#include "hlo/evaluation_plan.h"
#include "hlo/toy_modules.h"

namespace gemmatrace::hlo {
namespace {

using testing::decode_step;
using testing::StepSizes;
using testing::toy_inputs;

struct StepResult {
    std::vector<std::vector<double>> outputs;  // of rank 0: both caches, best, id, logits
};

StepResult run_step(const StepSizes& sizes, int threads = 1) {
    const Module module = decode_step(sizes);
    std::vector<std::vector<Tensor>> inputs;
    std::vector<std::vector<Argument>> arguments;
    for (int32_t rank = 0; rank < sizes.ranks; ++rank) inputs.push_back(toy_inputs(module, rank));
    for (auto& rank : inputs) arguments.push_back(testing::arguments_of(rank));
    const auto results = Evaluator(module, sizes.ranks, threads).run(arguments);
    StepResult result;
    const auto caches = module.aliases.size();
    for (size_t output = 0; output < results[0].size(); ++output) {
        const Tensor& tensor =
            output < caches ? inputs[0][static_cast<size_t>(module.aliases[output].parameter)] : results[0][output];
        result.outputs.push_back(testing::numbers_of(tensor));
    }
    return result;
}

TEST(DecodeStep, TheCacheIsWrittenInPlaceAndWeightsAreNeverCopied) {
    const Module module = decode_step({});
    int in_place = 0;
    for (const Step& step : plan_evaluation(module).steps) {
        const Instruction& instruction = module.entry().instructions[static_cast<size_t>(step.place)];
        if (step.manner == Manner::in_place) ++in_place;
        if (instruction.opcode == Opcode::dynamic_update_slice) {
            EXPECT_EQ(step.manner, Manner::in_place) << instruction.name;
        }
    }
    EXPECT_EQ(in_place, 4) << "two sequences, keys and values";
}

TEST(DecodeStep, ResultsDoNotDependOnThreads) {
    EXPECT_EQ(run_step({.ranks = 4}, 4).outputs, run_step({.ranks = 4}, 1).outputs);
    EXPECT_EQ(run_step({}, 2).outputs, run_step({}, 1).outputs);
}

TEST(DecodeStep, PlantedFaultsShowInTheResults) {
    const auto right = run_step({.ranks = 2}).outputs;
    const auto wrong_mask = run_step({.ranks = 2, .window_excess = 1}).outputs;
    const auto no_sum = run_step({.ranks = 2, .is_sum_forgotten = true}).outputs;
    const auto wrong_rotation = run_step({.ranks = 2, .are_halves_swapped = true}).outputs;
    EXPECT_NE(wrong_mask[4], right[4]);
    EXPECT_NE(no_sum[4], right[4]);
    EXPECT_NE(wrong_rotation[0], right[0]) << "a wrong key is seen in the cache";
    EXPECT_EQ(wrong_rotation[1], right[1]) << "values are not rotated";
}

}  // namespace
}  // namespace gemmatrace::hlo
