// Which stored tensors, and which parts of them, make up the weight inputs of a program on each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "model/weight_plan.h"

namespace gemmatrace::trace {

// A part of a tensor seen as [outer, rows, columns]: of one outer index, a run of rows and of columns.
struct Piece {
    int32_t slot = -1;  // of the weight plan
    int64_t row_begin = 0;
    int64_t rows = 0;
    int64_t column_begin = 0;
    int64_t columns = 0;
};

// An input: for each outer index its pieces one below the other, all of the same width. bf16, row-major.
struct PackedInput {
    std::string name;
    std::vector<int64_t> dimensions;         // on one rank; the same on all
    int64_t outer = 1;                       // experts, each holding the pieces once; otherwise 1
    std::vector<std::vector<Piece>> pieces;  // [rank]
    bool is_one_product = false;  // its slots multiply the same value, so that one product serves all of them

    int64_t bytes() const;
};

// Where a slot's part lies: rows [row_begin, row_begin + rows) of an input of one outer index, or of each.
struct Placement {
    int32_t input = -1;  // none: the slot stays on the host
    int64_t row_begin = 0;
    int64_t rows = 0;     // on one rank
    int64_t columns = 0;  // on one rank
};

struct Packing {
    std::vector<PackedInput> inputs;
    std::vector<Placement> placements;  // by slot
};

// A few inputs a layer (query, key and value together; gate and up; output; down; experts) and, for the whole model,
// one for each length of vectors and one for each kind of small matrix. Asks for a config that model::check_sharding
// accepted with so many ranks.
Packing pack_weights(const checkpoint::ModelConfig& config, const model::WeightPlan& plan, int32_t ranks);

}  // namespace gemmatrace::trace
