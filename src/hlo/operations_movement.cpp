// Operations that move elements without looking at them: copies from strided to strided places.
#include <algorithm>
#include <cstring>

#include "hlo/element.h"
#include "hlo/operations.h"

namespace gemmatrace::hlo {

namespace {

// A box of elements: its sizes, and the distance in elements between neighbours on either side.
struct Box {
    std::vector<int64_t> sizes;
    std::vector<int64_t> to;
    std::vector<int64_t> from;
};

// The same box with as few axes as possible: sizes of 1 left out, neighbours that are evenly spaced joined.
Box simplified(const Box& box) {
    Box simple;
    for (size_t axis = 0; axis < box.sizes.size(); ++axis) {
        if (box.sizes[axis] == 1) continue;
        const int64_t size = box.sizes[axis];
        if (!simple.sizes.empty() && simple.to.back() == size * box.to[axis] &&
            simple.from.back() == size * box.from[axis]) {
            simple.sizes.back() *= size;
            simple.to.back() = box.to[axis];
            simple.from.back() = box.from[axis];
        } else {
            simple.sizes.push_back(size);
            simple.to.push_back(box.to[axis]);
            simple.from.push_back(box.from[axis]);
        }
    }
    return simple;
}

template <typename Word>
void copy_row(Word* to, int64_t to_step, const Word* from, int64_t from_step, int64_t count) {
    if (to_step == 1 && from_step == 1) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Word));
    } else if (to_step == 1 && from_step == 0) {
        std::fill_n(to, count, *from);
    } else {
        for (int64_t index = 0; index < count; ++index) to[index * to_step] = from[index * from_step];
    }
}

template <typename Word>
void copy_axes(Word* to, const Word* from, const Box& box, size_t axis) {
    if (box.sizes.empty()) {
        *to = *from;
    } else if (axis + 1 == box.sizes.size()) {
        copy_row(to, box.to[axis], from, box.from[axis], box.sizes[axis]);
    } else {
        for (int64_t index = 0; index < box.sizes[axis]; ++index) {
            copy_axes(to + index * box.to[axis], from + index * box.from[axis], box, axis + 1);
        }
    }
}

// Copies a box between arrays; to and from: the elements of its first corner.
void copy_box(size_t bytes, std::byte* to, int64_t to_offset, const std::byte* from, int64_t from_offset,
              const Box& box) {
    const Box simple = simplified(box);
    const auto copy = [&](auto* words, const auto* source) {
        copy_axes(words + to_offset, source + from_offset, simple, 0);
    };
    if (bytes == 4)
        copy(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from));
    else if (bytes == 2)
        copy(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
    else
        copy(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from));
}

void concatenate(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result) {
    const auto axis = static_cast<size_t>(instruction.dimensions[0]);
    const std::vector<int64_t> to = row_major_strides(instruction.shape.dimensions);
    int64_t offset = 0;
    for (const ArrayView& operand : operands) {
        const auto& sizes = operand.shape->dimensions;
        copy_box(element_bytes(instruction.shape.type), result, offset, operand.data, 0,
                 {sizes, to, row_major_strides(sizes)});
        offset += sizes[axis] * to[axis];
    }
}

void iota(const Instruction& instruction, std::byte* result) {
    const auto axis = static_cast<size_t>(instruction.dimensions[0]);
    const auto& sizes = instruction.shape.dimensions;
    const int64_t inner = row_major_strides(sizes)[axis];
    const int64_t count = instruction.shape.element_count();
    with_element(instruction.shape.type, [&](auto tag) {
        using Element = typename decltype(tag)::Type;
        auto* out = reinterpret_cast<Element*>(result);
        for (int64_t index = 0; index < count; ++index) {
            out[index] = rounded<Element>(static_cast<Computed<Element>>(index / inner % sizes[axis]));
        }
    });
}

void gather(std::span<const ArrayView> operands, std::byte* result) {
    const Shape& table = *operands[0].shape;
    const size_t row_bytes = table.bytes() / static_cast<size_t>(table.dimensions[0]);
    const auto* indices = reinterpret_cast<const int32_t*>(operands[1].data);
    const int64_t count = operands[1].shape->element_count();
    for (int64_t index = 0; index < count; ++index) {
        const auto row = std::clamp<int64_t>(indices[index], 0, table.dimensions[0] - 1);
        std::memcpy(result + static_cast<size_t>(index) * row_bytes,
                    operands[0].data + static_cast<size_t>(row) * row_bytes, row_bytes);
    }
}

int64_t offset_of(std::span<const int64_t> starts, std::span<const int64_t> strides) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < starts.size(); ++axis) offset += starts[axis] * strides[axis];
    return offset;
}

void update_slice(std::span<const ArrayView> operands, std::byte* result) {
    const Shape &whole = *operands[0].shape, &update = *operands[1].shape;
    if (result != operands[0].data) std::memcpy(result, operands[0].data, whole.bytes());
    const std::vector<int64_t> strides = row_major_strides(whole.dimensions);
    const std::vector<int64_t> starts = clamped_starts(operands, 2, whole, update.dimensions);
    copy_box(element_bytes(whole.type), result, offset_of(starts, strides), operands[1].data, 0,
             {update.dimensions, strides, row_major_strides(update.dimensions)});
}

}  // namespace

std::vector<int64_t> row_major_strides(std::span<const int64_t> dimensions) {
    std::vector<int64_t> strides(dimensions.size());
    int64_t stride = 1;
    for (size_t axis = dimensions.size(); axis-- > 0;) {
        strides[axis] = stride;
        stride *= dimensions[axis];
    }
    return strides;
}

std::vector<int64_t> clamped_starts(std::span<const ArrayView> operands, size_t first, const Shape& whole,
                                    std::span<const int64_t> sizes) {
    std::vector<int64_t> starts;
    for (size_t axis = 0; axis < whole.rank(); ++axis) {
        int32_t start;
        std::memcpy(&start, operands[first + axis].data, sizeof start);
        starts.push_back(std::clamp<int64_t>(start, 0, whole.dimensions[axis] - sizes[axis]));
    }
    return starts;
}

void compute_movement(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result) {
    const size_t bytes = element_bytes(instruction.shape.type);
    const auto& sizes = instruction.shape.dimensions;
    const std::vector<int64_t> to = row_major_strides(sizes);
    std::vector<int64_t> from;
    if (!operands.empty()) from = row_major_strides(operands[0].shape->dimensions);
    switch (instruction.opcode) {
        case Opcode::copy:
        case Opcode::reshape:
            std::memcpy(result, operands[0].data, instruction.shape.bytes());
            return;
        case Opcode::concatenate:
            return concatenate(instruction, operands, result);
        case Opcode::iota:
            return iota(instruction, result);
        case Opcode::gather:
            return gather(operands, result);
        case Opcode::dynamic_update_slice:
            return update_slice(operands, result);
        case Opcode::broadcast: {
            std::vector<int64_t> steps(sizes.size(), 0);
            for (size_t axis = 0; axis < from.size(); ++axis) {
                steps[static_cast<size_t>(instruction.dimensions[axis])] = from[axis];
            }
            return copy_box(bytes, result, 0, operands[0].data, 0, {sizes, to, steps});
        }
        case Opcode::transpose: {
            std::vector<int64_t> steps;
            for (const int64_t axis : instruction.dimensions) steps.push_back(from[static_cast<size_t>(axis)]);
            return copy_box(bytes, result, 0, operands[0].data, 0, {sizes, to, steps});
        }
        case Opcode::slice: {
            std::vector<int64_t> steps, starts;
            for (size_t axis = 0; axis < from.size(); ++axis) {
                steps.push_back(from[axis] * instruction.ranges[axis].stride);
                starts.push_back(instruction.ranges[axis].start);
            }
            return copy_box(bytes, result, 0, operands[0].data, offset_of(starts, from), {sizes, to, steps});
        }
        case Opcode::dynamic_slice: {
            const auto starts = clamped_starts(operands, 1, *operands[0].shape, sizes);
            return copy_box(bytes, result, 0, operands[0].data, offset_of(starts, from), {sizes, to, from});
        }
        default:
            throw Error(ErrorCode::internal, "no movement of elements");
    }
}

}  // namespace gemmatrace::hlo
