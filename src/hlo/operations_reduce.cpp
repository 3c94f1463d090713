// Reductions over axes and over ranks, each in its one order.
#include <algorithm>
#include <array>
#include <cstring>

#include "hlo/element.h"
#include "hlo/operations.h"

namespace gemmatrace::hlo {

namespace {

// Results that are computed beside each other, because one sum alone waits for each addition.
constexpr int64_t kResults = 8;

// Offsets of the elements that one result takes, or where each result begins: all index tuples over the axes that are
// named, or are not, in row-major order.
std::vector<int64_t> reduced_offsets(const Shape& shape, std::span<const int64_t> axes, bool are_named) {
    const std::vector<int64_t> strides = row_major_strides(shape.dimensions);
    std::vector<int64_t> offsets = {0};
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
        if ((std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end()) != are_named) continue;
        std::vector<int64_t> longer;
        for (const int64_t offset : offsets) {
            for (int64_t index = 0; index < shape.dimensions[axis]; ++index)
                longer.push_back(offset + index * strides[axis]);
        }
        offsets = std::move(longer);
    }
    return offsets;
}

template <typename Element, typename Combine>
void reduce(const Element* in, Element initial, const std::vector<int64_t>& results, const std::vector<int64_t>& terms,
            Element* out, Combine combine) {
    for (size_t first = 0; first < results.size(); first += kResults) {
        const size_t count = std::min<size_t>(kResults, results.size() - first);
        std::array<Element, kResults> sums;
        sums.fill(initial);
        for (const int64_t term : terms) {
            for (size_t lane = 0; lane < count; ++lane) {
                sums[lane] = rounded<Element>(combine(load(sums[lane]), load(in[results[first + lane] + term])));
            }
        }
        std::copy_n(sums.begin(), count, out + first);
    }
}

}  // namespace

void compute_reduce(const Instruction& instruction, Opcode combiner, std::span<const ArrayView> operands,
                    std::byte* result) {
    const Shape& shape = *operands[0].shape;
    const auto results = reduced_offsets(shape, instruction.dimensions, false);
    const auto terms = reduced_offsets(shape, instruction.dimensions, true);
    with_element(shape.type, [&](auto tag) {
        using Element = typename decltype(tag)::Type;
        with_combiner<Computed<Element>>(combiner, [&](auto combine) {
            reduce(reinterpret_cast<const Element*>(operands[0].data),
                   *reinterpret_cast<const Element*>(operands[1].data), results, terms,
                   reinterpret_cast<Element*>(result), combine);
        });
    });
}

void compute_all_reduce(Opcode combiner, const Shape& shape, std::span<const std::byte* const> operands,
                        std::span<std::byte* const> results) {
    const int64_t count = shape.element_count();
    with_element(shape.type, [&](auto tag) {
        using Element = typename decltype(tag)::Type;
        with_combiner<Computed<Element>>(combiner, [&](auto combine) {
            auto* first = reinterpret_cast<Element*>(results[0]);
            for (int64_t index = 0; index < count; ++index) {
                auto sum = load(reinterpret_cast<const Element*>(operands[0])[index]);
                for (const std::byte* operand : operands.subspan(1)) {
                    sum = combine(sum, load(reinterpret_cast<const Element*>(operand)[index]));
                }
                first[index] = rounded<Element>(sum);
            }
        });
    });
    for (std::byte* other : results.subspan(1)) std::memcpy(other, results[0], shape.bytes());
}

}  // namespace gemmatrace::hlo
