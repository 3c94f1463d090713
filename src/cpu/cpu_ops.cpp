// Execution of the dense operations; attention and experts are in cpu_attention.cpp and cpu_experts.cpp.
#include "cpu/cpu_ops.h"

#include <algorithm>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "cpu/row_ops.h"

namespace gemmatrace::cpu {

using model::Value;
using model::Weight;

namespace {

constexpr int64_t kWorthSplitting = 32768;  // multiply-adds below which waking a thread costs more than it saves
constexpr int64_t kRowGrain = 12;           // whole tiles of 3 and of 4 weight rows

}  // namespace

CpuOps::CpuOps(const checkpoint::ModelConfig& config, const Weights& weights, const Kernels& kernels, ThreadPool& pool,
               model::Precision precision)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      pool_(pool),
      round_(precision == model::Precision::bf16),
      scratch_(static_cast<size_t>(pool.size())) {}

void CpuOps::begin_step(const model::StepInputs& inputs, std::span<const RowPlace> places,
                        std::span<const int32_t> outputs) {
    inputs_ = &inputs;
    places_ = places;
    outputs_ = outputs;
    arena_top_ = layer_mark_ = layer_matrices_ = 0;
    matrices_.clear();
}

size_t CpuOps::workspace_bytes() const {
    size_t total = arena_.capacity() * sizeof(float);
    for (const auto& scratch : scratch_) {
        total += (scratch.products.capacity() + scratch.scores.capacity() + scratch.sums.capacity() +
                  scratch.squares.capacity()) *
                 sizeof(float);
    }
    return total;
}

Value CpuOps::make(int64_t rows, int32_t columns) {
    const size_t stride = (static_cast<size_t>(columns) + 15) / 16 * 16;
    const size_t offset = arena_top_;
    arena_top_ += static_cast<size_t>(rows) * stride;
    if (arena_.size() < arena_top_) arena_.resize(arena_top_);
    matrices_.push_back({offset, rows, columns, stride});
    return {static_cast<int32_t>(matrices_.size()) - 1, columns};
}

const float* CpuOps::row(Value value, int64_t index) const {
    const Matrix& place = matrix(value);
    return arena_.data() + place.offset + static_cast<size_t>(index) * place.stride;
}

float* CpuOps::row(Value value, int64_t index) { return const_cast<float*>(std::as_const(*this).row(value, index)); }

std::span<const float> CpuOps::row_values(Value value, int64_t index) const {
    return {row(value, index), static_cast<size_t>(value.columns)};
}

std::span<float> CpuOps::row_values(Value value, int64_t index) {
    return {row(value, index), static_cast<size_t>(value.columns)};
}

std::span<const float> CpuOps::vector(Weight weight) const {
    const WeightData& data = weights_.at(weight);
    return {data.f32, static_cast<size_t>(data.columns)};
}

void CpuOps::for_rows(int64_t rows, int64_t cost_per_row, const std::function<void(int, int64_t)>& work) {
    const auto run = [&](int thread, int64_t begin, int64_t end) {
        for (int64_t index = begin; index < end; ++index) work(thread, index);
    };
    if (rows * cost_per_row < kWorthSplitting) {
        run(0, 0, rows);
    } else {
        pool_.parallel_for(rows, 1, run);
    }
}

Value CpuOps::input(const std::vector<float>& rows, int64_t columns) {
    const Value value = make(inputs_->tokens, static_cast<int32_t>(columns));
    for (int64_t token = 0; token < inputs_->tokens; ++token) {
        std::copy_n(rows.data() + token * columns, columns, row(value, token));
    }
    return value;
}

Value CpuOps::embeddings() { return input(inputs_->embeddings, config_.hidden_size); }

Value CpuOps::per_layer_rows() {
    return input(inputs_->per_layer_rows, static_cast<int64_t>(config_.layers.size()) * config_.ple_dim);
}

float* CpuOps::product_memory(Scratch& scratch, int32_t tokens, int64_t columns) {
    constexpr size_t kLine = 64 / sizeof(float);
    const size_t size = product_scratch(tokens, columns) + kLine;
    if (scratch.products.size() < size) scratch.products.resize(size);
    const auto place = reinterpret_cast<uintptr_t>(scratch.products.data()) / sizeof(float) % kLine;
    return scratch.products.data() + (kLine - place) % kLine;
}

void CpuOps::run_linear(const float* x, size_t x_stride, int32_t tokens, const WeightData& weight, int64_t expert,
                        float* out, size_t out_stride) {
    const int64_t skipped = expert * weight.rows * weight.columns;
    const auto run = [&](int thread, int64_t begin, int64_t end) {
        float* memory = product_memory(scratch_[static_cast<size_t>(thread)], tokens, weight.columns);
        if (weight.bf16 != nullptr) {
            kernels_.linear_bf16(x, x_stride, tokens, weight.bf16 + skipped, weight.columns, begin, end, out,
                                 out_stride, round_, memory);
        } else {
            kernels_.linear_f32(x, x_stride, tokens, weight.f32 + skipped, weight.columns, begin, end, out, out_stride,
                                round_, memory);
        }
    };
    if (weight.rows * weight.columns * tokens < kWorthSplitting) {
        run(0, 0, weight.rows);
    } else {
        pool_.parallel_for(weight.rows, kRowGrain, run);
    }
}

Value CpuOps::linear(Value x, Weight weight) {
    const WeightData& data = weights_.at(weight);
    require(data.columns == x.columns, "a product's inner sizes agree");
    const Matrix source = matrix(x);
    const Value out = make(source.rows, static_cast<int32_t>(data.rows));
    run_linear(row(x, 0), source.stride, static_cast<int32_t>(source.rows), data, 0, row(out, 0), matrix(out).stride);
    return out;
}

Value CpuOps::rms_norm(Value x, std::optional<Weight> weight, int32_t group) {
    const Value out = make(matrix(x).rows, x.columns);
    const std::span<const float> factors = weight ? vector(*weight) : std::span<const float>();
    const auto eps = static_cast<float>(config_.rms_norm_eps);
    const auto width = static_cast<size_t>(group);
    for_rows(matrix(x).rows, x.columns, [&](int thread, int64_t index) {
        auto& squares = scratch_[static_cast<size_t>(thread)].squares;
        if (squares.size() < width) squares.resize(width);
        for (int32_t first = 0; first < x.columns; first += group) {
            rms_norm_row({row(x, index) + first, width}, factors, eps, round_, squares, row(out, index) + first);
        }
    });
    return out;
}

Value CpuOps::rope(Value x, checkpoint::AttentionKind kind, int32_t head_dim) {
    const Value out = make(matrix(x).rows, x.columns);
    const bool is_full = kind == checkpoint::AttentionKind::full;
    const auto& cosines = is_full ? inputs_->full_cosines : inputs_->sliding_cosines;
    const auto& sines = is_full ? inputs_->full_sines : inputs_->sliding_sines;
    const auto width = static_cast<size_t>(head_dim);
    for_rows(matrix(x).rows, x.columns, [&](int, int64_t index) {
        const std::span<const float> cosine(cosines.data() + static_cast<size_t>(index) * width, width);
        const std::span<const float> sine(sines.data() + static_cast<size_t>(index) * width, width);
        for (int32_t first = 0; first < x.columns; first += head_dim) {
            rope_head(row(x, index) + first, cosine, sine, round_, row(out, index) + first);
        }
    });
    return out;
}

Value CpuOps::gelu_mul(Value gate, Value up) {
    const Value out = make(matrix(gate).rows, gate.columns);
    for_rows(matrix(gate).rows, int64_t{gate.columns} * 4, [&](int, int64_t index) {
        gelu_mul_row(row(gate, index), row(up, index), gate.columns, gate.columns, round_, row(out, index));
    });
    return out;
}

Value CpuOps::add(Value a, Value b) {
    const Value out = make(matrix(a).rows, a.columns);
    for_rows(matrix(a).rows, a.columns, [&](int, int64_t index) {
        const float* left = row(a, index);
        const float* right = row(b, index);
        float* sum = row(out, index);
        for (int32_t column = 0; column < a.columns; ++column) {
            const float value = left[column] + right[column];
            sum[column] = round_ ? round_bf16(value) : value;
        }
    });
    return out;
}

Value CpuOps::scale(Value x, double factor) {
    const Value out = make(matrix(x).rows, x.columns);
    const auto by = static_cast<float>(factor);
    for_rows(matrix(x).rows, x.columns, [&](int, int64_t index) {
        const float* source = row(x, index);
        float* product = row(out, index);
        for (int32_t column = 0; column < x.columns; ++column) {
            const float value = source[column] * by;
            product[column] = round_ ? round_bf16(value) : value;
        }
    });
    return out;
}

Value CpuOps::multiply(Value x, Weight weight) {
    const Value out = make(matrix(x).rows, x.columns);
    const std::span<const float> factors = vector(weight);
    const size_t step = factors.size() == 1 ? 0 : 1;
    for_rows(matrix(x).rows, x.columns, [&](int, int64_t index) {
        const float* source = row(x, index);
        float* product = row(out, index);
        for (int32_t column = 0; column < x.columns; ++column) {
            const float value = source[column] * factors[static_cast<size_t>(column) * step];
            product[column] = round_ ? round_bf16(value) : value;
        }
    });
    return out;
}

Value CpuOps::columns(Value x, int32_t first, int32_t count) {
    Matrix part = matrix(x);
    part.offset += static_cast<size_t>(first);
    part.columns = count;
    matrices_.push_back(part);
    return {static_cast<int32_t>(matrices_.size()) - 1, count};
}

Value CpuOps::end_layer(int32_t layer, Value stream) {
    const int64_t rows = matrix(stream).rows;
    if (layer < 0) {
        streams_[0] = make(rows, stream.columns);
        streams_[1] = make(rows, stream.columns);
        layer_mark_ = arena_top_;
        layer_matrices_ = matrices_.size();
    }
    const Value kept = streams_[layer % 2 == 0 ? 0 : 1];
    for (int64_t index = 0; index < rows; ++index) std::copy_n(row(stream, index), stream.columns, row(kept, index));
    arena_top_ = layer_mark_;
    matrices_.resize(layer_matrices_);
    if (observer_) {
        std::vector<float> values;
        for (int64_t index = 0; index < rows; ++index) {
            values.insert(values.end(), row(kept, index), row(kept, index) + kept.columns);
        }
        observer_(layer, values);
    }
    return kept;
}

Value CpuOps::output_rows(Value stream) {
    const Value out = make(static_cast<int64_t>(outputs_.size()), stream.columns);
    for (size_t index = 0; index < outputs_.size(); ++index) {
        std::copy_n(row(stream, outputs_[index]), stream.columns, row(out, static_cast<int64_t>(index)));
    }
    return out;
}

}  // namespace gemmatrace::cpu
