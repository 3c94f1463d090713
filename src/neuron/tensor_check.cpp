// Names and sizes, one list against the other.
#include "neuron/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace gemmatrace::neuron {
namespace {

[[noreturn]] void refuse_neff(std::string message, const std::string& where) {
    throw Error(ErrorCode::mismatch, std::move(message), {{"file", where}},
                "compile the bundle again with `gemmatrace compile`");
}

void check_side(const NeffInfo& neff, NeffTensor::Kind kind, const std::vector<std::string>& names,
                const std::vector<size_t>& bytes, const std::string& where) {
    const char* side = kind == NeffTensor::Kind::input ? "input" : "output";
    for (size_t index = 0; index < names.size(); ++index) {
        const NeffTensor* found = neff.find(kind, names[index]);
        if (found == nullptr)
            refuse_neff(fmt::format("the compiled program lacks the {} {}", side, names[index]), where);
        if (found->bytes != bytes[index]) {
            refuse_neff(fmt::format("the {} {} has {} bytes in the compiled program, and {} in the one it was made of",
                                    side, names[index], found->bytes, bytes[index]),
                        where);
        }
    }
    for (const NeffTensor& tensor : neff.tensors) {
        if (tensor.kind != kind || std::ranges::find(names, tensor.name) != names.end()) continue;
        refuse_neff(fmt::format("the compiled program has an {} more: {}", side, tensor.name), where);
    }
}

}  // namespace

void check_neff(const NeffInfo& neff, const hlo::Module& module, const std::string& where) {
    if (neff.lnc_size > 1) {
        refuse_neff(fmt::format("the program was compiled for logical cores of {}", neff.lnc_size), where);
    }
    std::vector<size_t> input_bytes, output_bytes;
    for (const hlo::Shape& shape : module.host_shape.parameters) input_bytes.push_back(shape.bytes());
    const hlo::Shape& result = module.host_shape.result;
    if (result.is_tuple()) {
        for (const hlo::Shape& shape : result.elements) output_bytes.push_back(shape.bytes());
    } else {
        output_bytes.push_back(result.bytes());
    }
    check_side(neff, NeffTensor::Kind::input, module.parameter_names(), input_bytes, where);
    check_side(neff, NeffTensor::Kind::output, module.output_names(), output_bytes, where);
}

}  // namespace gemmatrace::neuron
