// One instruction by itself: which file computes it.
#include "hlo/operations.h"

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::hlo {

namespace {

Opcode combiner_of_call(const Module& module, const Instruction& instruction) {
    const auto combiner = module.combiner(instruction.called_computation);
    require(combiner.has_value(), "a reduction calls one binary operation");
    return *combiner;
}

}  // namespace

void compute(const Module& module, const Instruction& instruction, std::span<const ArrayView> operands,
             std::byte* result, ThreadPool* pool) {
    switch (instruction.opcode) {
        case Opcode::constant:
            std::copy(instruction.literal.begin(), instruction.literal.end(), result);
            return;
        case Opcode::dot:
            return compute_dot(instruction, operands, result, pool);
        case Opcode::reduce:
            return compute_reduce(instruction, combiner_of_call(module, instruction), operands, result);
        case Opcode::copy:
        case Opcode::broadcast:
        case Opcode::reshape:
        case Opcode::transpose:
        case Opcode::slice:
        case Opcode::concatenate:
        case Opcode::iota:
        case Opcode::dynamic_slice:
        case Opcode::dynamic_update_slice:
        case Opcode::gather:
            return compute_movement(instruction, operands, result);
        case Opcode::parameter:
        case Opcode::tuple:
        case Opcode::get_tuple_element:
        case Opcode::all_reduce:
            break;
        default:
            return compute_elementwise(instruction, operands, result);
    }
    throw Error(ErrorCode::internal, "this instruction computes nothing by itself");
}

Tensor evaluate(const Module& module, const Instruction& instruction, std::span<const ArrayView> operands) {
    Tensor result{instruction.shape, std::vector<std::byte>(instruction.shape.bytes())};
    compute(module, instruction, operands, result.bytes.data(), nullptr);
    return result;
}

std::vector<Tensor> evaluate_all_reduce(const Module& module, const Instruction& instruction,
                                        std::span<const ArrayView> operands) {
    std::vector<Tensor> results(operands.size(),
                                {instruction.shape, std::vector<std::byte>(instruction.shape.bytes())});
    for (const auto& group : groups_of(instruction, static_cast<int32_t>(operands.size()))) {
        std::vector<const std::byte*> inputs;
        std::vector<std::byte*> outputs;
        for (const int64_t rank : group) {
            inputs.push_back(operands[static_cast<size_t>(rank)].data);
            outputs.push_back(results[static_cast<size_t>(rank)].bytes.data());
        }
        compute_all_reduce(combiner_of_call(module, instruction), instruction.shape, inputs, outputs);
    }
    return results;
}

std::vector<std::vector<int64_t>> groups_of(const Instruction& all_reduce, int32_t ranks) {
    auto groups = all_reduce.groups;
    if (groups.empty()) {
        groups.emplace_back();
        for (int64_t rank = 0; rank < ranks; ++rank) groups.back().push_back(rank);
    }
    for (auto& group : groups) std::sort(group.begin(), group.end());
    return groups;
}

}  // namespace gemmatrace::hlo
