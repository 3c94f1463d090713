// Small tensors from numbers, and programs of one operation run over them.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/number.h"

namespace gemmatrace::hlo::testing {

inline Tensor tensor_of(ElementType type, std::vector<int64_t> dimensions, const std::vector<double>& numbers) {
    Tensor tensor{Shape(type, std::move(dimensions)), {}};
    for (const double number : numbers) {
        std::vector<std::byte> bytes;
        if (type == ElementType::f32 && !std::isfinite(number)) {  // which no constant may be, but inputs can
            const auto value = static_cast<float>(number);
            bytes.resize(sizeof value);
            std::memcpy(bytes.data(), &value, sizeof value);
        } else if (type == ElementType::bf16 && !std::isfinite(number)) {
            const uint16_t value = round_to_bf16(static_cast<float>(number));
            bytes.resize(sizeof value);
            std::memcpy(bytes.data(), &value, sizeof value);
        } else {
            bytes = encode_number(type, number);
        }
        tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
    }
    return tensor;
}

// A vector.
inline Tensor tensor_of(ElementType type, const std::vector<double>& numbers) {
    return tensor_of(type, {std::ssize(numbers)}, numbers);
}

// Numbers of about 1 in size, both signs; integers from -100 to 100; preds.
inline Tensor random_tensor(const Shape& shape, uint64_t seed) {
    const CounterRandom random(seed);
    std::vector<double> numbers;
    for (int64_t index = 0; index < shape.element_count(); ++index) {
        const double unit = random.unit(static_cast<uint64_t>(index)) * 2 - 1;
        if (is_floating(shape.type))
            numbers.push_back(unit * 2);
        else if (shape.type == ElementType::pred)
            numbers.push_back(unit > 0 ? 1 : 0);
        else if (shape.type == ElementType::s8 || shape.type == ElementType::s32)
            numbers.push_back(std::round(unit * 100));
        else
            numbers.push_back(std::round(std::fabs(unit) * 200));
    }
    return tensor_of(shape.type, shape.dimensions, numbers);
}

inline std::vector<double> numbers_of(const Tensor& tensor) {
    std::vector<double> numbers;
    for (int64_t index = 0; index < tensor.shape.element_count(); ++index) {
        numbers.push_back(decode_number(tensor.shape.type, tensor.bytes, static_cast<size_t>(index)));
    }
    return numbers;
}

inline std::vector<Argument> arguments_of(std::vector<Tensor>& tensors) {
    std::vector<Argument> arguments;
    for (Tensor& tensor : tensors) arguments.emplace_back(std::span(tensor.bytes));
    return arguments;
}

// The result of a program of one result over these inputs; build(builder, values) makes the result.
template <typename Build>
Tensor computed(std::vector<Tensor> inputs, Build build) {
    Builder builder("one");
    std::vector<Value> values;
    for (const Tensor& input : inputs) {
        values.push_back(builder.parameter("p" + std::to_string(values.size()), input.shape));
    }
    const Value result = build(builder, values);
    Evaluator evaluator(builder.finish({{"result", result}}), 1);
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    return std::move(evaluator.run(arguments)[0][0]);
}

}  // namespace gemmatrace::hlo::testing
