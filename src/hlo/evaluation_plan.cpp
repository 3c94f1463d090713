// Decides order, sharing and lifetime once, so that a run only follows the steps.
#include "hlo/evaluation_plan.h"

#include <algorithm>
#include <limits>

namespace gemmatrace::hlo {

namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

class Planner {
  public:
    explicit Planner(const Module& module) : module_(module), instructions_(module.entry().instructions) {}

    EvaluationPlan plan() {
        find_owners();
        for (const int32_t output : module_.outputs()) plan_.outputs.push_back(resolved(output));
        order_steps();
        find_last_uses();
        for (size_t position = 0; position < plan_.steps.size(); ++position) decide_manner(position);
        free_memory();
        return std::move(plan_);
    }

  private:
    const Instruction& at(int32_t place) const { return instructions_[static_cast<size_t>(place)]; }
    int32_t resolved(int32_t place) const;
    void find_owners();
    void order_steps();
    void emit(int32_t place);
    void find_last_uses();
    void decide_manner(size_t position);
    void free_memory();
    bool is_view(const Instruction& instruction) const;
    bool may_write_to(int32_t owner) const;

    const Module& module_;
    const std::vector<Instruction>& instructions_;
    EvaluationPlan plan_;
    std::vector<bool> is_done_;
    std::vector<bool> is_aliased_;               // by place: a parameter that a result takes over
    std::vector<size_t> last_use_;               // by place: position of the last step that reads it; kNever: a result
    std::vector<int32_t> owner_;                 // by place: whose memory it lies in
    std::vector<std::vector<int32_t>> tenants_;  // by owner: who lies in its memory
};

// The array behind elements of tuples.
int32_t Planner::resolved(int32_t place) const {
    std::vector<int64_t> path;
    while (true) {
        const Instruction& instruction = at(place);
        if (instruction.opcode == Opcode::get_tuple_element) {
            path.push_back(instruction.tuple_index);
            place = instruction.operands[0];
        } else if (instruction.opcode == Opcode::tuple && !path.empty()) {
            place = instruction.operands[static_cast<size_t>(path.back())];
            path.pop_back();
        } else {
            return place;
        }
    }
}

void Planner::find_owners() {
    const size_t count = instructions_.size();
    is_aliased_.assign(count, false);
    const std::vector<int32_t> parameters = module_.parameters();
    for (const Alias& alias : module_.aliases) {
        is_aliased_[static_cast<size_t>(parameters[static_cast<size_t>(alias.parameter)])] = true;
    }
    owner_.resize(count);
    tenants_.resize(count);
    for (size_t place = 0; place < count; ++place) {
        owner_[place] = static_cast<int32_t>(place);
        tenants_[place] = {static_cast<int32_t>(place)};
    }
}

// Program order, but a dynamic-update-slice comes right before its first user.
void Planner::order_steps() {
    is_done_.assign(instructions_.size(), false);
    for (size_t place = 0; place < instructions_.size(); ++place) {
        if (instructions_[place].opcode != Opcode::dynamic_update_slice) emit(static_cast<int32_t>(place));
    }
    for (const int32_t output : plan_.outputs) emit(output);
}

// `place` and before it what it needs and is not there: chains of updates, so without recursion.
void Planner::emit(int32_t place) {
    std::vector<int32_t> waiting = {place};
    while (!waiting.empty()) {
        const int32_t next = waiting.back();
        const Instruction& instruction = at(next);
        const size_t before = waiting.size();
        const bool is_tuple = instruction.opcode == Opcode::tuple || instruction.opcode == Opcode::get_tuple_element;
        std::vector<int32_t> operands;
        if (!is_tuple && !is_done_[static_cast<size_t>(next)]) {
            for (const int32_t operand : instruction.operands) {
                operands.push_back(resolved(operand));
                if (!is_done_[static_cast<size_t>(operands.back())]) waiting.push_back(operands.back());
            }
        }
        if (waiting.size() > before) continue;
        waiting.pop_back();
        if (is_tuple || is_done_[static_cast<size_t>(next)]) continue;
        is_done_[static_cast<size_t>(next)] = true;
        if (instruction.opcode == Opcode::parameter || instruction.opcode == Opcode::constant) continue;
        plan_.steps.push_back({next, Manner::computed, std::move(operands), {}});
    }
}

void Planner::find_last_uses() {
    last_use_.assign(instructions_.size(), 0);
    for (size_t position = 0; position < plan_.steps.size(); ++position) {
        last_use_[static_cast<size_t>(plan_.steps[position].place)] = position;
        for (const int32_t operand : plan_.steps[position].operands) last_use_[static_cast<size_t>(operand)] = position;
    }
    for (const int32_t output : plan_.outputs) last_use_[static_cast<size_t>(output)] = kNever;
}

// A transpose that moves axes of size 1 only.
bool keeps_order(const Shape& operand, const std::vector<int64_t>& permutation) {
    int64_t highest = -1;
    for (const int64_t axis : permutation) {
        if (operand.dimensions[static_cast<size_t>(axis)] == 1) continue;
        if (axis < highest) return false;
        highest = axis;
    }
    return true;
}

bool Planner::is_view(const Instruction& instruction) const {
    if (instruction.operands.empty()) return false;
    const Shape& operand = at(resolved(instruction.operands[0])).shape;
    switch (instruction.opcode) {
        case Opcode::reshape:
        case Opcode::copy:
            return true;
        case Opcode::convert:
            return operand.type == instruction.shape.type;
        case Opcode::broadcast:
            return operand.element_count() == instruction.shape.element_count();
        case Opcode::transpose:
            return keeps_order(operand, instruction.dimensions);
        case Opcode::dynamic_slice:
            return is_contiguous_slice(operand, instruction.shape);
        case Opcode::slice: {
            const bool has_stride = std::any_of(instruction.ranges.begin(), instruction.ranges.end(),
                                                [](const SliceRange& range) { return range.stride != 1; });
            return !has_stride && is_contiguous_slice(operand, instruction.shape);
        }
        default:
            return false;
    }
}

bool Planner::may_write_to(int32_t owner) const {
    if (at(owner).opcode == Opcode::constant) return false;
    return at(owner).opcode != Opcode::parameter || is_aliased_[static_cast<size_t>(owner)];
}

void Planner::decide_manner(size_t position) {
    Step& step = plan_.steps[position];
    const Instruction& instruction = at(step.place);
    const bool is_update = instruction.opcode == Opcode::dynamic_update_slice;
    if (instruction.opcode == Opcode::all_reduce) step.manner = Manner::reduced;
    if (!is_update && !is_view(instruction)) return;
    const int32_t owner = owner_[static_cast<size_t>(step.operands[0])];
    auto& tenants = tenants_[static_cast<size_t>(owner)];
    if (is_update) {
        const bool is_last = std::all_of(tenants.begin(), tenants.end(), [&](int32_t tenant) {
            return last_use_[static_cast<size_t>(tenant)] <= position;
        });
        const auto reads_it = [&](int32_t operand) { return owner_[static_cast<size_t>(operand)] == owner; };
        const bool reads_itself = std::any_of(step.operands.begin() + 1, step.operands.end(), reads_it);
        if (!is_last || reads_itself || !may_write_to(owner)) return;
    }
    step.manner = is_update ? Manner::in_place : Manner::view;
    owner_[static_cast<size_t>(step.place)] = owner;
    tenants.push_back(step.place);
}

void Planner::free_memory() {
    for (size_t place = 0; place < instructions_.size(); ++place) {
        const Opcode opcode = instructions_[place].opcode;
        const bool has_memory = owner_[place] == static_cast<int32_t>(place) && is_done_[place] &&
                                opcode != Opcode::parameter && opcode != Opcode::constant;
        if (!has_memory) continue;
        size_t last = 0;
        for (const int32_t tenant : tenants_[place]) last = std::max(last, last_use_[static_cast<size_t>(tenant)]);
        auto& freed = last == kNever ? plan_.freed_at_end : plan_.steps[last].freed_after;
        freed.push_back(static_cast<int32_t>(place));
    }
}

}  // namespace

EvaluationPlan plan_evaluation(const Module& module) { return Planner(module).plan(); }

bool is_contiguous_slice(const Shape& whole, const Shape& part) {
    size_t axis = 0;
    while (axis < part.rank() && part.dimensions[axis] == 1) ++axis;
    for (++axis; axis < part.rank(); ++axis) {
        if (part.dimensions[axis] != whole.dimensions[axis]) return false;
    }
    return true;
}

}  // namespace gemmatrace::hlo
