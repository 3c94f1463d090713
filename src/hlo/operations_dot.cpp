// Sums of products: every element is one sum in increasing k, many elements beside each other.
#include <algorithm>
#include <array>
#include <vector>

#include "hlo/element.h"
#include "hlo/operations.h"

namespace gemmatrace::hlo {

namespace {

// Columns of the result that one pass works on, each with a sum of its own, and how many k are prepared at once: a
// panel of both is 32 KiB.
constexpr int64_t kLanes = 32;
constexpr int64_t kDepth = 256;

// One operand of a dot as batch x rows x depth: where each begins, in elements.
struct Side {
    std::vector<int64_t> batches;
    std::vector<int64_t> rows;
    std::vector<int64_t> depth;
    bool is_depth_contiguous = false;
};

// Offsets of all index tuples over the axes, in row-major order.
std::vector<int64_t> offsets_of(const Shape& shape, std::span<const int64_t> axes) {
    const std::vector<int64_t> strides = row_major_strides(shape.dimensions);
    std::vector<int64_t> offsets = {0};
    for (const int64_t axis : axes) {
        std::vector<int64_t> longer;
        for (const int64_t offset : offsets) {
            for (int64_t index = 0; index < shape.dimensions[static_cast<size_t>(axis)]; ++index) {
                longer.push_back(offset + index * strides[static_cast<size_t>(axis)]);
            }
        }
        offsets = std::move(longer);
    }
    return offsets;
}

std::vector<int64_t> other_axes(const Shape& shape, std::span<const int64_t> first, std::span<const int64_t> second) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < std::ssize(shape.dimensions); ++axis) {
        const bool is_named = std::find(first.begin(), first.end(), axis) != first.end() ||
                              std::find(second.begin(), second.end(), axis) != second.end();
        if (!is_named) axes.push_back(axis);
    }
    return axes;
}

Side side_of(const Shape& shape, std::span<const int64_t> contracting, std::span<const int64_t> batch) {
    Side side = {offsets_of(shape, batch), offsets_of(shape, other_axes(shape, contracting, batch)),
                 offsets_of(shape, contracting), true};
    for (size_t k = 1; k < side.depth.size(); ++k) {
        side.is_depth_contiguous = side.is_depth_contiguous && side.depth[k] == static_cast<int64_t>(k);
    }
    return side;
}

// sums[lane] += x[k] * panel[k][lane], k increasing, product and sum rounded separately.
void accumulate(const float* x, const float* panel, int64_t depth, float* __restrict sums) {
    std::array<float, kLanes> lanes;
    std::copy_n(sums, kLanes, lanes.begin());
    for (int64_t k = 0; k < depth; ++k) {
        for (size_t lane = 0; lane < kLanes; ++lane)
            lanes[lane] += x[k] * panel[k * kLanes + static_cast<int64_t>(lane)];
    }
    std::copy_n(lanes.begin(), kLanes, sums);
}

template <typename Element>
class Dot {
  public:
    Dot(const Instruction& instruction, std::span<const ArrayView> operands)
        : lhs_(side_of(*operands[0].shape, instruction.dot.lhs_contracting, instruction.dot.lhs_batch)),
          rhs_(side_of(*operands[1].shape, instruction.dot.rhs_contracting, instruction.dot.rhs_batch)),
          lhs_data_(reinterpret_cast<const Element*>(operands[0].data)),
          rhs_data_(reinterpret_cast<const Element*>(operands[1].data)) {}

    int64_t blocks() const { return std::ssize(lhs_.batches) * blocks_of_batch(); }

    // Computes blocks of kLanes columns, [begin, end) of all batches, as floats rounded to Result.
    template <typename Result>
    void compute(int64_t begin, int64_t end, Result* result) const {
        const int64_t rows = std::ssize(lhs_.rows), columns = std::ssize(rhs_.rows), depth = std::ssize(lhs_.depth);
        std::vector<float> panel(static_cast<size_t>(kDepth * kLanes)), x(kDepth);
        std::vector<float> sums(static_cast<size_t>(rows * kLanes));
        for (int64_t block = begin; block < end; ++block) {
            const int64_t batch = block / blocks_of_batch();
            const int64_t column = block % blocks_of_batch() * kLanes;
            const int64_t lanes = std::min(kLanes, columns - column);
            std::fill(sums.begin(), sums.end(), 0.0F);
            for (int64_t k = 0; k < depth; k += kDepth) {
                const int64_t count = std::min(kDepth, depth - k);
                fill_panel(batch, column, lanes, k, count, panel.data());
                for (int64_t row = 0; row < rows; ++row) {
                    fill_row(batch, row, k, count, x.data());
                    accumulate(x.data(), panel.data(), count, sums.data() + row * kLanes);
                }
            }
            for (int64_t row = 0; row < rows; ++row) {
                Result* out = result + (batch * rows + row) * columns + column;
                for (int64_t lane = 0; lane < lanes; ++lane) {
                    out[lane] = rounded<Result>(sums[static_cast<size_t>(row * kLanes + lane)]);
                }
            }
        }
    }

  private:
    int64_t blocks_of_batch() const { return (std::ssize(rhs_.rows) + kLanes - 1) / kLanes; }

    void fill_row(int64_t batch, int64_t row, int64_t first_k, int64_t count, float* x) const {
        const Element* from =
            lhs_data_ + lhs_.batches[static_cast<size_t>(batch)] + lhs_.rows[static_cast<size_t>(row)];
        const int64_t* depth = lhs_.depth.data() + first_k;
        for (int64_t k = 0; k < count; ++k) x[k] = load(from[depth[k]]);
    }

    // panel[k][lane]: columns beside each other, so that one k of all lanes is one row.
    void fill_panel(int64_t batch, int64_t column, int64_t lanes, int64_t first_k, int64_t count, float* panel) const {
        const Element* from = rhs_data_ + rhs_.batches[static_cast<size_t>(batch)];
        const int64_t* columns = rhs_.rows.data() + column;
        const int64_t* depth = rhs_.depth.data() + first_k;
        if (lanes < kLanes) std::fill_n(panel, count * kLanes, 0.0F);
        if (!rhs_.is_depth_contiguous) {
            for (int64_t k = 0; k < count; ++k) {
                for (int64_t lane = 0; lane < lanes; ++lane) {
                    panel[k * kLanes + lane] = load(from[columns[lane] + depth[k]]);
                }
            }
            return;
        }
        for (int64_t lane = 0; lane < lanes; ++lane) {
            const Element* row = from + columns[lane] + first_k;
            for (int64_t k = 0; k < count; ++k) panel[k * kLanes + lane] = load(row[k]);
        }
    }

    Side lhs_;
    Side rhs_;
    const Element* lhs_data_;
    const Element* rhs_data_;
};

}  // namespace

void compute_dot(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result,
                 ThreadPool* pool) {
    with_floating(operands[0].shape->type, [&](auto tag) {
        using Element = typename decltype(tag)::Type;
        with_floating(instruction.shape.type, [&](auto result_tag) {
            using Result = typename decltype(result_tag)::Type;
            const Dot<Element> dot(instruction, operands);
            auto* out = reinterpret_cast<Result*>(result);
            constexpr int64_t kGrain = 4;  // blocks below which a thread costs more than it does
            if (pool == nullptr || dot.blocks() <= kGrain) return dot.compute(0, dot.blocks(), out);
            pool->parallel_for(dot.blocks(), kGrain,
                               [&](int, int64_t begin, int64_t end) { dot.compute(begin, end, out); });
        });
    });
}

}  // namespace gemmatrace::hlo
