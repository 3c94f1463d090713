// Gives tools/judge_hlo.py what it compares with: the values of our evaluator, as files of raw elements.
//
//   hlo_values run MODULE RANKS IN OUT        execute; IN/rankR/PARAMETER.bin -> OUT/rankR/INSTRUCTION.bin of every
//                                             instruction that computes, and the results under their own names
//   hlo_values recompute MODULE RANKS IN OUT  each instruction alone, from IN/rankR/OPERAND.bin -> OUT/rankR
//   hlo_values text MODULE                    print it
//   hlo_values toys FOLDER                    write the toy programs with inputs, and broken ones
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "hlo/text.h"
#include "hlo/toy_modules.h"
#include "hlo/value_files.h"
#include "hlo/verifier.h"

namespace gemmatrace::hlo {
namespace {

namespace fs = std::filesystem;
using testing::read_module;
using testing::read_value;
using testing::value_path;
using testing::write_bytes;

void run(const Module& module, int32_t ranks, const fs::path& in, const fs::path& out) {
    std::vector<std::vector<Tensor>> inputs(static_cast<size_t>(ranks));
    std::vector<std::vector<Argument>> arguments;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        auto& own = inputs[static_cast<size_t>(rank)];
        for (const int32_t place : module.parameters()) {
            own.push_back(read_value(in, rank, module.entry().instructions[static_cast<size_t>(place)]));
        }
        arguments.push_back(testing::arguments_of(own));
    }
    const auto write = [&](int32_t rank, const Instruction& instruction, std::span<const std::byte> bytes) {
        write_bytes(value_path(out, rank, instruction.name), bytes);
    };
    const auto results = Evaluator(module, ranks).run(arguments, write);
    const auto names = module.output_names();
    for (int32_t rank = 0; rank < ranks; ++rank) {
        auto outputs = results[static_cast<size_t>(rank)];
        for (const Alias& alias : module.aliases) {
            outputs[static_cast<size_t>(alias.output)] =
                inputs[static_cast<size_t>(rank)][static_cast<size_t>(alias.parameter)];
        }
        for (size_t output = 0; output < outputs.size(); ++output) {
            write_bytes(value_path(out, rank, names[output]), outputs[output].bytes);
        }
    }
}

void recompute(const Module& module, int32_t ranks, const fs::path& in, const fs::path& out) {
    const auto& instructions = module.entry().instructions;
    for (const Instruction& instruction : instructions) {
        if (instruction.opcode == Opcode::parameter || instruction.opcode == Opcode::tuple) continue;
        std::vector<std::vector<Tensor>> operands(static_cast<size_t>(ranks));
        std::vector<Tensor> results;
        for (int32_t rank = 0; rank < ranks; ++rank) {
            for (const int32_t operand : instruction.operands) {
                operands[static_cast<size_t>(rank)].push_back(
                    read_value(in, rank, instructions[static_cast<size_t>(operand)]));
            }
        }
        if (instruction.opcode == Opcode::all_reduce) {
            std::vector<ArrayView> views;
            for (const auto& own : operands) views.push_back(own[0].view());
            results = evaluate_all_reduce(module, instruction, views);
        } else {
            for (const auto& own : operands) {
                std::vector<ArrayView> views;
                for (const Tensor& operand : own) views.push_back(operand.view());
                results.push_back(evaluate(module, instruction, views));
            }
        }
        for (int32_t rank = 0; rank < ranks; ++rank) {
            write_bytes(value_path(out, rank, instruction.name), results[static_cast<size_t>(rank)].bytes);
        }
    }
}

void write_toy(const fs::path& folder, const std::string& name, const Module& module, int32_t ranks) {
    testing::write_program(folder / name, module, ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto inputs = testing::toy_inputs(module, rank);
        const auto places = module.parameters();
        for (size_t number = 0; number < inputs.size(); ++number) {
            const auto& parameter = module.entry().instructions[static_cast<size_t>(places[number])];
            write_bytes(value_path(folder / name / "in", rank, parameter.name), inputs[number].bytes);
        }
    }
}

// The second operand of the first instruction of this opcode trades places with its first.
Module with_operands_swapped(Module module, Opcode opcode) {
    for (Instruction& instruction : module.computations.back().instructions) {
        if (instruction.opcode != opcode) continue;
        std::swap(instruction.operands[0], instruction.operands[1]);
        break;
    }
    return module;
}

void write_toys(const fs::path& folder) {
    write_toy(folder, "elementwise", testing::elementwise_module(), 1);
    for (const int32_t ranks : {1, 2, 4}) {
        write_toy(folder, fmt::format("movement{}", ranks), testing::movement_module(ranks), ranks);
        write_toy(folder, fmt::format("decode{}", ranks), testing::decode_step({.ranks = ranks}), ranks);
    }
    // broken-NAME-FAULT: the program NAME with one fault, and the inputs of NAME
    write_toy(folder, "broken-decode2-mask", testing::decode_step({.ranks = 2, .window_excess = 1}), 2);
    write_toy(folder, "broken-decode2-sum", testing::decode_step({.ranks = 2, .is_sum_forgotten = true}), 2);
    write_toy(folder, "broken-decode2-rotation", testing::decode_step({.ranks = 2, .are_halves_swapped = true}), 2);
    write_toy(folder, "broken-decode2-operands",
              with_operands_swapped(testing::decode_step({.ranks = 2}), Opcode::subtract), 2);
}

int main_of(int count, char** words) {
    const std::string command = count > 1 ? words[1] : "";
    if (command == "toys" && count == 3) {
        write_toys(words[2]);
    } else if (command == "text" && count == 3) {
        fmt::print("{}", module_text(read_module(words[2])));
    } else if ((command == "run" || command == "recompute") && count == 6) {
        const Module module = read_module(words[2]);
        const int32_t ranks = std::atoi(words[3]);
        require_sound(module, ranks);
        (command == "run" ? run : recompute)(module, ranks, words[4], words[5]);
    } else {
        fmt::print(stderr, "usage: hlo_values run|recompute MODULE RANKS IN OUT | text MODULE | toys FOLDER\n");
        return 2;
    }
    return 0;
}

}  // namespace
}  // namespace gemmatrace::hlo

int main(int count, char** words) {
    try {
        return gemmatrace::hlo::main_of(count, words);
    } catch (const gemmatrace::Error& error) {
        fmt::print(stderr, "{}\n", error.what());
        return gemmatrace::exit_status(error.code());
    }
}
