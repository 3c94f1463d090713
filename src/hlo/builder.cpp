// One method an operation: fill in the instruction, infer its shape, append it.
#include "hlo/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "hlo/number.h"
#include "hlo/shape_inference.h"

namespace gemmatrace::hlo {

namespace {

Instruction blank(Opcode opcode) {
    Instruction instruction;
    instruction.opcode = opcode;
    return instruction;
}

Instruction blank(Opcode opcode, ElementType type, std::vector<int64_t> dimensions) {
    Instruction instruction = blank(opcode);
    instruction.shape = Shape(type, std::move(dimensions));
    return instruction;
}

bool is_legal_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char character) {
        return std::isalnum(character) != 0 || character == '_' || character == '.' || character == '-';
    });
}

// f(a, b) of two scalars.
Computation combiner_of(Opcode opcode, ElementType type) {
    Computation computation;
    computation.name = fmt::format("{}_{}", opcode_name(opcode), type_name(type));
    for (const int64_t number : {0, 1}) {
        Instruction parameter = blank(Opcode::parameter, type, {});
        parameter.name = fmt::format("{}.{}", computation.name, number == 0 ? "lhs" : "rhs");
        parameter.parameter_number = number;
        computation.instructions.push_back(std::move(parameter));
    }
    Instruction root = blank(opcode, type, {});
    root.name = computation.name + ".result";
    root.operands = {0, 1};
    computation.instructions.push_back(std::move(root));
    computation.root = 2;
    return computation;
}

// For each place, whether the results or a parameter need it.
std::vector<bool> needed_places(const std::deque<Instruction>& instructions) {
    std::vector<bool> is_needed(instructions.size(), false);
    is_needed.back() = true;  // the root
    for (size_t place = instructions.size(); place-- > 0;) {
        if (instructions[place].opcode == Opcode::parameter) is_needed[place] = true;
        if (!is_needed[place]) continue;
        for (const int32_t operand : instructions[place].operands) is_needed[static_cast<size_t>(operand)] = true;
    }
    return is_needed;
}

}  // namespace

const Shape& Value::shape() const {
    require(is_set(), "a value comes from a builder");
    return instruction_->shape;
}

int64_t Value::dimension(size_t axis) const {
    require(axis < rank(), "the axis is one of the value's");
    return shape().dimensions[axis];
}

Builder::Builder(std::string module_name, int32_t ranks) : ranks_(ranks) {
    require(ranks >= 1, "a program runs on one rank at least");
    module_.name = std::move(module_name);
}

// --- appending

Value Builder::check(Value value) const {
    const bool is_ours = value.is_set() && value.place_ >= 0 &&
                         static_cast<size_t>(value.place_) < instructions_.size() &&
                         &instructions_[static_cast<size_t>(value.place_)] == value.instruction_;
    require(is_ours, "a value belongs to this builder");
    return value;
}

Value Builder::append(Instruction instruction, std::span<const Value> operands) {
    std::vector<const Shape*> shapes;
    for (const Value operand : operands) {
        shapes.push_back(&check(operand).shape());
        instruction.operands.push_back(operand.place_);
    }
    instruction.shape = infer_shape(instruction, shapes);
    instructions_.push_back(std::move(instruction));
    return Value(&instructions_.back(), static_cast<int32_t>(instructions_.size()) - 1);
}

Value Builder::append(Instruction instruction, std::initializer_list<Value> operands) {
    return append(std::move(instruction), std::span(operands.begin(), operands.size()));
}

// append, unless the same instruction of the same operands is there.
Value Builder::append_once(Instruction instruction, std::initializer_list<Value> operands) {
    std::string key = fmt::format("{} {} [{}]", opcode_name(instruction.opcode), instruction.shape.text(),
                                  fmt::join(instruction.dimensions, ","));
    for (const Value operand : operands) key += fmt::format(" {}", operand.place_);
    for (const std::byte byte : instruction.literal) key += fmt::format(" {:02x}", static_cast<int>(byte));
    const auto found = once_.find(key);
    if (found != once_.end()) return found->second;
    return once_[key] = append(std::move(instruction), operands);
}

void Builder::claim_name(const std::string& name) {
    if (!is_legal_name(name)) {
        throw Error(ErrorCode::mismatch, fmt::format("'{}' is no name of an HLO value", name), {},
                    "use letters, digits, '_', '.' and '-'");
    }
    if (!names_.insert(name).second) {
        throw Error(ErrorCode::mismatch, fmt::format("two values are called {}", name), {}, "give each its own name");
    }
}

Value Builder::named(Value value, std::string_view name) {
    Instruction& instruction = instructions_[static_cast<size_t>(check(value).place_)];
    if (!instruction.name.empty()) return value;
    claim_name(std::string(name));
    instruction.name = name;
    return value;
}

std::string Builder::name_of(Value value) const {
    const Instruction& instruction = *check(value).instruction_;
    if (!instruction.name.empty()) return instruction.name;
    return fmt::format("{}.{}", opcode_name(instruction.opcode), value.place_);
}

// --- leaves

Value Builder::parameter(std::string name, Shape shape) {
    claim_name(name);
    Instruction instruction = blank(Opcode::parameter);
    instruction.shape = std::move(shape);
    instruction.parameter_number = parameter_count_;
    instruction.frontend_attributes[std::string(kInputNames)] = name;
    instruction.name = std::move(name);
    const Value value = append(std::move(instruction), {});
    ++parameter_count_;
    return value;
}

Value Builder::constant(ElementType type, double value) {
    Instruction instruction = blank(Opcode::constant, type, {});
    instruction.literal = encode_number(type, value);
    return append_once(std::move(instruction), {});
}

Value Builder::splat(ElementType type, double value, std::vector<int64_t> dimensions) {
    return broadcast(constant(type, value), std::move(dimensions));
}

Value Builder::splat_like(Value like, double value) { return splat(like.type(), value, like.shape().dimensions); }

Value Builder::iota(ElementType type, std::vector<int64_t> dimensions, int64_t axis) {
    Instruction instruction = blank(Opcode::iota, type, std::move(dimensions));
    instruction.dimensions = {axis};
    return append_once(std::move(instruction), {});
}

// --- elementwise

Value Builder::binary(Opcode opcode, Value lhs, Value rhs) {
    require(is_binary(opcode), "the opcode is that of a binary operation");
    return append(blank(opcode), {lhs, rhs});
}

Value Builder::unary(Opcode opcode, Value operand) {
    require(is_unary(opcode), "the opcode is that of a unary operation");
    return append(blank(opcode), {operand});
}

Value Builder::add(Value lhs, Value rhs) { return binary(Opcode::add, lhs, rhs); }
Value Builder::subtract(Value lhs, Value rhs) { return binary(Opcode::subtract, lhs, rhs); }
Value Builder::multiply(Value lhs, Value rhs) { return binary(Opcode::multiply, lhs, rhs); }
Value Builder::divide(Value lhs, Value rhs) { return binary(Opcode::divide, lhs, rhs); }
Value Builder::remainder(Value lhs, Value rhs) { return binary(Opcode::remainder, lhs, rhs); }
Value Builder::maximum(Value lhs, Value rhs) { return binary(Opcode::maximum, lhs, rhs); }
Value Builder::minimum(Value lhs, Value rhs) { return binary(Opcode::minimum, lhs, rhs); }
Value Builder::power(Value lhs, Value rhs) { return binary(Opcode::power, lhs, rhs); }
Value Builder::logical_and(Value lhs, Value rhs) { return binary(Opcode::logical_and, lhs, rhs); }
Value Builder::logical_or(Value lhs, Value rhs) { return binary(Opcode::logical_or, lhs, rhs); }

Value Builder::negate(Value operand) { return unary(Opcode::negate, operand); }
Value Builder::abs(Value operand) { return unary(Opcode::abs, operand); }
Value Builder::sign(Value operand) { return unary(Opcode::sign, operand); }
Value Builder::floor(Value operand) { return unary(Opcode::floor, operand); }
Value Builder::ceil(Value operand) { return unary(Opcode::ceil, operand); }
Value Builder::sqrt(Value operand) { return unary(Opcode::sqrt, operand); }
Value Builder::rsqrt(Value operand) { return unary(Opcode::rsqrt, operand); }
Value Builder::exponential(Value operand) { return unary(Opcode::exponential, operand); }
Value Builder::log(Value operand) { return unary(Opcode::log, operand); }
Value Builder::tanh(Value operand) { return unary(Opcode::tanh, operand); }
Value Builder::sine(Value operand) { return unary(Opcode::sine, operand); }
Value Builder::cosine(Value operand) { return unary(Opcode::cosine, operand); }
Value Builder::logistic(Value operand) { return unary(Opcode::logistic, operand); }
Value Builder::logical_not(Value operand) { return unary(Opcode::logical_not, operand); }
Value Builder::copy(Value operand) { return append(blank(Opcode::copy), {operand}); }

Value Builder::convert(Value operand, ElementType type) {
    if (check(operand).type() == type) return operand;
    return append(blank(Opcode::convert, type, {}), {operand});
}

Value Builder::compare(Comparison comparison, Value lhs, Value rhs) {
    Instruction instruction = blank(Opcode::compare);
    instruction.comparison = comparison;
    return append(std::move(instruction), {lhs, rhs});
}

Value Builder::select(Value condition, Value on_true, Value on_false) {
    return append(blank(Opcode::select), {condition, on_true, on_false});
}

Value Builder::clamp(Value low, Value operand, Value high) {
    return append(blank(Opcode::clamp), {low, operand, high});
}

// --- movement of data

Value Builder::broadcast(Value operand, std::vector<int64_t> dimensions, std::vector<int64_t> axes) {
    if (check(operand).shape().dimensions == dimensions && axes.size() == dimensions.size()) return operand;
    if (operand.shape().is_scalar() && dimensions.empty()) return operand;
    Instruction instruction = blank(Opcode::broadcast, operand.type(), std::move(dimensions));
    instruction.dimensions = std::move(axes);
    return append_once(std::move(instruction), {operand});
}

Value Builder::reshape(Value operand, std::vector<int64_t> dimensions) {
    if (check(operand).shape().dimensions == dimensions) return operand;
    return append(blank(Opcode::reshape, operand.type(), std::move(dimensions)), {operand});
}

Value Builder::transpose(Value operand, std::vector<int64_t> permutation) {
    Instruction instruction = blank(Opcode::transpose);
    instruction.dimensions = std::move(permutation);
    return append(std::move(instruction), {operand});
}

Value Builder::slice(Value operand, std::vector<SliceRange> ranges) {
    Instruction instruction = blank(Opcode::slice);
    instruction.ranges = std::move(ranges);
    return append(std::move(instruction), {operand});
}

Value Builder::slice_axis(Value operand, int64_t axis, int64_t start, int64_t limit) {
    std::vector<SliceRange> ranges;
    for (const int64_t size : check(operand).shape().dimensions) ranges.push_back({0, size, 1});
    require(axis >= 0 && axis < std::ssize(ranges), "the axis is one of the operand's");
    SliceRange& range = ranges[static_cast<size_t>(axis)];
    if (start == 0 && limit == range.limit) return operand;
    range = {start, limit, 1};
    return slice(operand, std::move(ranges));
}

Value Builder::concatenate(std::span<const Value> operands, int64_t axis) {
    if (operands.size() == 1) return check(operands[0]);
    Instruction instruction = blank(Opcode::concatenate);
    instruction.dimensions = {axis};
    return append(std::move(instruction), operands);
}

Value Builder::dynamic_slice(Value operand, std::span<const Value> starts, std::vector<int64_t> sizes) {
    Instruction instruction = blank(Opcode::dynamic_slice);
    instruction.slice_sizes = std::move(sizes);
    std::vector<Value> operands = {operand};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return append(std::move(instruction), operands);
}

Value Builder::dynamic_update_slice(Value operand, Value update, std::span<const Value> starts) {
    std::vector<Value> operands = {operand, update};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return append(blank(Opcode::dynamic_update_slice), operands);
}

Value Builder::gather_rows(Value table, Value indices) { return append(blank(Opcode::gather), {table, indices}); }

// --- sums

Value Builder::dot(Value lhs, Value rhs, DotAxes axes, ElementType type) {
    Instruction instruction = blank(Opcode::dot, type, {});
    instruction.dot = std::move(axes);
    return append(std::move(instruction), {lhs, rhs});
}

// One sub-computation for each operation and type.
int32_t Builder::combiner_computation(Opcode combiner, ElementType type) {
    const bool is_known = combiner == Opcode::add || combiner == Opcode::multiply || combiner == Opcode::maximum ||
                          combiner == Opcode::minimum;
    if (!is_known) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("{} cannot be reduced by {}", type_name(type), opcode_name(combiner)), {},
                    "reduce by add, multiply, maximum or minimum");
    }
    Computation computation = combiner_of(combiner, type);
    auto& computations = module_.computations;
    const auto same = std::find(computations.begin(), computations.end(), computation);
    const auto place = static_cast<int32_t>(same - computations.begin());
    if (same == computations.end()) {
        for (const Instruction& instruction : computation.instructions) claim_name(instruction.name);
        computations.push_back(std::move(computation));
    }
    return place;
}

Value Builder::reduce(Value operand, Opcode combiner, std::vector<int64_t> axes, double initial) {
    Instruction instruction = blank(Opcode::reduce);
    instruction.dimensions = std::move(axes);
    instruction.called_computation = combiner_computation(combiner, check(operand).type());
    return append(std::move(instruction), {operand, constant(operand.type(), initial)});
}

Value Builder::all_reduce(Value operand, Opcode combiner, std::vector<std::vector<int64_t>> groups) {
    if (groups.empty()) {
        groups.emplace_back();
        for (int64_t rank = 0; rank < ranks_; ++rank) groups.back().push_back(rank);
    }
    std::vector<int64_t> named;
    for (const auto& group : groups) named.insert(named.end(), group.begin(), group.end());
    std::sort(named.begin(), named.end());
    bool is_partition = std::ssize(named) == ranks_;
    for (int64_t rank = 0; is_partition && rank < ranks_; ++rank)
        is_partition = named[static_cast<size_t>(rank)] == rank;
    if (!is_partition) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("all-reduce of {}: the groups name ranks {}, the program runs on {}",
                                check(operand).shape().text(), fmt::join(named, ","), ranks_),
                    {}, "name each rank from 0 on in exactly one group");
    }
    if (std::ssize(groups) == ranks_) return check(operand);
    Instruction instruction = blank(Opcode::all_reduce);
    instruction.groups = std::move(groups);
    instruction.called_computation = combiner_computation(combiner, check(operand).type());
    return append(std::move(instruction), {operand});
}

// --- the end

// The value to return for an output: its own memory, and the alias must fit.
Value Builder::own_output(const Output& output) {
    if (!is_legal_name(output.name)) {
        throw Error(ErrorCode::mismatch, fmt::format("'{}' is no name of an output", output.name), {},
                    "use letters, digits, '_', '.' and '-'");
    }
    if (output.alias) {
        const Instruction& parameter = *check(*output.alias).instruction_;
        const bool fits = parameter.opcode == Opcode::parameter && parameter.shape == check(output.value).shape() &&
                          parameter.name == output.name + std::string(kAliasSuffix);
        if (!fits) {
            throw Error(ErrorCode::mismatch,
                        fmt::format("output {} {} cannot take the memory of {} {}", output.name,
                                    output.value.shape().text(), name_of(*output.alias), parameter.shape.text()),
                        {}, fmt::format("alias a parameter of the same shape called {}{}", output.name, kAliasSuffix));
        }
    }
    // Inputs and results are separate memory, so a parameter that is returned as it is passes through a copy.
    const bool is_parameter = check(output.value).instruction_->opcode == Opcode::parameter;
    return is_parameter ? copy(output.value) : output.value;
}

Module Builder::finish(std::vector<Output> outputs) {
    require(!outputs.empty(), "a program has a result");
    std::vector<Value> results;
    std::vector<std::string> names;
    std::vector<Alias> aliases;
    for (const Output& output : outputs) {
        results.push_back(own_output(output));
        if (std::count(names.begin(), names.end(), output.name) != 0) {
            throw Error(ErrorCode::mismatch, fmt::format("two outputs are called {}", output.name), {},
                        "give each its own name");
        }
        names.push_back(output.name);
        if (output.alias) aliases.push_back({std::ssize(names) - 1, output.alias->instruction_->parameter_number});
    }
    Instruction tuple = blank(Opcode::tuple);
    tuple.frontend_attributes[std::string(kOutputNames)] = fmt::format("{}", fmt::join(names, ","));
    append(std::move(tuple), results);

    Computation entry;
    entry.name = "main";
    const std::vector<bool> is_needed = needed_places(instructions_);
    std::vector<int32_t> new_places(instructions_.size(), -1);
    for (size_t place = 0; place < instructions_.size(); ++place) {
        if (!is_needed[place]) continue;
        Instruction& instruction = instructions_[place];
        new_places[place] = static_cast<int32_t>(entry.instructions.size());
        for (int32_t& operand : instruction.operands) operand = new_places[static_cast<size_t>(operand)];
        if (instruction.name.empty()) {
            std::string name = fmt::format("{}.{}", opcode_name(instruction.opcode), place);
            while (!names_.insert(name).second) name += "_";
            instruction.name = std::move(name);
        }
        if (instruction.opcode == Opcode::parameter) {
            module_.host_shape.parameters.push_back(instruction.shape);
            module_.host_shape.parameter_names.push_back(instruction.name);
        }
        entry.instructions.push_back(std::move(instruction));
    }
    entry.root = static_cast<int32_t>(entry.instructions.size()) - 1;
    module_.aliases = std::move(aliases);
    module_.host_shape.result = entry.instructions.back().shape;
    module_.computations.push_back(std::move(entry));
    Module finished = std::move(module_);
    *this = Builder(finished.name, ranks_);
    return finished;
}

}  // namespace gemmatrace::hlo
