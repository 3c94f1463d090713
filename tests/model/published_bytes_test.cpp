// The published sizes, from config to slots: as many tensors and bytes as Transformers' own modules have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "checkpoint/synth.h"
#include "model/weight_plan.h"

namespace gemmatrace::model {
namespace {

struct Count {
    std::string_view size;
    size_t tensors;
    int64_t bf16_bytes;
};

// Counted from the state dict of `model.language_model` of 5.13.0, made on the meta device (gemma4.md 3.1 has the same
// numbers of tensors).
const std::vector<Count> kCounts{
    {"E2B", 540, 9'257'138'758},  {"E4B", 665, 14'926'026'836}, {"12B", 666, 23'814'700'640},
    {"26B", 657, 50'466'283'580}, {"31B", 832, 61'394'690'680},
};

TEST(WeightPlan, PublishedSizesHaveTheTensorsAndBytesOfTransformersModules) {
    for (const Count& count : kCounts) {
        SCOPED_TRACE(count.size);
        const auto config = checkpoint::parse_config(checkpoint::published_config(count.size), "config.json");
        const auto slots = weight_plan(config);
        int64_t bytes = 0;
        for (const WeightSlot& slot : slots) bytes += 2 * element_count(slot.shape).value();
        EXPECT_EQ(slots.size(), count.tensors);
        EXPECT_EQ(bytes, count.bf16_bytes);
    }
}

}  // namespace
}  // namespace gemmatrace::model
