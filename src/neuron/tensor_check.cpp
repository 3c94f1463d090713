// Names and sizes, one list against the other.
#include "neuron/tensor_check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace gemmatrace::neuron {
namespace {

[[noreturn]] void refuse_neff(std::string message, const std::string& where) {
    throw Error(ErrorCode::mismatch, std::move(message), {{"file", where}},
                "compile the bundle again with `gemmatrace compile`");
}

}  // namespace

std::vector<NeffTensor> expected_tensors(const hlo::Module& module) {
    std::vector<NeffTensor> tensors;
    const auto inputs = module.parameter_names();
    for (size_t number = 0; number < inputs.size(); ++number) {
        tensors.push_back({inputs[number], NeffTensor::Kind::input, module.host_shape.parameters[number].bytes()});
    }
    const auto outputs = module.output_names();
    const hlo::Shape& result = module.host_shape.result;
    for (size_t place = 0; place < outputs.size(); ++place) {
        const hlo::Shape& shape = result.is_tuple() ? result.elements[place] : result;
        tensors.push_back({outputs[place], NeffTensor::Kind::output, shape.bytes()});
    }
    return tensors;
}

void check_neff(const NeffInfo& neff, const hlo::Module& module, const std::string& where) {
    if (neff.lnc_size > 1) {
        refuse_neff(fmt::format("the program was compiled for logical cores of {}", neff.lnc_size), where);
    }
    const auto difference = first_difference(neff, expected_tensors(module));
    if (!difference) return;
    const char* side = difference->side();
    const std::string& name = difference->name;
    if (!difference->bytes_in_neff) refuse_neff(fmt::format("the compiled program lacks the {} {}", side, name), where);
    if (!difference->bytes_expected) {
        refuse_neff(fmt::format("the compiled program has an {} more: {}", side, name), where);
    }
    refuse_neff(fmt::format("the {} {} has {} bytes in the compiled program, and {} in the one it was made of", side,
                            name, *difference->bytes_in_neff, *difference->bytes_expected),
                where);
}

}  // namespace gemmatrace::neuron
