// Shapes are uneven where a layout could be mistaken for another, and values are exact in every order where that is
// asked for.
#include "neuron/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "hlo/builder.h"
#include "hlo/evaluator.h"

namespace gemmatrace::neuron {
namespace {

using hlo::Builder;
using hlo::ElementType;
using hlo::Shape;
using hlo::Value;

std::string plain_name(const std::string& name) {
    return name.ends_with(hlo::kAliasSuffix) ? name.substr(0, name.size() - hlo::kAliasSuffix.size()) : name;
}

Probe floating_probe(ElementType type) {
    Builder builder(fmt::format("types_{}", hlo::type_name(type)));
    const Value a = builder.parameter("a", Shape(type, {37, 131}));
    const Value b = builder.parameter("b", Shape(type, {37, 131}));
    const ElementType other = type == ElementType::f32 ? ElementType::bf16 : ElementType::f32;
    return {fmt::format("{} in and out, added, multiplied, converted", hlo::type_name(type)),
            builder.finish({{"sum", builder.add(a, b)},
                            {"product", builder.multiply(a, b)},
                            {"converted", builder.convert(builder.multiply(a, b), other)}})};
}

Probe integer_probe() {
    Builder builder("types_s32");
    const Value a = builder.parameter("a", Shape(ElementType::s32, {5, 67}));
    const Value b = builder.parameter("b", Shape(ElementType::s32, {5, 67}));
    return {"s32 in and out, added, as f32, and a row of numbers",
            builder.finish({{"sum", builder.add(a, b)},
                            {"as_f32", builder.convert(a, ElementType::f32)},
                            {"numbers", builder.iota(ElementType::s32, {5, 67}, 1)}})};
}

Probe comparison_probe() {
    Builder builder("types_pred");
    const Value a = builder.parameter("a", Shape(ElementType::f32, {9, 65}));
    const Value b = builder.parameter("b", Shape(ElementType::f32, {9, 65}));
    const Value mask = builder.parameter("mask", Shape(ElementType::pred, {9, 65}));
    const Value is_less = builder.compare(hlo::Comparison::lt, a, b);
    return {"pred in and out, from a comparison, and chosen by",
            builder.finish({{"is_less", is_less},
                            {"both", builder.logical_and(is_less, mask)},
                            {"chosen", builder.select(mask, a, b)}})};
}

Probe transpose_probe(ElementType type) {
    Builder builder(fmt::format("transposes_{}", hlo::type_name(type)));
    const Value a = builder.parameter("a", Shape(type, {3, 50, 129}));
    const Value flat = builder.reshape(a, {150, 129});
    return {fmt::format("{} turned over in uneven sizes, cut and joined", hlo::type_name(type)),
            builder.finish({{"outer", builder.transpose(a, {1, 0, 2})},
                            {"inner", builder.transpose(a, {0, 2, 1})},
                            {"all", builder.transpose(a, {2, 1, 0})},
                            {"flat", builder.transpose(flat, {1, 0})},
                            {"half", builder.slice_axis(a, 2, 40, 80)}})};
}

Probe product_probe() {
    Builder builder("products");
    const Value a = builder.parameter("a", Shape(ElementType::bf16, {7, 300}));
    const Value b = builder.parameter("b", Shape(ElementType::bf16, {130, 300}));
    const hlo::DotAxes axes{{1}, {1}, {}, {}};
    const Value product = builder.dot(a, b, axes);
    const Value wide = builder.convert(a, ElementType::f32);
    return {"products of bf16 matrices summed in f32, and a sum of squares",
            builder.finish({{"product", product},
                            {"squares", builder.reduce(builder.multiply(wide, wide), hlo::Opcode::add, {1}, 0.0)}}),
            false};
}

Probe curve_probe() {
    Builder builder("curves");
    const Value a = builder.parameter("a", Shape(ElementType::f32, {16, 100}));
    return {"exp, tanh and rsqrt in f32",
            builder.finish({{"exponential", builder.exponential(a)},
                            {"tanh", builder.tanh(a)},
                            {"rsqrt", builder.rsqrt(builder.add(builder.abs(a), builder.splat_like(a, 0.5)))}}),
            false};
}

// An element of an array as a number; NaN stays NaN.
double element_at(std::span<const std::byte> bytes, ElementType type, size_t index) {
    const std::byte* at = bytes.data() + index * hlo::element_bytes(type);
    const auto load = [&]<typename Number>(Number number) {
        std::memcpy(&number, at, sizeof number);
        return number;
    };
    switch (type) {
        case ElementType::f32:
            return static_cast<double>(load(0.0F));
        case ElementType::bf16:
            return static_cast<double>(bf16_to_float(load(uint16_t{0})));
        case ElementType::s32:
            return load(int32_t{0});
        case ElementType::pred:
            return load(uint8_t{0});
        default:
            break;
    }
    throw Error(ErrorCode::internal, "probes have no such type");
}

ProbeDifference compare_output(const std::string& name, int32_t rank, const Shape& shape,
                               std::span<const std::byte> expected, std::span<const std::byte> found) {
    ProbeDifference result;
    result.output = name;
    result.rank = rank;
    result.elements = static_cast<size_t>(shape.element_count());
    const size_t width = hlo::element_bytes(shape.type);
    for (size_t index = 0; index < result.elements; ++index) {
        const double wanted = element_at(expected, shape.type, index);
        result.largest_expected = std::max(result.largest_expected, std::abs(wanted));
        if (std::ranges::equal(expected.subspan(index * width, width), found.subspan(index * width, width))) continue;
        const double got = element_at(found, shape.type, index);
        if (result.different++ == 0) result.first = fmt::format("element {}: {:g} instead of {:g}", index, got, wanted);
        if (!std::isfinite(got))
            ++result.not_numbers;
        else
            result.largest_difference = std::max(result.largest_difference, std::abs(got - wanted));
    }
    return result;
}

}  // namespace

Probe addition_probe() {
    Builder builder("addition");
    const Value a = builder.parameter("a", Shape(ElementType::f32, {128, 64}));
    const Value b = builder.parameter("b", Shape(ElementType::f32, {128, 64}));
    return {"one addition", builder.finish({{"y", builder.add(a, b)}})};
}

std::vector<Probe> type_probes() {
    std::vector<Probe> probes;
    probes.push_back(floating_probe(ElementType::f32));
    probes.push_back(floating_probe(ElementType::bf16));
    probes.push_back(integer_probe());
    probes.push_back(comparison_probe());
    probes.push_back(transpose_probe(ElementType::f32));
    probes.push_back(transpose_probe(ElementType::bf16));
    probes.push_back(product_probe());
    probes.push_back(curve_probe());
    return probes;
}

Probe ranks_probe(int32_t ranks) {
    Builder builder("ranks", ranks);
    const Value a = builder.parameter("a", Shape(ElementType::f32, {8, 48}));
    const Value b = builder.parameter("b", Shape(ElementType::bf16, {3, 1536}));
    const Value wide = builder.convert(b, ElementType::f32);
    return {"sums over ranks", builder.finish({{"sum", builder.all_reduce(a, hlo::Opcode::add)},
                                               {"row_sum", builder.all_reduce(wide, hlo::Opcode::add)}})};
}

Probe alias_probe(int64_t rows, bool is_read) {
    Builder builder(is_read ? "alias_read" : "alias_unread");
    const Value cache =
        builder.parameter("cache" + std::string(hlo::kAliasSuffix), Shape(ElementType::bf16, {rows, 2, 8}));
    const Value update = builder.parameter("update", Shape(ElementType::bf16, {1, 2, 8}));
    const Value row = builder.parameter("row", Shape(ElementType::s32, {}));
    const Value zero = builder.constant(ElementType::s32, 0);
    const Value starts[] = {row, zero, zero};
    std::vector<hlo::Output> outputs = {
        {"cache", builder.dynamic_update_slice(cache, update, starts), cache},
        {"echo", builder.add(update, update)},
    };
    if (is_read) outputs.push_back({"before", builder.convert(cache, ElementType::f32)});
    return {is_read ? "a buffer written in place that is read before" : "a buffer written in place that nobody reads",
            builder.finish(std::move(outputs))};
}

Probe streaming_probe(int64_t rows, int64_t columns) {
    Builder builder("streaming");
    const Value x = builder.parameter("x", Shape(ElementType::bf16, {1, columns}));
    const Value first = builder.parameter("first", Shape(ElementType::bf16, {rows, columns}));
    const Value second = builder.parameter("second", Shape(ElementType::bf16, {rows, columns}));
    const hlo::DotAxes axes{{1}, {1}, {}, {}};
    return {"a row times two matrices",
            builder.finish({{"y", builder.add(builder.dot(x, first, axes), builder.dot(x, second, axes))}})};
}

Probe biggest_probe(int64_t rows, int64_t columns) {
    Builder builder("biggest");
    const Value table = builder.parameter("table", Shape(ElementType::bf16, {rows, columns}));
    const Value row = builder.parameter("row", Shape(ElementType::s32, {}));
    const Value starts[] = {row, builder.constant(ElementType::s32, 0)};
    return {
        "a row of a large input",
        builder.finish({{"y", builder.convert(builder.dynamic_slice(table, starts, {1, columns}), ElementType::f32)}})};
}

Probe inputs_probe(int32_t count) {
    Builder builder(fmt::format("inputs_{}", count));
    Value sum;
    for (int32_t number = 0; number < count; ++number) {
        const Value input = builder.parameter(fmt::format("p{}", number), Shape(ElementType::f32, {8, 128}));
        sum = sum.is_set() ? builder.add(sum, input) : input;
    }
    return {fmt::format("the sum of {} inputs", count), builder.finish({{"y", builder.add(sum, sum)}})};
}

ProbeValues probe_values(const hlo::Module& module, uint32_t seed) {
    std::minstd_rand random(seed);
    const auto names = module.parameter_names();
    ProbeValues values;
    for (size_t number = 0; number < names.size(); ++number) {
        const Shape& shape = module.host_shape.parameters[number];
        auto& bytes = values[plain_name(names[number])];
        bytes.resize(shape.bytes());
        const size_t width = hlo::element_bytes(shape.type);
        for (size_t at = 0; at < bytes.size(); at += width) {
            const auto whole = static_cast<int32_t>(random() / 1000 % 17) - 8;
            const float half = static_cast<float>(whole) / 2.0F;
            const uint16_t narrow = float_to_bf16(half);
            const int32_t integer = shape.rank() == 0 ? 0 : whole;
            const auto bit = static_cast<uint8_t>(whole & 1);
            if (shape.type == ElementType::f32) std::memcpy(&bytes[at], &half, width);
            if (shape.type == ElementType::bf16) std::memcpy(&bytes[at], &narrow, width);
            if (shape.type == ElementType::s32) std::memcpy(&bytes[at], &integer, width);
            if (shape.type == ElementType::pred) std::memcpy(&bytes[at], &bit, width);
        }
    }
    return values;
}

ProbeProgram::ProbeProgram(trace::Device& device, const hlo::Module& module) : device_(device) {
    program_ = device.load(module, [this](const std::string& name, size_t bytes) {
        const auto [found, is_new] = buffers_.try_emplace(plain_name(name), -1);
        if (is_new) found->second = device_.allocate(found->first, bytes);
        return found->second;
    });
}

void ProbeProgram::write(const std::string& name, int32_t rank, size_t offset, std::span<const std::byte> bytes) {
    device_.write(buffers_.at(name), rank, offset, bytes);
}

void ProbeProgram::write(const ProbeValues& values, int32_t rank) {
    for (const auto& [name, bytes] : values) write(name, rank, 0, bytes);
}

double ProbeProgram::run() {
    device_.wait();
    const auto start = std::chrono::steady_clock::now();
    device_.start(program_);
    device_.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::byte> ProbeProgram::read(const std::string& name, int32_t rank, size_t offset, size_t bytes) {
    std::vector<std::byte> found(bytes);
    const trace::Device::Read read{buffers_.at(name), rank, offset, found};
    device_.read(std::span(&read, 1));
    return found;
}

std::vector<ProbeDifference> compare_with_evaluator(ProbeProgram& program, const hlo::Module& module,
                                                    const std::vector<ProbeValues>& values) {
    const auto names = module.parameter_names();
    std::vector<ProbeValues> memory = values;  // the evaluator writes aliased ones
    std::vector<std::vector<hlo::Argument>> arguments(values.size());
    for (size_t rank = 0; rank < values.size(); ++rank) {
        program.write(values[rank], static_cast<int32_t>(rank));
        for (const std::string& name : names) {
            arguments[rank].emplace_back(std::span<std::byte>(memory[rank].at(plain_name(name))));
        }
    }
    program.run();
    hlo::Evaluator evaluator(module, static_cast<int32_t>(values.size()));
    const auto results = evaluator.run(arguments);
    std::vector<ProbeDifference> differences;
    const auto outputs = module.output_names();
    for (size_t rank = 0; rank < values.size(); ++rank) {
        for (size_t output = 0; output < outputs.size(); ++output) {
            const bool is_aliased = std::ranges::any_of(
                module.aliases, [&](const hlo::Alias& alias) { return alias.output == static_cast<int64_t>(output); });
            const Shape& shape = module.host_shape.result.elements[output];
            const auto& expected = is_aliased ? memory[rank].at(outputs[output]) : results[rank][output].bytes;
            const auto found = program.read(outputs[output], static_cast<int32_t>(rank), 0, shape.bytes());
            differences.push_back(compare_output(outputs[output], static_cast<int32_t>(rank), shape, expected, found));
        }
    }
    return differences;
}

}  // namespace gemmatrace::neuron
