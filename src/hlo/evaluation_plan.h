// In which order the entry's instructions run, which share memory, and when memory is free again.
#pragma once

#include <cstdint>
#include <vector>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// How an instruction gets its result.
enum class Manner : uint8_t {
    given,     // parameter, constant: it is there
    computed,  // into memory of its own
    view,      // lies in its first operand's memory, at a fixed or a run-time distance
    in_place,  // dynamic-update-slice: changes its first operand, which nothing reads any more
    reduced,   // all-reduce: into memory of its own, from the operands of all ranks
};

// What one place of the entry computation does. Tuples and their elements do nothing.
struct Step {
    int32_t place = 0;
    Manner manner = Manner::computed;
    std::vector<int32_t> operands;     // places, with elements of tuples resolved
    std::vector<int32_t> freed_after;  // places whose own memory nothing needs any more
};

struct EvaluationPlan {
    std::vector<Step> steps;            // in the order in which they run; parameters and constants are not among them
    std::vector<int32_t> outputs;       // places of the results, resolved
    std::vector<int32_t> freed_at_end;  // places whose own memory holds a result
};

// Of a sound module.
EvaluationPlan plan_evaluation(const Module& module);

// For a slice (fixed or dynamic), whether its elements lie beside each other whatever its start is.
bool is_contiguous_slice(const Shape& whole, const Shape& part);

}  // namespace gemmatrace::hlo
