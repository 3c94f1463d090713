// Programs made a little wrong by editing their modules: each fault is one that a tracer could make.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hlo/module.h"
#include "trace/program.h"

namespace gemmatrace::trace::testing {

// Puts an instruction at `place` of the entry; what stood there and after it moves on by one.
inline void insert_instruction(hlo::Module& module, int32_t place, hlo::Instruction instruction) {
    hlo::Computation& entry = module.computations.back();
    const auto moved = [&](int32_t operand) { return operand >= place ? operand + 1 : operand; };
    for (hlo::Instruction& other : entry.instructions) {
        std::ranges::transform(other.operands, other.operands.begin(), moved);
    }
    entry.root = moved(entry.root);
    entry.instructions.insert(entry.instructions.begin() + place, std::move(instruction));
}

// Who read `from` reads `to`, but `to` itself.
inline void redirect_users(hlo::Module& module, int32_t from, int32_t to) {
    auto& instructions = module.computations.back().instructions;
    for (size_t place = 0; place < instructions.size(); ++place) {
        if (place != static_cast<size_t>(to)) std::ranges::replace(instructions[place].operands, from, to);
    }
}

// The first rotation joins the halves of its heads in the wrong order.
inline bool swap_operands(hlo::Module& module) {
    auto& instructions = module.computations.back().instructions;
    for (hlo::Instruction& instruction : instructions) {
        if (instruction.opcode != hlo::Opcode::concatenate || instruction.operands.size() != 2) continue;
        const auto& first = instructions[static_cast<size_t>(instruction.operands[0])].shape;
        const auto& second = instructions[static_cast<size_t>(instruction.operands[1])].shape;
        if (first != second || first.dimensions.size() != 3) continue;
        std::swap(instruction.operands[0], instruction.operands[1]);
        return true;
    }
    return false;
}

// Positions are compared the other way at the border: the window is one more, or the cache one row longer.
inline bool move_mask(hlo::Module& module, hlo::Comparison from, hlo::Comparison to) {
    auto& instructions = module.computations.back().instructions;
    bool is_changed = false;
    for (hlo::Instruction& instruction : instructions) {
        if (instruction.opcode != hlo::Opcode::compare || instruction.comparison != from) continue;
        const auto& operand = instructions[static_cast<size_t>(instruction.operands[0])];
        if (operand.shape.type != hlo::ElementType::s32) continue;
        instruction.comparison = to;
        is_changed = true;
    }
    return is_changed;
}

// Query head h reads key head h % heads instead of h / group: before attention heads are taken the other way round, and
// put back after it.
inline bool tile_groups(hlo::Module& module) {
    bool is_changed = false;
    const auto swapped = [](hlo::Shape shape) {
        std::swap(shape.dimensions[1], shape.dimensions[2]);
        return shape;
    };
    for (int32_t place = 0; place < std::ssize(module.computations.back().instructions); ++place) {
        auto& instructions = module.computations.back().instructions;
        hlo::Instruction& instruction = instructions[static_cast<size_t>(place)];
        if (instruction.opcode != hlo::Opcode::reshape) continue;
        const int32_t operand = instruction.operands[0];
        const hlo::Shape before = instructions[static_cast<size_t>(operand)].shape;
        const hlo::Shape after = instruction.shape;
        const size_t sizes_before = before.dimensions.size(), sizes_after = after.dimensions.size();
        const hlo::Shape& heads = sizes_before == 4 ? before : after;  // [rows, kv heads, group, head_dim]
        if (!((sizes_before == 2 && sizes_after == 4) || (sizes_before == 4 && sizes_after == 2))) continue;
        if (heads.dimensions[1] == 1 || heads.dimensions[2] == 1) continue;
        hlo::Instruction turned;
        turned.opcode = hlo::Opcode::transpose;
        turned.name = "turned." + std::to_string(place);
        turned.dimensions = {0, 2, 1, 3};
        is_changed = true;
        if (sizes_after == 4) {  // the queries
            instruction.shape = swapped(after);
            turned.shape = after;
            insert_instruction(module, place + 1, turned);
            redirect_users(module, place, place + 1);
            module.computations.back().instructions[static_cast<size_t>(place) + 1].operands = {place};
        } else {  // what they attended to
            turned.shape = swapped(before);
            turned.operands = {operand};
            insert_instruction(module, place, turned);
            module.computations.back().instructions[static_cast<size_t>(place) + 1].operands = {place};
        }
        ++place;
    }
    return is_changed;
}

// The program was traced for rank 0 and not for all.
inline bool bake_rank(hlo::Module& module) {
    const auto names = module.parameter_names();
    const auto found = std::ranges::find(names, kRank);
    if (found == names.end()) return false;
    const int32_t rank = module.parameters()[static_cast<size_t>(found - names.begin())];
    hlo::Instruction baked;
    baked.opcode = hlo::Opcode::constant;
    baked.name = "baked";
    baked.shape = hlo::Shape(hlo::ElementType::s32, {});
    baked.literal.resize(4);
    insert_instruction(module, rank + 1, baked);
    redirect_users(module, rank, rank + 1);
    return true;
}

// The program with each fault that it can have, by name.
inline std::map<std::string, hlo::Module> broken_programs(const hlo::Module& right, int32_t ranks) {
    std::map<std::string, hlo::Module> programs;
    const auto plant = [&](const char* name, auto fault) {
        hlo::Module module = right;
        if (fault(module)) programs.emplace(name, std::move(module));
    };
    using enum hlo::Comparison;
    plant("operands", swap_operands);
    plant("window", [](hlo::Module& module) { return move_mask(module, gt, ge); });
    plant("mask", [](hlo::Module& module) { return move_mask(module, lt, le); });
    plant("groups", tile_groups);
    if (ranks > 1) plant("rank", bake_rank);
    return programs;
}

}  // namespace gemmatrace::trace::testing
