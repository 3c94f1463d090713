// Appends instructions to the entry computation of an HLO module, inferring and checking every shape at once.
//
//   Builder builder("double", /*ranks=*/2);
//   const Value x = builder.parameter("x", Shape(ElementType::f32, {4}));
//   const Value sum = builder.all_reduce(builder.add(x, x), Opcode::add);
//   const Module module = builder.finish({{"y", sum}});
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// The result of an instruction: a small handle, valid as long as its builder and until finish().
class Value {
  public:
    Value() = default;
    const Shape& shape() const;
    ElementType type() const { return shape().type; }
    size_t rank() const { return shape().rank(); }
    int64_t dimension(size_t axis) const;
    bool is_set() const { return instruction_ != nullptr; }

  private:
    friend class Builder;
    Value(const Instruction* instruction, int32_t place) : instruction_(instruction), place_(place) {}
    const Instruction* instruction_ = nullptr;
    int32_t place_ = -1;
};

// A result of the program: its name, and the parameter whose memory it takes over when there is one. That parameter
// is called name + kAliasSuffix.
struct Output {
    std::string name;
    Value value;
    std::optional<Value> alias = std::nullopt;
};

// Every method throws Error(mismatch) with the shapes in its message and a remedy when operands do not fit. Nothing is
// broadcast or converted by itself: operands of an elementwise operation have one shape and one type.
class Builder {
  public:
    // ranks: how many cores run the program together; what all_reduce without groups sums over.
    explicit Builder(std::string module_name, int32_t ranks = 1);

    int32_t ranks() const { return ranks_; }

    // An input of the program, numbered in order. The name is unique, of [A-Za-z0-9_.-].
    Value parameter(std::string name, Shape shape);
    // A scalar; one instruction per type and value. Rounded to nearest for floating types; integers and preds (0 or 1)
    // must be exact. NaN and infinity are refused: use finite fills.
    Value constant(ElementType type, double value);
    // The scalar constant broadcast to dimensions; one broadcast per constant and shape.
    Value splat(ElementType type, double value, std::vector<int64_t> dimensions);
    // splat of another value's type and shape.
    Value splat_like(Value like, double value);

    // Floating: one rounding. Integers wrap; x / 0 = -1, x rem 0 = x, both truncate. maximum and minimum: NaN wins,
    // -0 is below +0. power: as C's pow, floating only. logical_*: pred, or bits of integers.
    Value add(Value lhs, Value rhs);
    Value subtract(Value lhs, Value rhs);
    Value multiply(Value lhs, Value rhs);
    Value divide(Value lhs, Value rhs);
    Value remainder(Value lhs, Value rhs);
    Value maximum(Value lhs, Value rhs);
    Value minimum(Value lhs, Value rhs);
    Value power(Value lhs, Value rhs);
    Value logical_and(Value lhs, Value rhs);
    Value logical_or(Value lhs, Value rhs);
    Value binary(Opcode opcode, Value lhs, Value rhs);

    // negate, abs and sign of floating or integer values; from floor on of floating values only.
    Value negate(Value operand);
    Value abs(Value operand);
    Value sign(Value operand);
    Value floor(Value operand);
    Value ceil(Value operand);
    Value sqrt(Value operand);
    Value rsqrt(Value operand);
    Value exponential(Value operand);
    Value log(Value operand);
    Value tanh(Value operand);
    Value sine(Value operand);
    Value cosine(Value operand);
    Value logistic(Value operand);
    Value logical_not(Value operand);
    Value copy(Value operand);
    Value unary(Opcode opcode, Value operand);

    // The same value when the type is already that one. Floating to integer: toward zero, saturating, NaN to 0.
    Value convert(Value operand, ElementType type);
    // pred: true where lhs (comparison) rhs. A NaN compares unequal to everything.
    Value compare(Comparison comparison, Value lhs, Value rhs);
    // on_true where `condition` (pred of the same dimensions), on_false elsewhere.
    Value select(Value condition, Value on_true, Value on_false);
    // min(max(operand, low), high); the bounds are scalars or of operand's shape.
    Value clamp(Value low, Value operand, Value high);

    // Operand axis i becomes result axis axes[i] (increasing), of the same size: sizes of 1 are not stretched. One
    // instruction per operand, dimensions and axes.
    Value broadcast(Value operand, std::vector<int64_t> dimensions, std::vector<int64_t> axes = {});
    // The same elements in row-major order; the same value when the dimensions are already those.
    Value reshape(Value operand, std::vector<int64_t> dimensions);
    // Result axis i is operand axis permutation[i].
    Value transpose(Value operand, std::vector<int64_t> permutation);
    // One range an axis.
    Value slice(Value operand, std::vector<SliceRange> ranges);
    // [start, limit) of one axis, the others whole; the same value when that is everything.
    Value slice_axis(Value operand, int64_t axis, int64_t start, int64_t limit);
    Value concatenate(std::span<const Value> operands, int64_t axis);
    // Each element is its index on `axis`, rounded to the type. One instruction per shape and axis.
    Value iota(ElementType type, std::vector<int64_t> dimensions, int64_t axis);
    // starts: one s32 scalar an axis, clamped so that the slice lies inside.
    Value dynamic_slice(Value operand, std::span<const Value> starts, std::vector<int64_t> sizes);
    // The whole operand with `update` written at the (clamped) starts.
    Value dynamic_update_slice(Value operand, Value update, std::span<const Value> starts);
    // table [rows, rest…], indices s32 [dims…] -> [dims…, rest…]; indices are clamped into the table.
    Value gather_rows(Value table, Value indices);

    // Sum of products over the contracting axes, accumulated in f32, rounded once to `type`. Operands are floating and
    // of one type. State f32 and convert afterwards: compilers disagree about bf16 results.
    Value dot(Value lhs, Value rhs, DotAxes axes, ElementType type = ElementType::f32);
    // combiner (add, multiply, maximum, minimum) over the axes, from `initial`; rounded to the type at every step, so
    // convert a bf16 sum to f32 first.
    Value reduce(Value operand, Opcode combiner, std::vector<int64_t> axes, double initial);
    // combiner over the ranks of each group, in the order of ranks; groups: every rank once; none: all ranks. The same
    // value when every rank would be alone.
    Value all_reduce(Value operand, Opcode combiner, std::vector<std::vector<int64_t>> groups = {});

    // Names the instruction for dumps and text; the name is unique, of [A-Za-z0-9_.-]. Returns the value. A value that
    // has a name keeps it (a deduplicated one may be named by several callers).
    Value named(Value value, std::string_view name);
    // The value's name: a given one, or opcode and number.
    std::string name_of(Value value) const;

    // Ends the program: a tuple of the outputs as root. Instructions that no output needs are left out; parameters
    // stay. The builder is empty afterwards.
    Module finish(std::vector<Output> outputs);

  private:
    Value append(Instruction instruction, std::initializer_list<Value> operands);
    Value append(Instruction instruction, std::span<const Value> operands);
    Value append_once(Instruction instruction, std::initializer_list<Value> operands);
    Value check(Value value) const;
    int32_t combiner_computation(Opcode combiner, ElementType type);
    void claim_name(const std::string& name);
    Value own_output(const Output& output);

    Module module_;
    int32_t ranks_;
    std::deque<Instruction> instructions_;  // a deque: handles point into it
    std::map<std::string, Value> once_;     // what is deduplicated, by its description
    std::set<std::string> names_;
    int64_t parameter_count_ = 0;
};

}  // namespace gemmatrace::hlo
