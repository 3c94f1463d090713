// Operations that move elements: by which index each element comes from where.
#include <gtest/gtest.h>

#include <numeric>

#include "hlo/tensors.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;
using testing::computed;
using testing::numbers_of;
using testing::tensor_of;
using Numbers = std::vector<double>;

// 0, 1, 2, …
Tensor counted(ElementType type, std::vector<int64_t> dimensions) {
    Numbers numbers(static_cast<size_t>(Shape(type, dimensions).element_count()));
    std::iota(numbers.begin(), numbers.end(), 0);
    return tensor_of(type, std::move(dimensions), numbers);
}

template <typename Build>
Numbers moved(std::vector<Tensor> inputs, Build build) {
    return numbers_of(computed(std::move(inputs), build));
}

TEST(Movement, BroadcastPutsOperandAxesWhereItIsTold) {
    EXPECT_EQ(moved({counted(f32, {2})},
                    [](Builder& b, auto& p) {
                        return b.broadcast(p[0], {2, 3}, {0});
                    }),
              (Numbers{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(moved({counted(bf16, {3})},
                    [](Builder& b, auto& p) {
                        return b.broadcast(p[0], {2, 3}, {1});
                    }),
              (Numbers{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(moved({counted(s32, {2, 2})},
                    [](Builder& b, auto& p) {
                        return b.broadcast(p[0], {2, 1, 2, 2}, {0, 3});
                    }),
              (Numbers{0, 1, 0, 1, 2, 3, 2, 3}));
    EXPECT_EQ(moved({counted(f32, {1, 2})},
                    [](Builder& b, auto& p) {
                        return b.broadcast(p[0], {1, 2, 1}, {0, 1});
                    }),
              (Numbers{0, 1}));
}

TEST(Movement, TransposeTakesResultAxesFromThePermutation) {
    EXPECT_EQ(moved({counted(f32, {2, 3})},
                    [](Builder& b, auto& p) {
                        return b.transpose(p[0], {1, 0});
                    }),
              (Numbers{0, 3, 1, 4, 2, 5}));
    const Tensor result = computed({counted(ElementType::s8, {2, 1, 3, 2})}, [](Builder& b, auto& p) {
        return b.transpose(p[0], {2, 1, 0, 3});
    });
    EXPECT_EQ(result.shape.text(), "s8[3,1,2,2]");
    EXPECT_EQ(numbers_of(result), (Numbers{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
    EXPECT_EQ(moved({counted(f32, {2, 1, 2})},
                    [](Builder& b, auto& p) {
                        return b.transpose(p[0], {1, 0, 2});
                    }),
              (Numbers{0, 1, 2, 3}));
}

TEST(Movement, SliceTakesRangesWithStrides) {
    EXPECT_EQ(moved({counted(f32, {4, 3})},
                    [](Builder& b, auto& p) {
                        return b.slice(p[0], {{1, 4, 2}, {0, 3, 2}});
                    }),
              (Numbers{3, 5, 9, 11}));
    EXPECT_EQ(moved({counted(f32, {4, 3})}, [](Builder& b, auto& p) { return b.slice_axis(p[0], 0, 1, 3); }),
              (Numbers{3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(moved({counted(f32, {2, 5})},
                    [](Builder& b, auto& p) {
                        return b.slice(p[0], {{1, 2, 1}, {0, 5, 2}});
                    }),
              (Numbers{5, 7, 9}));
    // a view of a view, used by an operation
    EXPECT_EQ(moved({counted(f32, {2, 4})},
                    [](Builder& b, auto& p) {
                        const Value half = b.slice_axis(b.reshape(b.slice_axis(p[0], 0, 1, 2), {4}), 0, 2, 4);
                        return b.add(half, half);
                    }),
              (Numbers{12, 14}));
}

TEST(Movement, ConcatenateJoinsAlongOneAxis) {
    EXPECT_EQ(
        moved({counted(f32, {2, 2}), counted(f32, {2, 1})}, [](Builder& b, auto& p) { return b.concatenate(p, 1); }),
        (Numbers{0, 1, 0, 2, 3, 1}));
    EXPECT_EQ(
        moved({counted(f32, {1, 2}), counted(f32, {2, 2})}, [](Builder& b, auto& p) { return b.concatenate(p, 0); }),
        (Numbers{0, 1, 0, 1, 2, 3}));
}

TEST(Movement, IotaCountsOnItsAxisAndRoundsToTheType) {
    EXPECT_EQ(moved({}, [](Builder& b, auto&) { return b.iota(s32, {2, 3}, 1); }), (Numbers{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(moved({}, [](Builder& b, auto&) { return b.iota(f32, {2, 3}, 0); }), (Numbers{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(moved({}, [](Builder& b, auto&) { return b.iota(bf16, {260}, 0); })[257], 256);
}

TEST(Movement, DynamicStartsAreClampedNeverWrapped) {
    for (const auto& [start, first] : {std::pair{-5, 0.0}, {1, 2.0}, {3, 4.0}, {100, 4.0}}) {
        EXPECT_EQ(moved({counted(f32, {4, 2}), tensor_of(s32, {}, {static_cast<double>(start)})},
                        [](Builder& b, auto& p) {
                            const std::vector<Value> starts = {p[1], b.constant(s32, 0)};
                            return b.dynamic_slice(p[0], starts, {2, 2});
                        })[0],
                  first);
        EXPECT_EQ(moved({counted(f32, {4, 2}), tensor_of(s32, {}, {static_cast<double>(start)})},
                        [](Builder& b, auto& p) {
                            const std::vector<Value> starts = {p[1], b.constant(s32, 1)};
                            return b.dynamic_slice(p[0], starts, {2, 1});
                        })[0],
                  first + 1);
    }
    EXPECT_EQ(moved({counted(f32, {4, 2}), tensor_of(f32, {1, 2}, {8, 9}), tensor_of(s32, {}, {7})},
                    [](Builder& b, auto& p) {
                        const std::vector<Value> starts = {p[2], b.constant(s32, -3)};
                        return b.dynamic_update_slice(p[0], p[1], starts);
                    }),
              (Numbers{0, 1, 2, 3, 4, 5, 8, 9}));
}

TEST(Movement, GatherTakesRowsByClampedIndices) {
    EXPECT_EQ(moved({counted(bf16, {3, 2}), tensor_of(s32, {2, 2}, {2, -1, 0, 9})},
                    [](Builder& b, auto& p) { return b.gather_rows(p[0], p[1]); }),
              (Numbers{4, 5, 0, 1, 0, 1, 4, 5}));
}

}  // namespace
}  // namespace gemmatrace::hlo
