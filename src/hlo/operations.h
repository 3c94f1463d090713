// What each kind of instruction computes, into memory that the caller provides; semantics are those of evaluator.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "hlo/evaluator.h"
#include "hlo/module.h"

namespace gemmatrace::hlo {

// result: instruction.shape.bytes() bytes, apart from all operands but for dynamic-update-slice, where it may be the
// first operand's own memory. pool may be null.
void compute(const Module& module, const Instruction& instruction, std::span<const ArrayView> operands,
             std::byte* result, ThreadPool* pool);

// Elementwise operations, compare, select, clamp, convert.
void compute_elementwise(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result);
// broadcast, reshape, transpose, slices, concatenate, iota, gather, copy.
void compute_movement(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result);
void compute_dot(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result,
                 ThreadPool* pool);
void compute_reduce(const Instruction& instruction, Opcode combiner, std::span<const ArrayView> operands,
                    std::byte* result);
// One group: operands and results in the order of its ranks.
void compute_all_reduce(Opcode combiner, const Shape& shape, std::span<const std::byte* const> operands,
                        std::span<std::byte* const> results);

// The groups of an all-reduce, each in increasing order of ranks; all ranks together when it names none.
std::vector<std::vector<int64_t>> groups_of(const Instruction& all_reduce, int32_t ranks);

// The distance in elements between neighbours on each axis, row-major.
std::vector<int64_t> row_major_strides(std::span<const int64_t> dimensions);
// Where a dynamic slice or update begins on each axis: scalars from `first` on, clamped so that `sizes` fit in.
std::vector<int64_t> clamped_starts(std::span<const ArrayView> operands, size_t first, const Shape& whole,
                                    std::span<const int64_t> sizes);

}  // namespace gemmatrace::hlo
