// An HLO module as plain data: computations of instructions, in the subset that we write and evaluate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/shape.h"

namespace gemmatrace::hlo {

// Meanings: docs of each group in hlo/builder.h; hlo/evaluator computes them.
enum class Opcode : uint8_t {
    parameter,
    constant,
    tuple,
    get_tuple_element,
    copy,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    maximum,
    minimum,
    power,
    logical_and,
    logical_or,
    negate,
    abs,
    sign,
    floor,
    ceil,
    sqrt,
    rsqrt,
    exponential,
    log,
    tanh,
    sine,
    cosine,
    logistic,
    logical_not,
    convert,
    compare,
    select,
    clamp,
    broadcast,
    reshape,
    transpose,
    slice,
    concatenate,
    iota,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    dot,
    reduce,
    all_reduce,
};
inline constexpr size_t kOpcodeCount = static_cast<size_t>(Opcode::all_reduce) + 1;

// As the proto and HLO text write it, e.g. "dynamic-update-slice".
std::string_view opcode_name(Opcode opcode);
// The opcode of a name, or nothing for one that we neither write nor evaluate.
std::optional<Opcode> opcode_of_name(std::string_view name);
// Number of operands, or -1 when it varies (tuple, concatenate, dynamic slices).
int operand_count(Opcode opcode);
// Two operands of one shape, result of that shape: add to logical_or.
bool is_binary(Opcode opcode);
// One operand, result of its shape: negate to logical_not.
bool is_unary(Opcode opcode);

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };
// "EQ" and so on.
std::string_view comparison_name(Comparison comparison);
std::optional<Comparison> comparison_of_name(std::string_view name);

// Elements start, start + stride, … below limit, of one axis.
struct SliceRange {
    int64_t start = 0;
    int64_t limit = 0;
    int64_t stride = 1;
    bool operator==(const SliceRange&) const = default;
};

// Which axes a dot sums over, and which it treats one by one. The result is batch, free lhs, free rhs axes.
struct DotAxes {
    std::vector<int64_t> lhs_contracting;
    std::vector<int64_t> rhs_contracting;
    std::vector<int64_t> lhs_batch;
    std::vector<int64_t> rhs_batch;
    bool operator==(const DotAxes&) const = default;
};

// Fields beyond operands are those of the opcode; the others stay empty.
struct Instruction {
    Opcode opcode = Opcode::parameter;
    std::string name;                  // unique in the module, of [A-Za-z0-9_.-]
    Shape shape;                       // of the result
    std::vector<int32_t> operands;     // places in the same computation, each before this instruction
    int64_t parameter_number = 0;      // parameter
    int64_t tuple_index = 0;           // get-tuple-element
    std::vector<std::byte> literal;    // constant: elements in row-major order, little endian, a byte for a pred
    std::vector<int64_t> dimensions;   // broadcast, transpose, reduce, concatenate, iota
    std::vector<SliceRange> ranges;    // slice: one an axis
    std::vector<int64_t> slice_sizes;  // dynamic-slice: one an axis
    Comparison comparison = Comparison::eq;
    DotAxes dot;
    std::vector<std::vector<int64_t>> groups;  // all-reduce: ranks that sum with each other; none: all
    int32_t called_computation = -1;           // reduce, all-reduce: place in Module::computations
    std::map<std::string, std::string> frontend_attributes;
    bool operator==(const Instruction&) const = default;
};

struct Computation {
    std::string name;
    std::vector<Instruction> instructions;
    int32_t root = 0;  // place of the result
    bool operator==(const Computation&) const = default;
};

// Result `output` (a tuple element, or 0 for a lone result) takes the memory of parameter `parameter`.
struct Alias {
    int64_t output = 0;
    int64_t parameter = 0;
    bool operator==(const Alias&) const = default;
};

// What the host is told: must equal the entry's parameters and result, which no compiler checks.
struct ProgramShape {
    std::vector<Shape> parameters;
    Shape result;
    std::vector<std::string> parameter_names;
    bool operator==(const ProgramShape&) const = default;
};

inline constexpr std::string_view kInputNames = "neff_input_names";    // attribute of a parameter: its name
inline constexpr std::string_view kOutputNames = "neff_output_names";  // of the root: names of the results, by commas
inline constexpr std::string_view kAliasSuffix = ".must_alias_input";  // result X is written into input X + this

struct Module {
    std::string name;
    std::vector<Computation> computations;  // callees before callers; the last is the entry
    std::vector<Alias> aliases;             // all of kind "must"
    ProgramShape host_shape;

    // The entry computation; throws Error(internal) when there is none.
    const Computation& entry() const;
    // Places of the entry's parameters by number. Of a verified module.
    std::vector<int32_t> parameters() const;
    // The name of each parameter by number, and of each result, as the host knows them. Of a verified module.
    std::vector<std::string> parameter_names() const;
    std::vector<std::string> output_names() const;
    // Places of the results in the entry: the root's operands when it is a tuple, the root itself otherwise.
    std::vector<int32_t> outputs() const;
    // The operation of a sub-computation f(a, b) of two scalars that is one binary instruction of its parameters, or
    // nothing for any other.
    std::optional<Opcode> combiner(int32_t computation) const;
    bool operator==(const Module&) const = default;
};

}  // namespace gemmatrace::hlo
