// Counts along the evaluation plan, which knows what shares memory.
#include "hlo/statistics.h"

#include <algorithm>

#include "hlo/evaluation_plan.h"

namespace gemmatrace::hlo {

namespace {

class Counter {
  public:
    explicit Counter(const Module& module)
        : module_(module), instructions_(module.entry().instructions), plan_(plan_evaluation(module)) {
        taken_.assign(instructions_.size(), 0);
        written_.assign(instructions_.size(), 0);
    }

    Statistics count() {
        count_operations();
        find_traffic();
        count_inputs();
        count_results();
        count_memory();
        return std::move(statistics_);
    }

  private:
    const Instruction& at(int32_t place) const { return instructions_[static_cast<size_t>(place)]; }
    size_t& taken(int32_t place) { return taken_[static_cast<size_t>(place)]; }
    size_t& written(int32_t place) { return written_[static_cast<size_t>(place)]; }
    void take(int32_t place, size_t bytes) { taken(place) = std::min(at(place).shape.bytes(), taken(place) + bytes); }

    void count_operations();
    void find_traffic();
    void count_inputs();
    void count_results();
    void count_memory();
    int32_t home_of(size_t output) const;

    const Module& module_;
    const std::vector<Instruction>& instructions_;
    EvaluationPlan plan_;
    Statistics statistics_;
    std::vector<size_t> taken_;    // by place: bytes of it that are read
    std::vector<size_t> written_;  // by place: bytes that updates in place have written to its memory
};

bool is_arithmetic(Opcode opcode) {
    return is_unary(opcode) || is_binary(opcode) || opcode == Opcode::convert || opcode == Opcode::compare ||
           opcode == Opcode::select || opcode == Opcode::clamp;
}

void Counter::count_operations() {
    statistics_.instructions = std::ssize(instructions_);
    for (const Instruction& instruction : instructions_) {
        ++statistics_.operations[std::string(opcode_name(instruction.opcode))];
        const auto operand_elements = [&] {
            return static_cast<double>(at(instruction.operands[0]).shape.element_count());
        };
        if (instruction.opcode == Opcode::dot) {
            double depth = 1;
            for (const int64_t axis : instruction.dot.lhs_contracting) {
                depth *= static_cast<double>(at(instruction.operands[0]).shape.dimensions[static_cast<size_t>(axis)]);
            }
            statistics_.dot_flop += 2 * depth * static_cast<double>(instruction.shape.element_count());
        }
        if (instruction.opcode == Opcode::reduce) statistics_.other_flop += operand_elements();
        if (instruction.opcode == Opcode::all_reduce) statistics_.all_reduce_bytes += instruction.shape.bytes();
        if (is_arithmetic(instruction.opcode)) {
            statistics_.other_flop += static_cast<double>(instruction.shape.element_count());
        }
    }
}

// The parameter whose memory is to hold a result, or -1.
int32_t Counter::home_of(size_t output) const {
    const std::vector<int32_t> parameters = module_.parameters();
    for (const Alias& alias : module_.aliases) {
        if (alias.output == static_cast<int64_t>(output)) return parameters[static_cast<size_t>(alias.parameter)];
    }
    return -1;
}

// What readers take of each place, users before what they use.
void Counter::find_traffic() {
    std::vector<int32_t> owners(instructions_.size());
    for (size_t place = 0; place < owners.size(); ++place) owners[place] = static_cast<int32_t>(place);
    for (const Step& step : plan_.steps) {
        if (step.manner != Manner::view && step.manner != Manner::in_place) continue;
        const int32_t owner = owners[static_cast<size_t>(step.operands[0])];
        owners[static_cast<size_t>(step.place)] = owner;
        if (step.manner == Manner::in_place) written(owner) += at(step.operands[1]).shape.bytes();
    }
    for (size_t output = 0; output < plan_.outputs.size(); ++output) {
        const int32_t place = plan_.outputs[output];
        const size_t bytes = at(place).shape.bytes();
        const int32_t owner = owners[static_cast<size_t>(place)];
        const bool is_home = owner == home_of(output) && at(owner).shape == at(place).shape;
        statistics_.bytes_written += is_home ? std::min(bytes, written(owner)) : bytes;
        if (!is_home) take(place, bytes);
    }
    for (size_t position = plan_.steps.size(); position-- > 0;) {
        const Step& step = plan_.steps[position];
        for (size_t index = 0; index < step.operands.size(); ++index) {
            const int32_t operand = step.operands[index];
            const Opcode opcode = at(step.place).opcode;
            const bool picks = opcode == Opcode::slice || opcode == Opcode::dynamic_slice || opcode == Opcode::gather;
            const bool shares = step.manner == Manner::view || step.manner == Manner::in_place;
            if (index == 0 && shares)
                take(operand, taken(step.place));
            else if (index == 0 && picks)
                take(operand, at(step.place).shape.bytes());
            else
                take(operand, at(operand).shape.bytes());
        }
    }
}

void Counter::count_inputs() {
    const std::vector<std::string> names = module_.parameter_names();
    const std::vector<int32_t> parameters = module_.parameters();
    for (size_t number = 0; number < parameters.size(); ++number) {
        const size_t bytes = at(parameters[number]).shape.bytes();
        InputGroup& group = statistics_.inputs[names[number].substr(0, names[number].find('.'))];
        ++group.count;
        group.bytes += bytes;
        group.bytes_read += taken(parameters[number]);
        ++statistics_.input_count;
        statistics_.input_bytes += bytes;
        statistics_.bytes_read += taken(parameters[number]);
    }
}

void Counter::count_results() {
    for (const Step& step : plan_.steps) {
        if (step.manner != Manner::computed && step.manner != Manner::reduced) continue;
        const Instruction& instruction = at(step.place);
        statistics_.intermediate_bytes += instruction.shape.bytes();
        statistics_.largest.push_back({instruction.name, instruction.opcode, instruction.shape});
    }
    auto& largest = statistics_.largest;
    std::stable_sort(largest.begin(), largest.end(),
                     [](const Buffer& a, const Buffer& b) { return a.shape.bytes() > b.shape.bytes(); });
    if (largest.size() > 10) largest.resize(10);
}

void Counter::count_memory() {
    size_t in_use = 0;
    for (const Step& step : plan_.steps) {
        const bool has_memory = step.manner == Manner::computed || step.manner == Manner::reduced;
        if (has_memory) in_use += at(step.place).shape.bytes();
        statistics_.peak_temporary_bytes = std::max(statistics_.peak_temporary_bytes, in_use);
        for (const int32_t place : step.freed_after) in_use -= at(place).shape.bytes();
    }
}

}  // namespace

Statistics statistics_of(const Module& module) { return Counter(module).count(); }

}  // namespace gemmatrace::hlo
