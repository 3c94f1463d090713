// Names of opcodes and comparisons, and what a module says about its inputs and results.
#include "hlo/module.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace gemmatrace::hlo {

namespace {

struct OpcodeFacts {
    std::string_view name;
    int operands;
};

// In the order of Opcode.
constexpr std::array<OpcodeFacts, kOpcodeCount> kOpcodes = {{
    {"parameter", 0},
    {"constant", 0},
    {"tuple", -1},
    {"get-tuple-element", 1},
    {"copy", 1},
    {"add", 2},
    {"subtract", 2},
    {"multiply", 2},
    {"divide", 2},
    {"remainder", 2},
    {"maximum", 2},
    {"minimum", 2},
    {"power", 2},
    {"and", 2},
    {"or", 2},
    {"negate", 1},
    {"abs", 1},
    {"sign", 1},
    {"floor", 1},
    {"ceil", 1},
    {"sqrt", 1},
    {"rsqrt", 1},
    {"exponential", 1},
    {"log", 1},
    {"tanh", 1},
    {"sine", 1},
    {"cosine", 1},
    {"logistic", 1},
    {"not", 1},
    {"convert", 1},
    {"compare", 2},
    {"select", 3},
    {"clamp", 3},
    {"broadcast", 1},
    {"reshape", 1},
    {"transpose", 1},
    {"slice", 1},
    {"concatenate", -1},
    {"iota", 0},
    {"dynamic-slice", -1},
    {"dynamic-update-slice", -1},
    {"gather", 2},
    {"dot", 2},
    {"reduce", 2},
    {"all-reduce", 1},
}};

constexpr std::array<std::string_view, 6> kComparisons = {"EQ", "NE", "LT", "LE", "GT", "GE"};

}  // namespace

std::string_view opcode_name(Opcode opcode) { return kOpcodes[static_cast<size_t>(opcode)].name; }

std::optional<Opcode> opcode_of_name(std::string_view name) {
    for (size_t number = 0; number < kOpcodes.size(); ++number) {
        if (kOpcodes[number].name == name) return static_cast<Opcode>(number);
    }
    return std::nullopt;
}

int operand_count(Opcode opcode) { return kOpcodes[static_cast<size_t>(opcode)].operands; }

bool is_binary(Opcode opcode) { return opcode >= Opcode::add && opcode <= Opcode::logical_or; }

bool is_unary(Opcode opcode) { return opcode >= Opcode::negate && opcode <= Opcode::logical_not; }

std::string_view comparison_name(Comparison comparison) { return kComparisons[static_cast<size_t>(comparison)]; }

std::optional<Comparison> comparison_of_name(std::string_view name) {
    const auto found = std::find(kComparisons.begin(), kComparisons.end(), name);
    if (found == kComparisons.end()) return std::nullopt;
    return static_cast<Comparison>(found - kComparisons.begin());
}

const Computation& Module::entry() const {
    require(!computations.empty(), "a module has an entry computation");
    return computations.back();
}

std::vector<int32_t> Module::parameters() const {
    const auto& instructions = entry().instructions;
    std::vector<int32_t> places;
    for (size_t place = 0; place < instructions.size(); ++place) {
        if (instructions[place].opcode != Opcode::parameter) continue;
        const auto number = static_cast<size_t>(instructions[place].parameter_number);
        if (places.size() <= number) places.resize(number + 1, -1);
        places[number] = static_cast<int32_t>(place);
    }
    return places;
}

std::vector<std::string> Module::parameter_names() const {
    std::vector<std::string> names;
    for (const int32_t place : parameters()) {
        const Instruction& parameter = entry().instructions[static_cast<size_t>(place)];
        const auto attribute = parameter.frontend_attributes.find(std::string(kInputNames));
        names.push_back(attribute == parameter.frontend_attributes.end() ? parameter.name : attribute->second);
    }
    return names;
}

std::vector<int32_t> Module::outputs() const {
    const Instruction& root = entry().instructions[static_cast<size_t>(entry().root)];
    return root.opcode == Opcode::tuple ? root.operands : std::vector<int32_t>{entry().root};
}

std::vector<std::string> Module::output_names() const {
    const Instruction& root = entry().instructions[static_cast<size_t>(entry().root)];
    const auto attribute = root.frontend_attributes.find(std::string(kOutputNames));
    std::vector<std::string> names;
    if (attribute == root.frontend_attributes.end()) {
        for (size_t index = 0; index < outputs().size(); ++index) names.push_back("output" + std::to_string(index));
        return names;
    }
    std::string_view rest = attribute->second;
    while (true) {
        const size_t comma = rest.find(',');
        names.emplace_back(rest.substr(0, comma));
        if (comma == std::string_view::npos) return names;
        rest.remove_prefix(comma + 1);
    }
}

std::optional<Opcode> Module::combiner(int32_t computation) const {
    if (computation < 0 || static_cast<size_t>(computation) >= computations.size()) return std::nullopt;
    const Computation& called = computations[static_cast<size_t>(computation)];
    if (called.instructions.size() != 3 || called.root != 2) return std::nullopt;
    const auto& [first, second, root] =
        std::tie(called.instructions[0], called.instructions[1], called.instructions[2]);
    const bool are_parameters = first.opcode == Opcode::parameter && second.opcode == Opcode::parameter &&
                                first.parameter_number == 0 && second.parameter_number == 1;
    if (!are_parameters || !is_binary(root.opcode) || root.operands != std::vector<int32_t>{0, 1}) return std::nullopt;
    return root.opcode;
}

}  // namespace gemmatrace::hlo
