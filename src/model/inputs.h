// What the host prepares for a step, the same for every backend: table rows and rotary angles of its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "model/precision.h"

namespace gemmatrace::model {

// A table [rows, columns] of which single rows are read, upcast to float.
struct TableView {
    int64_t rows = 0;
    int32_t columns = 0;
    std::function<void(int64_t row, std::span<float> values)> read_row;
};

// The inputs of one step. Rows are tokens in the order they were given.
struct StepInputs {
    int32_t tokens = 0;
    std::vector<int64_t> positions;                     // [tokens], absolute, from 0
    std::vector<float> embeddings;                      // [tokens, hidden]
    std::vector<float> per_layer_rows;                  // [tokens, layers * ple_dim]
    std::vector<float> sliding_cosines, sliding_sines;  // [tokens, head_dim of sliding layers]
    std::vector<float> full_cosines, full_sines;        // [tokens, head_dim of full layers]
};

// Prepares steps of one model. The tables must outlive it.
class InputBuilder {
  public:
    InputBuilder(const checkpoint::ModelConfig& config, Precision precision, TableView embedding, TableView per_layer);

    // Throws Error(bad_request) for an id that the tables have no row for.
    void check_ids(std::span<const int32_t> ids) const;
    // Fills `inputs` (whose storage is reused) for ids at positions; ids must be within the vocabulary.
    void build(std::span<const int32_t> ids, std::span<const int64_t> positions, StepInputs& inputs) const;
    // Its halves, for who knows the positions of a step before its ids.
    void build_angles(std::span<const int64_t> positions, StepInputs& inputs) const;
    void build_rows(std::span<const int32_t> ids, StepInputs& inputs) const;

  private:
    int32_t table_row(int32_t id) const;
    void read_scaled(const TableView& table, float factor, int64_t row, std::span<float> values) const;

    const checkpoint::ModelConfig& config_;
    Precision precision_;
    TableView embedding_;
    TableView per_layer_;
    float embedding_factor_ = 1.0F;
    float per_layer_factor_ = 1.0F;
    std::vector<float> sliding_frequencies_;
    std::vector<float> full_frequencies_;
};

// Throws Error(too_long) when a sequence of `length` tokens in a slot of `capacity` cannot take `tokens` more.
void check_room(int64_t length, size_t tokens, int64_t capacity);

}  // namespace gemmatrace::model
