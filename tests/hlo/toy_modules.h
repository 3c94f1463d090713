// Small programs that between them use everything: every operation on several types, and a decode step in miniature.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/tensors.h"

namespace gemmatrace::hlo::testing {

// Collects results under names of their own.
class Outputs {
  public:
    void add(Value value) { outputs_.push_back({"result" + std::to_string(outputs_.size()), value}); }
    void add(std::string name, Value value) { outputs_.push_back({std::move(name), value}); }
    void add_aliased(const std::string& name, Value value, Value parameter) {
        outputs_.push_back({name, value, parameter});
    }
    const std::vector<Output>& all() const { return outputs_; }

  private:
    std::vector<Output> outputs_;
};

// Every elementwise operation on every type that has it, and conversions between all types.
inline Module elementwise_module() {
    using enum ElementType;
    Builder b("elementwise");
    Outputs outputs;
    std::vector<Value> firsts;
    for (const ElementType type : {f32, bf16, s32, u32, s8, u8, pred}) {
        const std::string name(type_name(type));
        const Value x = b.parameter(name + "_x", Shape(type, {4, 8}));
        const Value y = b.parameter(name + "_y", Shape(type, {4, 8}));
        firsts.push_back(x);
        const bool is_number = type != pred;
        for (auto code = static_cast<int>(Opcode::add); code <= static_cast<int>(Opcode::logical_not); ++code) {
            const auto opcode = static_cast<Opcode>(code);
            const bool is_logical =
                opcode == Opcode::logical_and || opcode == Opcode::logical_or || opcode == Opcode::logical_not;
            const bool is_ordered = opcode == Opcode::maximum || opcode == Opcode::minimum;
            const bool is_for_integers =
                is_logical || (is_binary(opcode) && opcode != Opcode::power) ||
                (type != u32 && type != u8 && opcode <= Opcode::sign && opcode >= Opcode::negate);
            const bool exists = is_floating(type) ? !is_logical
                                : is_number       ? is_for_integers
                                                  : is_logical || is_ordered;
            if (!exists) continue;
            outputs.add(is_binary(opcode) ? b.binary(opcode, x, y) : b.unary(opcode, x));
        }
        for (const Comparison comparison :
             {Comparison::eq, Comparison::ne, Comparison::lt, Comparison::le, Comparison::gt, Comparison::ge}) {
            outputs.add(b.select(b.compare(comparison, x, y), x, y));
        }
        if (is_number) outputs.add(b.clamp(b.constant(type, 0), x, b.constant(type, 1)));
    }
    for (const Value from : firsts) {
        for (const ElementType to : {f32, bf16, s32, u32, s8, u8, pred}) {
            // s32 to bf16 is the one conversion that engines disagree about
            if (from.type() != to && !(to == bf16 && (from.type() == s32 || from.type() == u32)))
                outputs.add(b.convert(from, to));
        }
    }
    return b.finish(outputs.all());
}

// Every operation that moves, and every one that sums, on `ranks` ranks.
inline Module movement_module(int32_t ranks) {
    using enum ElementType;
    Builder b("movement" + std::to_string(ranks), ranks);
    Outputs outputs;
    const Value place = b.parameter("place", Shape(s32, {}));
    const Value rows = b.parameter("rows", Shape(s32, {2, 2}));
    const Value zero = b.constant(s32, 0);
    for (const ElementType type : {f32, bf16, s32}) {
        const std::string name(type_name(type));
        const Value x = b.parameter(name + "_x", Shape(type, {4, 3, 8}));
        const Value part = b.parameter(name + "_part", Shape(type, {2, 3, 1}));
        outputs.add(b.broadcast(x, {2, 4, 3, 8}, {1, 2, 3}));
        outputs.add(b.transpose(x, {2, 0, 1}));
        outputs.add(b.reshape(x, {12, 8}));
        outputs.add(b.slice(x, {{1, 4, 2}, {0, 3, 1}, {2, 8, 3}}));
        const std::vector<Value> pieces = {x, b.slice_axis(x, 1, 1, 2), x};
        outputs.add(b.concatenate(pieces, 1));
        outputs.add(b.iota(type, {3, 5}, 1));
        outputs.add(b.gather_rows(x, rows));
        const std::vector<Value> starts = {place, zero, place};
        outputs.add(b.dynamic_slice(x, starts, {2, 3, 5}));
        outputs.add(b.dynamic_update_slice(x, part, starts));
        outputs.add(b.reduce(x, Opcode::maximum, {0, 2}, -100));
        outputs.add(b.reduce(x, Opcode::minimum, {1}, 100));
        outputs.add(b.all_reduce(part, Opcode::add));
        outputs.add(b.all_reduce(part, Opcode::minimum));
        if (type == bf16) {
            const Value w = b.parameter("w", Shape(bf16, {40, 24}));
            outputs.add(b.dot(b.reshape(x, {4, 24}), w, {{1}, {1}, {}, {}}));
            outputs.add(b.dot(x, x, {{2}, {2}, {0}, {0}}));
            outputs.add(b.dot(b.slice_axis(w, 0, 0, 4), b.reshape(x, {4, 24}), {{0}, {0}, {}, {}}));
        } else {
            outputs.add(b.reduce(x, Opcode::add, {2}, 0));
            outputs.add(b.reduce(x, Opcode::multiply, {1}, 1));
        }
        if (type == f32) outputs.add(b.dot(x, x, {{1}, {1}, {2}, {2}}));
    }
    return b.finish(outputs.all());
}

// Sizes of the step below, of one rank.
struct StepSizes {
    int64_t batch = 2, hidden = 32, kv_heads = 2, group = 2, head_dim = 16, positions = 8, ff = 48, vocab = 96;
    int32_t ranks = 1;
    int64_t window_excess = 0;        // faults, for tests that must see them
    bool is_sum_forgotten = false;    // the first all-reduce
    bool are_halves_swapped = false;  // of the rotation
};

inline Value rms_norm(Builder& b, Value x, Value weight) {
    using enum ElementType;
    const Value wide = b.convert(x, f32);
    const auto& sizes = x.shape().dimensions;
    const auto last = static_cast<int64_t>(x.rank()) - 1;
    std::vector<int64_t> outer_axes;
    for (int64_t axis = 0; axis < last; ++axis) outer_axes.push_back(axis);
    const Value sum = b.reduce(b.multiply(wide, wide), Opcode::add, {last}, 0);
    const Value mean = b.divide(sum, b.splat_like(sum, static_cast<double>(sizes.back())));
    const Value scale = b.power(b.add(mean, b.splat_like(mean, 1e-6)), b.splat_like(mean, -0.5));
    const Value scaled = b.multiply(wide, b.broadcast(scale, sizes, outer_axes));
    return b.convert(b.multiply(scaled, b.broadcast(b.convert(weight, f32), sizes, {last})), bf16);
}

inline Value linear(Builder& b, Value x, Value weight) { return b.dot(x, weight, {{1}, {1}, {}, {}}); }

// Attention over the cache as it was and this step's keys, an MLP, and the best token, on every rank alike.
inline Module decode_step(const StepSizes& s) {
    using enum ElementType;
    Builder b("decode" + std::to_string(s.ranks), s.ranks);
    const int64_t q_rows = s.kv_heads * s.group * s.head_dim, kv_rows = s.kv_heads * s.head_dim;
    const Value x = b.parameter("hidden", Shape(bf16, {s.batch, s.hidden}));
    const Value position = b.parameter("position", Shape(s32, {s.batch}));
    const Value cosine = b.parameter("cos", Shape(bf16, {s.batch, s.head_dim}));
    const Value sine = b.parameter("sin", Shape(bf16, {s.batch, s.head_dim}));
    const Value rank = b.parameter("rank", Shape(s32, {}));
    const Value norm = b.parameter("weights.norm", Shape(bf16, {2, s.hidden}));
    const Value qkv = b.parameter("weights.qkv", Shape(bf16, {q_rows + 2 * kv_rows, s.hidden}));
    const Value o = b.parameter("weights.o", Shape(bf16, {s.hidden, q_rows}));
    const Value gate_up = b.parameter("weights.gate_up", Shape(bf16, {2 * s.ff, s.hidden}));
    const Value down = b.parameter("weights.down", Shape(bf16, {s.hidden, s.ff}));
    const Value head = b.parameter("weights.head", Shape(bf16, {s.vocab, s.hidden}));
    const Shape cache(bf16, {s.positions, s.batch, s.kv_heads, s.head_dim});
    const Value keys = b.parameter("kv.k" + std::string(kAliasSuffix), cache);
    const Value values = b.parameter("kv.v" + std::string(kAliasSuffix), cache);

    const auto row = [&](Value stacked, int64_t index) {
        return b.reshape(b.slice_axis(stacked, 0, index, index + 1), {stacked.dimension(1)});
    };
    const auto rotate = [&](Value heads) {  // [batch, heads, head_dim]
        const int64_t half = s.head_dim / 2;
        const Value low = b.slice_axis(heads, 2, 0, half), high = b.slice_axis(heads, 2, half, s.head_dim);
        std::vector<Value> turned = {b.negate(high), low};
        if (s.are_halves_swapped) turned = {high, b.negate(low)};
        const auto spread = [&](Value angle) { return b.broadcast(angle, heads.shape().dimensions, {0, 2}); };
        return b.add(b.multiply(heads, spread(cosine)), b.multiply(b.concatenate(turned, 2), spread(sine)));
    };
    const Value normed = rms_norm(b, x, row(norm, 0));
    const Value all = b.named(b.convert(linear(b, normed, qkv), bf16), "qkv");
    const auto heads_of = [&](int64_t first, int64_t heads) {
        return b.reshape(b.slice_axis(all, 1, first, first + heads * s.head_dim), {s.batch, heads, s.head_dim});
    };
    const Value q = b.reshape(rotate(heads_of(0, s.kv_heads * s.group)), {s.batch, s.kv_heads, s.group, s.head_dim});
    const Value k = b.named(rotate(heads_of(q_rows, s.kv_heads)), "k");
    const Value v = b.named(heads_of(q_rows + kv_rows, s.kv_heads), "v");

    // scores: [batch, kv, group, positions + 1], the last column this step's own
    const std::vector<int64_t> grid = {s.batch, s.kv_heads, s.group, s.positions};
    const Value slot = b.broadcast(b.iota(s32, {s.positions}, 0), grid, {3});
    const Value limit =
        b.broadcast(b.add(position, b.splat(s32, static_cast<double>(s.window_excess), {s.batch})), grid, {0});
    const Value old_scores = b.select(b.compare(Comparison::lt, slot, limit),
                                      b.dot(q, keys, {{3}, {3}, {0, 1}, {1, 2}}), b.splat(f32, -1e30, grid));
    const Value own = b.reshape(b.dot(q, k, {{3}, {2}, {0, 1}, {0, 1}}), {s.batch, s.kv_heads, s.group, 1});
    const std::vector<Value> parts = {old_scores, own};
    const Value scores = b.named(b.concatenate(parts, 3), "scores");
    const auto over_last = [&](Value reduced) { return b.broadcast(reduced, scores.shape().dimensions, {0, 1, 2}); };
    const Value shifted = b.subtract(scores, over_last(b.reduce(scores, Opcode::maximum, {3}, -1e30)));
    const Value weights = b.exponential(shifted);
    const Value p = b.convert(b.divide(weights, over_last(b.reduce(weights, Opcode::add, {3}, 0))), bf16);
    const Value old_part = b.dot(b.slice_axis(p, 3, 0, s.positions), values, {{3}, {0}, {0, 1}, {1, 2}});
    const auto& per_head = old_part.shape().dimensions;  // [batch, kv, group, head_dim]
    const Value own_weight =
        b.reshape(b.slice_axis(p, 3, s.positions, s.positions + 1), {s.batch, s.kv_heads, s.group});
    const Value own_part = b.multiply(b.convert(b.broadcast(own_weight, per_head, {0, 1, 2}), f32),
                                      b.convert(b.broadcast(v, per_head, {0, 1, 3}), f32));
    const Value attended = b.reshape(b.convert(b.add(old_part, own_part), bf16), {s.batch, q_rows});
    const auto summed = [&](Value partial) { return b.convert(b.all_reduce(partial, Opcode::add), bf16); };
    const Value projected = linear(b, attended, o);
    const Value after = b.add(x, s.is_sum_forgotten ? b.convert(projected, bf16) : summed(projected));

    const Value both = b.convert(linear(b, rms_norm(b, after, row(norm, 1)), gate_up), bf16);
    const Value gate = b.convert(b.slice_axis(both, 1, 0, s.ff), f32), up = b.slice_axis(both, 1, s.ff, 2 * s.ff);
    const Value cube = b.multiply(b.multiply(gate, gate), gate);
    const Value inner = b.multiply(b.splat_like(gate, std::sqrt(2 / M_PI)),
                                   b.add(gate, b.multiply(b.splat_like(gate, 0.044715), cube)));
    const Value gelu =
        b.multiply(b.multiply(b.splat_like(gate, 0.5), gate), b.add(b.splat_like(gate, 1), b.tanh(inner)));
    const Value stream =
        b.named(b.add(after, summed(linear(b, b.multiply(b.convert(gelu, bf16), up), down))), "stream");

    const Value logits = b.named(linear(b, stream, head), "logits");
    const auto sizes = logits.shape().dimensions;
    const Value best = b.reduce(logits, Opcode::maximum, {1}, -1e30);
    const Value is_best = b.compare(Comparison::eq, logits, b.broadcast(best, sizes, {0}));
    const auto none = static_cast<double>(s.vocab);
    const Value id =
        b.reduce(b.select(is_best, b.iota(s32, sizes, 1), b.splat(s32, none, sizes)), Opcode::minimum, {1}, none);
    const Value first = b.multiply(rank, b.constant(s32, none));

    // each sequence writes its row: the slot is the position in this toy
    const auto written = [&](Value buffer, Value rows) {
        const Value zero = b.constant(s32, 0);
        for (int64_t sequence = 0; sequence < s.batch; ++sequence) {
            const Value update =
                b.reshape(b.slice_axis(rows, 0, sequence, sequence + 1), {1, 1, s.kv_heads, s.head_dim});
            const Value at = b.reshape(b.slice_axis(position, 0, sequence, sequence + 1), {});
            const std::vector<Value> starts = {at, b.constant(s32, static_cast<double>(sequence)), zero, zero};
            buffer = b.dynamic_update_slice(buffer, update, starts);
        }
        return buffer;
    };
    Outputs outputs;
    outputs.add_aliased("kv.k", written(keys, k), keys);
    outputs.add_aliased("kv.v", written(values, v), values);
    outputs.add("best", best);
    outputs.add("id", b.add(id, b.broadcast(first, {s.batch})));
    outputs.add("logits", logits);
    return b.finish(outputs.all());
}

// Inputs for any of these: random, but positions and places inside what they index, and a rank its number.
inline std::vector<Tensor> toy_inputs(const Module& module, int32_t rank) {
    std::vector<Tensor> inputs;
    const auto names = module.parameter_names();
    for (const int32_t number : module.parameters()) {
        const Shape& shape = module.entry().instructions[static_cast<size_t>(number)].shape;
        const std::string& name = names[inputs.size()];
        const bool is_shared = name == "hidden" || name == "cos" || name == "sin" || name == "weights.norm";
        const auto seed = inputs.size() * 8 + static_cast<uint64_t>(is_shared ? 0 : rank);
        if (name == "position")
            inputs.push_back(tensor_of(ElementType::s32, {5, 2}));
        else if (name == "place")
            inputs.push_back(tensor_of(ElementType::s32, {}, {1}));
        else if (name == "rows")
            inputs.push_back(tensor_of(ElementType::s32, {2, 2}, {3, -1, 0, 9}));
        else if (name == "rank")
            inputs.push_back(tensor_of(ElementType::s32, {}, {static_cast<double>(rank)}));
        else
            inputs.push_back(random_tensor(shape, seed));
    }
    return inputs;
}

}  // namespace gemmatrace::hlo::testing
