// Goes through a module once, instruction by instruction, and lists what breaks a rule.
#include "hlo/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "hlo/number.h"
#include "hlo/shape_inference.h"

namespace gemmatrace::hlo {

namespace {

class Verifier {
  public:
    Verifier(const Module& module, int32_t ranks) : module_(module), ranks_(ranks) {}

    std::vector<Finding> verify() {
        if (module_.computations.empty()) {
            report("", "there is no entry computation");
            return std::move(findings_);
        }
        for (const Computation& computation : module_.computations) verify_computation(computation);
        if (!has_unsound_) {  // the rest looks things up by place and number
            verify_calls();
            verify_interface();
            verify_aliases();
            verify_use();
        }
        return std::move(findings_);
    }

  private:
    void report(const std::string& instruction, std::string fault) {
        has_unsound_ = true;
        findings_.push_back({printable(instruction), std::move(fault), false});
    }
    void warn(const std::string& instruction, std::string fault) {
        findings_.push_back({printable(instruction), std::move(fault), true});
    }

    void verify_computation(const Computation& computation);
    void verify_name(const Instruction& instruction);
    bool verify_operands(const Computation& computation, size_t place);
    void verify_parameters(const Computation& computation);
    void verify_acceptance(const Instruction& instruction);
    void verify_constant(const Instruction& instruction);
    void verify_groups(const Instruction& instruction);
    void verify_calls();
    void verify_interface();
    void verify_aliases();
    void verify_use();

    const Module& module_;
    int32_t ranks_;
    std::vector<Finding> findings_;
    std::set<std::string_view> names_;
    bool has_unsound_ = false;
};

bool is_name_character(char character) {
    return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_' || character == '.' ||
           character == '-';
}

void Verifier::verify_name(const Instruction& instruction) {
    const std::string& name = instruction.name;
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_character)) {
        report(name, "the name is empty or has characters beyond letters, digits, '_', '.' and '-'");
    }
    if (!names_.insert(name).second) report(name, "another instruction has this name");
}

// Places before `place`, and the shape that follows from theirs.
bool Verifier::verify_operands(const Computation& computation, size_t place) {
    const Instruction& instruction = computation.instructions[place];
    std::vector<const Shape*> shapes;
    for (const int32_t operand : instruction.operands) {
        if (operand < 0 || static_cast<size_t>(operand) >= place) {
            report(instruction.name, "an operand does not come before it");
            return false;
        }
        shapes.push_back(&computation.instructions[static_cast<size_t>(operand)].shape);
    }
    try {
        const Shape inferred = infer_shape(instruction, shapes);
        if (inferred == instruction.shape) return true;
        report(instruction.name,
               fmt::format("its shape is {}, but its operands give {}", instruction.shape.text(), inferred.text()));
    } catch (const Error& error) {
        report(instruction.name, error.message());
    }
    return false;
}

void Verifier::verify_parameters(const Computation& computation) {
    std::vector<bool> is_there;
    for (const Instruction& instruction : computation.instructions) {
        if (instruction.opcode == Opcode::parameter) is_there.push_back(false);
    }
    for (const Instruction& instruction : computation.instructions) {
        if (instruction.opcode != Opcode::parameter) continue;
        const int64_t number = instruction.parameter_number;
        if (number < 0 || number >= std::ssize(is_there) || is_there[static_cast<size_t>(number)]) {
            report(instruction.name,
                   fmt::format("parameter number {} is given twice, or a lower one is missing", number));
        } else {
            is_there[static_cast<size_t>(number)] = true;
        }
    }
}

void Verifier::verify_computation(const Computation& computation) {
    for (size_t place = 0; place < computation.instructions.size(); ++place) {
        const Instruction& instruction = computation.instructions[place];
        verify_name(instruction);
        if (!verify_operands(computation, place)) continue;
        verify_acceptance(instruction);
        if (instruction.opcode == Opcode::constant) verify_constant(instruction);
        if (instruction.opcode == Opcode::all_reduce) verify_groups(instruction);
    }
    verify_parameters(computation);
    if (computation.root < 0 || computation.root >= std::ssize(computation.instructions)) {
        report("", fmt::format("computation {} has no root", printable(computation.name)));
    }
}

// What neuron compilers are known to take, and what they and XLA agree about.
void Verifier::verify_acceptance(const Instruction& instruction) {
    const auto is = [&](Opcode opcode) { return instruction.opcode == opcode; };
    if (is(Opcode::remainder) || is(Opcode::clamp) || is(Opcode::logistic)) {
        warn(instruction.name, fmt::format("{} is not among the operations that the compiler is known to take",
                                           opcode_name(instruction.opcode)));
    }
    if (is(Opcode::dot) && instruction.shape.type != ElementType::f32) {
        warn(instruction.name,
             fmt::format("the dot is typed {}, which compilers round differently: type it f32 and convert",
                         instruction.shape.text()));
    }
    const bool sums = is(Opcode::reduce) || is(Opcode::all_reduce);
    const auto combiner = sums ? module_.combiner(instruction.called_computation) : std::nullopt;
    const bool rounds = combiner == Opcode::add || combiner == Opcode::multiply;
    if (rounds && is_floating(instruction.shape.type) && instruction.shape.type != ElementType::f32) {
        warn(instruction.name,
             fmt::format("a sum in {} rounds at every step: convert to f32 first", type_name(instruction.shape.type)));
    }
}

void Verifier::verify_constant(const Instruction& instruction) {
    if (!instruction.shape.is_scalar()) {
        warn(instruction.name,
             fmt::format("a constant of {} is copied into every program: make it an input", instruction.shape.text()));
    }
    const auto count = static_cast<size_t>(instruction.shape.element_count());
    for (size_t index = 0; index < count; ++index) {
        if (std::isfinite(decode_number(instruction.shape.type, instruction.literal, index))) continue;
        warn(instruction.name, "a constant is NaN or infinite: use a finite fill");
        return;
    }
}

void Verifier::verify_groups(const Instruction& instruction) {
    if (instruction.groups.empty()) return;  // all ranks
    std::vector<int64_t> named;
    for (const auto& group : instruction.groups) named.insert(named.end(), group.begin(), group.end());
    std::sort(named.begin(), named.end());
    bool is_partition = std::ssize(named) == ranks_;
    for (size_t rank = 0; is_partition && rank < named.size(); ++rank) {
        is_partition = named[rank] == static_cast<int64_t>(rank);
    }
    if (is_partition) return;
    report(instruction.name,
           fmt::format("its groups name ranks {} where the program runs on {}", fmt::join(named, ","), ranks_));
}

void Verifier::verify_calls() {
    std::vector<bool> is_called(module_.computations.size(), false);
    is_called.back() = true;
    for (size_t caller = 0; caller < module_.computations.size(); ++caller) {
        for (const Instruction& instruction : module_.computations[caller].instructions) {
            if (instruction.opcode != Opcode::reduce && instruction.opcode != Opcode::all_reduce) continue;
            const int32_t called = instruction.called_computation;
            const auto combiner = module_.combiner(called);
            const bool is_before = called >= 0 && static_cast<size_t>(called) < caller;
            const bool is_allowed = combiner == Opcode::add || combiner == Opcode::multiply ||
                                    combiner == Opcode::maximum || combiner == Opcode::minimum;
            if (!is_before || !is_allowed) {
                report(instruction.name, "what it calls is not add, multiply, maximum or minimum of two scalars");
                continue;
            }
            is_called[static_cast<size_t>(called)] = true;
            const Shape& scalar = module_.computations[static_cast<size_t>(called)].instructions.back().shape;
            if (scalar != Shape(instruction.shape.type, {})) {
                report(instruction.name, fmt::format("what it calls is made for {}", scalar.text()));
            }
        }
    }
    for (size_t place = 0; place < is_called.size(); ++place) {
        if (is_called[place]) continue;
        report("", fmt::format("nothing calls computation {}", printable(module_.computations[place].name)));
    }
}

void Verifier::verify_interface() {
    const Instruction& root = module_.entry().instructions[static_cast<size_t>(module_.entry().root)];
    for (const Shape& element : root.shape.elements) {
        if (element.is_tuple()) report(root.name, "the result has a tuple in a tuple");
    }
    if (root.shape.is_tuple() && root.opcode != Opcode::tuple) report(root.name, "the result is not built by tuple");
    if (module_.output_names().size() != module_.outputs().size()) {
        report(root.name,
               fmt::format("it has {} results, but names {}", module_.outputs().size(), module_.output_names().size()));
    }
    ProgramShape expected;
    for (const int32_t place : module_.parameters()) {
        expected.parameters.push_back(module_.entry().instructions[static_cast<size_t>(place)].shape);
    }
    if (module_.host_shape.parameters != expected.parameters || module_.host_shape.result != root.shape ||
        module_.host_shape.parameter_names.size() != expected.parameters.size()) {
        warn("", "the host program shape is not that of the parameters and the result");
    }
    for (const int32_t place : module_.outputs()) {
        const Instruction& output = module_.entry().instructions[static_cast<size_t>(place)];
        if (output.opcode == Opcode::parameter) warn(output.name, "it is returned as it is: pass it through a copy");
    }
}

void Verifier::verify_aliases() {
    const std::vector<int32_t> parameters = module_.parameters();
    const std::vector<int32_t> outputs = module_.outputs();
    std::set<int64_t> seen_outputs, seen_parameters;
    for (const auto& [output, parameter] : module_.aliases) {
        if (output < 0 || output >= std::ssize(outputs) || parameter < 0 || parameter >= std::ssize(parameters)) {
            report("",
                   fmt::format("result {} is aliased to parameter {}, which are not both there", output, parameter));
            continue;
        }
        const auto& instructions = module_.entry().instructions;
        const Instruction& result = instructions[static_cast<size_t>(outputs[static_cast<size_t>(output)])];
        const Instruction& input = instructions[static_cast<size_t>(parameters[static_cast<size_t>(parameter)])];
        if (result.shape != input.shape) {
            report(input.name, fmt::format("its memory, {}, is to take result {}, {}", input.shape.text(), result.name,
                                           result.shape.text()));
        }
        const bool is_new = seen_outputs.insert(output).second;
        if (!seen_parameters.insert(parameter).second || !is_new) {
            report(input.name, fmt::format("it or result {} is aliased twice", output));
        }
    }
}

void Verifier::verify_use() {
    for (const Computation& computation : module_.computations) {
        std::vector<bool> is_used(computation.instructions.size(), false);
        is_used[static_cast<size_t>(computation.root)] = true;
        for (size_t place = computation.instructions.size(); place-- > 0;) {
            const Instruction& instruction = computation.instructions[place];
            if (!is_used[place]) {
                const bool is_parameter = instruction.opcode == Opcode::parameter;
                warn(instruction.name, is_parameter ? "nothing reads this parameter" : "no result depends on it");
                continue;
            }
            for (const int32_t operand : instruction.operands) is_used[static_cast<size_t>(operand)] = true;
        }
    }
}

}  // namespace

std::vector<Finding> verify(const Module& module, int32_t ranks) { return Verifier(module, ranks).verify(); }

void require_sound(const Module& module, int32_t ranks) {
    std::vector<Finding> findings = verify(module, ranks);
    std::erase_if(findings, [](const Finding& finding) { return finding.is_sound; });
    if (findings.empty()) return;
    throw Error(ErrorCode::corrupt,
                fmt::format("program {}: {} ({} faults)", printable(module.name), findings[0].fault, findings.size()),
                {{"instruction", findings[0].instruction}}, "make the program again");
}

}  // namespace gemmatrace::hlo
