// Writes shapes with their layouts, constants with their values, and the attributes of each opcode.
#include "hlo/text.h"

#include <fmt/format.h>

#include <cmath>

#include "hlo/number.h"

namespace gemmatrace::hlo {

namespace {

// "f32[2,3]{1,0}": XLA writes the layout too, minor axis first.
std::string shape_with_layout(const Shape& shape) {
    std::string text;
    if (shape.is_tuple()) {
        for (const Shape& element : shape.elements) text += (text.empty() ? "" : ", ") + shape_with_layout(element);
        return "(" + text + ")";
    }
    for (size_t axis = shape.rank(); axis-- > 0;) text += fmt::format("{}{}", text.empty() ? "" : ",", axis);
    return shape.text() + (text.empty() ? "" : "{" + text + "}");
}

std::string list_of(const std::vector<int64_t>& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); }

std::string number_text(const Instruction& constant, size_t index) {
    const double value = decode_number(constant.shape.type, constant.literal, index);
    if (constant.shape.type == ElementType::pred) return value != 0 ? "true" : "false";
    if (!is_floating(constant.shape.type)) return fmt::format("{:.0f}", value);
    if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
    return fmt::format("{}", static_cast<float>(value));
}

// "{1, 2}", nested for more axes.
std::string array_text(const Instruction& constant, size_t axis, size_t& index) {
    if (axis == constant.shape.rank()) return number_text(constant, index++);
    std::string text;
    for (int64_t element = 0; element < constant.shape.dimensions[axis]; ++element) {
        text += (text.empty() ? "" : ", ") + array_text(constant, axis + 1, index);
    }
    return "{ " + text + " }";
}

std::string ranges_text(const std::vector<SliceRange>& ranges) {
    std::string text;
    for (const auto& [start, limit, stride] : ranges) {
        text += text.empty() ? "" : ", ";
        text += stride == 1 ? fmt::format("[{}:{}]", start, limit) : fmt::format("[{}:{}:{}]", start, limit, stride);
    }
    return "{" + text + "}";
}

std::string groups_text(const std::vector<std::vector<int64_t>>& groups) {
    std::string text;
    for (const auto& group : groups) text += (text.empty() ? "" : ",") + list_of(group);
    return "{" + text + "}";
}

std::string dot_text(const DotAxes& axes) {
    std::string text;
    if (!axes.lhs_batch.empty()) text += ", lhs_batch_dims=" + list_of(axes.lhs_batch);
    text += ", lhs_contracting_dims=" + list_of(axes.lhs_contracting);
    if (!axes.rhs_batch.empty()) text += ", rhs_batch_dims=" + list_of(axes.rhs_batch);
    return text + ", rhs_contracting_dims=" + list_of(axes.rhs_contracting);
}

std::string gather_text(const Shape& table, const Shape& indices) {
    std::vector<int64_t> offsets, sizes = {1};
    for (size_t axis = 1; axis < table.rank(); ++axis) {
        offsets.push_back(static_cast<int64_t>(indices.rank() + axis - 1));
        sizes.push_back(table.dimensions[axis]);
    }
    return fmt::format(
        ", offset_dims={}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim={}, "
        "slice_sizes={}",
        list_of(offsets), indices.rank(), list_of(sizes));
}

std::string attributes_text(const Module& module, const Computation& computation, const Instruction& instruction) {
    std::string text;
    switch (instruction.opcode) {
        case Opcode::broadcast:
        case Opcode::transpose:
        case Opcode::concatenate:
        case Opcode::reduce:
            text = ", dimensions=" + list_of(instruction.dimensions);
            break;
        case Opcode::iota:
            text = fmt::format(", iota_dimension={}", instruction.dimensions[0]);
            break;
        case Opcode::slice:
            text = ", slice=" + ranges_text(instruction.ranges);
            break;
        case Opcode::dynamic_slice:
            text = ", dynamic_slice_sizes=" + list_of(instruction.slice_sizes);
            break;
        case Opcode::compare:
            text = fmt::format(", direction={}", comparison_name(instruction.comparison));
            break;
        case Opcode::get_tuple_element:
            text = fmt::format(", index={}", instruction.tuple_index);
            break;
        case Opcode::dot:
            text = dot_text(instruction.dot);
            break;
        case Opcode::all_reduce:
            text = ", replica_groups=" + groups_text(instruction.groups);
            break;
        case Opcode::gather: {
            const auto operand = [&](size_t index) -> const Shape& {
                return computation.instructions[static_cast<size_t>(instruction.operands[index])].shape;
            };
            text = gather_text(operand(0), operand(1));
            break;
        }
        default:
            break;
    }
    if (instruction.called_computation >= 0) {
        text += ", to_apply=%" + module.computations[static_cast<size_t>(instruction.called_computation)].name;
    }
    if (!instruction.frontend_attributes.empty()) {
        std::string pairs;
        for (const auto& [key, value] : instruction.frontend_attributes) {
            pairs += fmt::format("{}{}=\"{}\"", pairs.empty() ? "" : ",", key, value);
        }
        text += ", frontend_attributes={" + pairs + "}";
    }
    return text;
}

std::string aliases_text(const Module& module) {
    const bool has_tuple = module.entry().instructions[static_cast<size_t>(module.entry().root)].shape.is_tuple();
    std::string text;
    for (const auto& [output, parameter] : module.aliases) {
        text += text.empty() ? "" : ", ";
        text += fmt::format("{{{}}}: ({}, {{}}, must-alias)", has_tuple ? std::to_string(output) : "", parameter);
    }
    return text.empty() ? "" : ", input_output_alias={ " + text + " }";
}

std::string computation_text(const Module& module, const Computation& computation) {
    std::vector<const Instruction*> parameters;
    for (const Instruction& instruction : computation.instructions) {
        if (instruction.opcode == Opcode::parameter) parameters.push_back(&instruction);
    }
    std::vector<std::string> signature(parameters.size());
    for (const Instruction* parameter : parameters) {
        signature[static_cast<size_t>(parameter->parameter_number)] = parameter->name + ": " + parameter->shape.text();
    }
    const auto root = static_cast<size_t>(computation.root);
    std::string text =
        fmt::format("{}%{} ({}) -> {} {{\n", &computation == &module.entry() ? "ENTRY " : "", computation.name,
                    fmt::join(signature, ", "), computation.instructions[root].shape.text());
    for (size_t place = 0; place < computation.instructions.size(); ++place) {
        text += place == root ? "  ROOT " : "  ";
        text += instruction_text(module, computation, computation.instructions[place]) + "\n";
    }
    return text + "}\n";
}

}  // namespace

std::string instruction_text(const Module& module, const Computation& computation, const Instruction& instruction) {
    std::string inside;
    size_t index = 0;
    if (instruction.opcode == Opcode::constant) inside = array_text(instruction, 0, index);
    if (instruction.opcode == Opcode::parameter) inside = std::to_string(instruction.parameter_number);
    for (const int32_t operand : instruction.operands) {
        inside += (inside.empty() ? "%" : ", %") + computation.instructions[static_cast<size_t>(operand)].name;
    }
    return fmt::format("%{} = {} {}({}){}", instruction.name, shape_with_layout(instruction.shape),
                       opcode_name(instruction.opcode), inside, attributes_text(module, computation, instruction));
}

std::string module_text(const Module& module) {
    std::string text = fmt::format("HloModule {}{}\n", module.name, aliases_text(module));
    for (const Computation& computation : module.computations) text += "\n" + computation_text(module, computation);
    return text;
}

}  // namespace gemmatrace::hlo
