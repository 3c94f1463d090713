// Dots and reductions have one order of summation, which these tests follow step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "hlo/tensors.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;
using testing::computed;
using testing::numbers_of;
using testing::random_tensor;
using testing::tensor_of;
using Numbers = std::vector<double>;

float at(const Tensor& tensor, int64_t index) {
    return static_cast<float>(decode_number(tensor.shape.type, tensor.bytes, static_cast<size_t>(index)));
}

// out[m, n] = sum over k of a[m, k] * b[n, k], as the definition has it.
std::vector<double> defined_product(const Tensor& a, const Tensor& b, int64_t rows, int64_t columns, int64_t depth) {
    Numbers result;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            float sum = 0;
            for (int64_t k = 0; k < depth; ++k) {
                const float product = at(a, row * depth + k) * at(b, column * depth + k);
                sum = sum + product;
            }
            result.push_back(static_cast<double>(sum));
        }
    }
    return result;
}

TEST(Sums, ADotAddsProductsInIncreasingKForAnySize) {
    for (const auto type : {bf16, f32}) {
        for (const auto& [rows, columns, depth] :
             {std::tuple{1, 1, 1}, {1, 33, 300}, {3, 70, 64}, {5, 8, 1030}, {2, 32, 256}}) {
            const Tensor a = random_tensor(Shape(type, {rows, depth}), 1),
                         b = random_tensor(Shape(type, {columns, depth}), 2);
            const Tensor result = computed({a, b}, [](Builder& builder, auto& p) {
                return builder.dot(p[0], p[1], {{1}, {1}, {}, {}});
            });
            EXPECT_EQ(numbers_of(result), defined_product(a, b, rows, columns, depth)) << rows << columns << depth;
        }
    }
}

TEST(Sums, ADotWithBatchAxesIsOneDotForEachBatch) {
    // q [batch 2, kv 2, group 3, depth 4], keys [positions 5, batch 2, kv 2, depth 4]
    const Tensor q = random_tensor(Shape(bf16, {2, 2, 3, 4}), 3), keys = random_tensor(Shape(bf16, {5, 2, 2, 4}), 4);
    const Tensor scores = computed({q, keys}, [](Builder& builder, auto& p) {
        return builder.dot(p[0], p[1], {{3}, {3}, {0, 1}, {1, 2}});
    });
    const Tensor weighted = computed({scores, keys}, [](Builder& builder, auto& p) {
        return builder.dot(builder.convert(p[0], bf16), p[1], {{3}, {0}, {0, 1}, {1, 2}});
    });
    ASSERT_EQ(scores.shape.text(), "f32[2,2,3,5]");
    ASSERT_EQ(weighted.shape.text(), "f32[2,2,3,4]");
    for (int64_t head = 0; head < 4; ++head) {
        for (int64_t group = 0; group < 3; ++group) {
            float values[4] = {};
            for (int64_t position = 0; position < 5; ++position) {
                float sum = 0;
                for (int64_t k = 0; k < 4; ++k) {
                    const float product = at(q, (head * 3 + group) * 4 + k) * at(keys, (position * 4 + head) * 4 + k);
                    sum = sum + product;
                }
                EXPECT_EQ(at(scores, (head * 3 + group) * 5 + position), sum);
                for (int64_t k = 0; k < 4; ++k) {
                    const float product = round_bf16(sum) * at(keys, (position * 4 + head) * 4 + k);
                    values[k] = values[k] + product;
                }
            }
            for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(at(weighted, (head * 3 + group) * 4 + k), values[k]);
        }
    }
}

TEST(Sums, ADotIsTheSameOnAnyNumberOfThreads) {
    Builder builder("dot");
    const Value x = builder.parameter("x", Shape(bf16, {2, 100})), w = builder.parameter("w", Shape(bf16, {1000, 100}));
    const Module module = builder.finish({{"y", builder.dot(x, w, {{1}, {1}, {}, {}})}});
    std::vector<Tensor> inputs = {random_tensor(Shape(bf16, {2, 100}), 1), random_tensor(Shape(bf16, {1000, 100}), 2)};
    const std::vector<std::vector<Argument>> arguments = {testing::arguments_of(inputs)};
    const auto alone = Evaluator(module, 1, 1).run(arguments);
    EXPECT_EQ(Evaluator(module, 1, 3).run(arguments)[0][0].bytes, alone[0][0].bytes);
}

TEST(Sums, ABf16TypedDotIsRoundedOnceAtTheEnd) {
    const Tensor a = tensor_of(bf16, {1, 3}, {256, 1, 1}), b = tensor_of(bf16, {1, 3}, {1, 1, 1});
    const Tensor result = computed({a, b}, [](Builder& builder, auto& p) {
        return builder.dot(p[0], p[1], {{1}, {1}, {}, {}}, bf16);
    });
    EXPECT_EQ(numbers_of(result), Numbers{258});
}

TEST(Sums, AReductionRoundsAtEveryStepFromItsInitialValue) {
    const auto summed = [](Builder& builder, auto& p) { return builder.reduce(p[0], Opcode::add, {0}, 0); };
    EXPECT_EQ(numbers_of(computed({tensor_of(bf16, {256, 1, 1})}, summed)), Numbers{256});
    EXPECT_EQ(numbers_of(computed({tensor_of(f32, {256, 1, 1})}, summed)), Numbers{258});
    EXPECT_EQ(numbers_of(computed({},
                                  [](Builder& builder, auto&) {
                                      return builder.reduce(builder.splat(f32, 3, {2, 2}), Opcode::multiply, {0, 1}, 2);
                                  })),
              Numbers{162});
}

TEST(Sums, AReductionGoesOverItsAxesInRowMajorOrder) {
    const Tensor x = random_tensor(Shape(f32, {7, 5, 11}), 5);
    const Tensor result = computed({x}, [](Builder& builder, auto& p) {
        return builder.reduce(p[0], Opcode::add, {0, 2}, 0.5);
    });
    for (int64_t kept = 0; kept < 5; ++kept) {
        float sum = 0.5F;
        for (int64_t first = 0; first < 7; ++first) {
            for (int64_t last = 0; last < 11; ++last) sum += at(x, (first * 5 + kept) * 11 + last);
        }
        EXPECT_EQ(at(result, kept), sum);
    }
}

TEST(Sums, AMaximumIsNanAsSoonAsOneElementIs) {
    const auto highest = [](Builder& builder, auto& p) { return builder.reduce(p[0], Opcode::maximum, {0}, -1e30); };
    EXPECT_TRUE(std::isnan(numbers_of(computed({tensor_of(f32, {1, std::nan(""), 3})}, highest))[0]));
    EXPECT_EQ(numbers_of(computed({tensor_of(f32, {1, 5, 3})}, highest)), Numbers{5});
    EXPECT_EQ(numbers_of(computed(
                  {tensor_of(ElementType::s32, {4, -7, 3})},
                  [](Builder& builder, auto& p) { return builder.reduce(p[0], Opcode::minimum, {0}, 2147483647); })),
              Numbers{-7});
}

TEST(Sums, AnAllReduceAddsInTheOrderOfRanksAndRoundsOnce) {
    Builder builder("ranks", 4);
    const Value x = builder.parameter("x", Shape(bf16, {1})), y = builder.parameter("y", Shape(f32, {1}));
    const Module module = builder.finish({{"all", builder.all_reduce(x, Opcode::add)},
                                          {"pairs", builder.all_reduce(y, Opcode::add, {{0, 2}, {3, 1}})},
                                          {"highest", builder.all_reduce(y, Opcode::maximum)}});
    const Numbers bf16_parts = {256, 1, 1, 1}, f32_parts = {0x1p24, 1, 1, 2};
    for (const int threads : {1, 4}) {
        std::vector<std::vector<Tensor>> inputs;
        std::vector<std::vector<Argument>> arguments;
        for (size_t rank = 0; rank < 4; ++rank) {
            inputs.push_back({tensor_of(bf16, {bf16_parts[rank]}), tensor_of(f32, {f32_parts[rank]})});
        }
        for (auto& rank : inputs) arguments.push_back(testing::arguments_of(rank));
        const auto results = Evaluator(module, 4, threads).run(arguments);
        for (size_t rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(numbers_of(results[rank][0]), Numbers{260}) << "259 is halfway, and 260 is even";
            EXPECT_EQ(numbers_of(results[rank][1]), Numbers{rank % 2 == 0 ? 0x1p24 : 3.0});
            EXPECT_EQ(numbers_of(results[rank][2]), Numbers{0x1p24});
        }
    }
}

}  // namespace
}  // namespace gemmatrace::hlo
