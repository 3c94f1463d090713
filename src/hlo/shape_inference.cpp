// One rule for each kind of instruction.
#include "hlo/shape_inference.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::hlo {

namespace {

using Axes = std::vector<int64_t>;

// An instruction and its operands under examination; refuses with their shapes.
class ShapeRule {
  public:
    ShapeRule(const Instruction& instruction, std::span<const Shape* const> operands)
        : instruction_(instruction), operands_(operands) {}

    Shape infer() const;

  private:
    [[noreturn]] void refuse(const std::string& fault, const std::string& remedy) const;
    void demand(bool condition, const char* fault, const char* remedy) const {
        if (!condition) refuse(fault, remedy);
    }
    void demand_type(const Shape& shape, bool is_allowed) const {
        if (!is_allowed) refuse(fmt::format("not for {}", type_name(shape.type)), "convert the operand");
    }
    const Shape& operand(size_t index) const { return *operands_[index]; }
    const Shape& stated() const { return instruction_.shape; }
    bool is(Opcode opcode) const { return instruction_.opcode == opcode; }
    bool is_axis(int64_t axis, const Shape& shape) const { return axis >= 0 && axis < std::ssize(shape.dimensions); }
    void demand_axes(const Axes& axes, const Shape& shape) const;
    void demand_starts(size_t first) const;

    Shape leaf() const;
    Shape tuple() const;
    Shape elementwise() const;
    Shape choice() const;
    Shape broadcast() const;
    Shape reshape() const;
    Shape transpose() const;
    Shape slice() const;
    Shape concatenate() const;
    Shape dynamic_slice() const;
    Shape dynamic_update_slice() const;
    Shape gather() const;
    Shape dot() const;
    Shape reduce() const;

    const Instruction& instruction_;
    std::span<const Shape* const> operands_;
};

void ShapeRule::refuse(const std::string& fault, const std::string& remedy) const {
    std::string what(opcode_name(instruction_.opcode));
    for (size_t index = 0; index < operands_.size(); ++index) {
        what += (index == 0 ? " of " : ", ") + operand(index).text();
    }
    throw Error(ErrorCode::mismatch, fmt::format("{}: {}", what, fault), {}, remedy);
}

// Axes of `shape`, each at most once.
void ShapeRule::demand_axes(const Axes& axes, const Shape& shape) const {
    std::vector<bool> is_named(shape.rank(), false);
    for (const int64_t axis : axes) {
        if (!is_axis(axis, shape) || is_named[static_cast<size_t>(axis)]) {
            refuse(fmt::format("[{}] are no distinct axes of {}", fmt::join(axes, ","), shape.text()),
                   "name each axis once, counted from 0");
        }
        is_named[static_cast<size_t>(axis)] = true;
    }
}

// One s32 scalar an axis of operand 0, from operand `first` on.
void ShapeRule::demand_starts(size_t first) const {
    demand(operands_.size() == first + operand(0).rank(), "it takes one start for each axis",
           "give as many s32 scalars as the first operand has axes");
    for (size_t index = first; index < operands_.size(); ++index) {
        demand(operand(index) == Shape(ElementType::s32, {}), "a start is an s32 scalar",
               "convert or reshape the start");
    }
}

Shape ShapeRule::leaf() const {
    demand(!stated().is_tuple(), "a tuple can be no input", "pass its elements as inputs of their own");
    if (is(Opcode::iota)) {
        demand(instruction_.dimensions.size() == 1 && is_axis(instruction_.dimensions[0], stated()),
               "its axis is none of its shape", "name one axis, counted from 0");
        demand_type(stated(), stated().type != ElementType::pred);
    }
    if (is(Opcode::constant)) {
        demand(instruction_.literal.size() == stated().bytes(), "the literal's size is not that of its shape",
               "give one element for each place");
    }
    return stated();
}

Shape ShapeRule::tuple() const {
    if (is(Opcode::tuple)) {
        std::vector<Shape> elements;
        for (const Shape* element : operands_) elements.push_back(*element);
        return Shape::tuple(std::move(elements));
    }
    const int64_t index = instruction_.tuple_index;
    demand(operand(0).is_tuple() && index >= 0 && index < std::ssize(operand(0).elements), "there is no such element",
           "name an element of a tuple, counted from 0");
    return operand(0).elements[static_cast<size_t>(index)];
}

Shape ShapeRule::elementwise() const {
    const Shape& shape = operand(0);
    for (const Shape* other : operands_) {
        demand(*other == shape, "the operands differ in shape or type", "broadcast or convert one of them explicitly");
    }
    switch (instruction_.opcode) {
        case Opcode::logical_and:
        case Opcode::logical_or:
        case Opcode::logical_not:
            demand_type(shape, !is_floating(shape.type));
            break;
        case Opcode::compare: {
            return Shape(ElementType::pred, shape.dimensions);
        }
        case Opcode::copy:
        case Opcode::maximum:
        case Opcode::minimum:
        case Opcode::all_reduce:
            break;
        default: {
            const bool is_for_integers = is(Opcode::abs) || is(Opcode::negate) || is(Opcode::sign) ||
                                         (is_binary(instruction_.opcode) && !is(Opcode::power));
            demand_type(shape, is_floating(shape.type) || (is_for_integers && is_integer(shape.type)));
        }
    }
    return shape;
}

Shape ShapeRule::choice() const {
    if (is(Opcode::clamp)) {
        for (const size_t bound : {0U, 2U}) {
            demand(operand(bound) == operand(1) || operand(bound) == Shape(operand(1).type, {}),
                   "a bound is a scalar or of the operand's shape, and of its type", "broadcast or convert the bound");
        }
        return operand(1);
    }
    demand(operand(1) == operand(2), "the two choices differ in shape or type", "broadcast or convert one of them");
    demand(operand(0) == Shape(ElementType::pred, operand(1).dimensions), "the condition is no pred of the same shape",
           "compare values of the choices' shape, or broadcast the condition");
    return operand(1);
}

Shape ShapeRule::broadcast() const {
    const Axes& axes = instruction_.dimensions;
    const Axes& sizes = operand(0).dimensions;
    demand(stated().type == operand(0).type, "the result has another type", "convert it separately");
    demand(axes.size() == sizes.size(), "it takes a result axis for each operand axis", "name them, in order");
    for (size_t index = 0; index < axes.size(); ++index) {
        const int64_t axis = axes[index];
        const bool fits = is_axis(axis, stated()) && (index == 0 || axis > axes[index - 1]) &&
                          stated().dimensions[static_cast<size_t>(axis)] == sizes[index];
        if (!fits) {
            refuse(fmt::format("operand axis {} does not fit axis {} of {}", index, axis, stated().text()),
                   "axes increase and keep their sizes; reshape axes of size 1 away first");
        }
    }
    return stated();
}

Shape ShapeRule::reshape() const {
    demand(!operand(0).is_tuple() && stated().type == operand(0).type, "the result has another type",
           "convert it separately");
    if (stated().element_count() != operand(0).element_count()) {
        refuse(fmt::format("{} has another number of elements", stated().text()), "keep the product of the sizes");
    }
    return stated();
}

Shape ShapeRule::transpose() const {
    demand(instruction_.dimensions.size() == operand(0).rank(), "the permutation has not one entry for each axis",
           "name every axis once");
    demand_axes(instruction_.dimensions, operand(0));
    Shape shape(operand(0).type, {});
    for (const int64_t axis : instruction_.dimensions) {
        shape.dimensions.push_back(operand(0).dimensions[static_cast<size_t>(axis)]);
    }
    return shape;
}

Shape ShapeRule::slice() const {
    demand(instruction_.ranges.size() == operand(0).rank(), "it takes one range for each axis", "name them in order");
    Shape shape(operand(0).type, {});
    for (size_t axis = 0; axis < instruction_.ranges.size(); ++axis) {
        const auto& [start, limit, stride] = instruction_.ranges[axis];
        if (start < 0 || start >= limit || limit > operand(0).dimensions[axis] || stride < 1) {
            refuse(fmt::format("[{}:{}:{}] is no range of axis {}", start, limit, stride, axis),
                   "0 <= start < limit <= size, stride 1 or more");
        }
        shape.dimensions.push_back((limit - start - 1) / stride + 1);
    }
    return shape;
}

Shape ShapeRule::concatenate() const {
    demand(!operands_.empty() && instruction_.dimensions.size() == 1 && is_axis(instruction_.dimensions[0], operand(0)),
           "it takes operands and one of their axes", "name one axis, counted from 0");
    const auto axis = static_cast<size_t>(instruction_.dimensions[0]);
    Shape shape = operand(0);
    for (const Shape* other : operands_.subspan(1)) {
        Shape alike = *other;
        if (alike.rank() == shape.rank()) alike.dimensions[axis] = shape.dimensions[axis];
        demand(alike == shape, "operands differ in more than the size of the axis", "make the other axes equal");
        shape.dimensions[axis] += other->dimensions[axis];
    }
    return shape;
}

Shape ShapeRule::dynamic_slice() const {
    demand(!operands_.empty() && instruction_.slice_sizes.size() == operand(0).rank(),
           "it takes one size for each axis", "name them in order");
    demand_starts(1);
    for (size_t axis = 0; axis < operand(0).rank(); ++axis) {
        const int64_t size = instruction_.slice_sizes[axis];
        demand(size >= 1 && size <= operand(0).dimensions[axis], "a size exceeds its axis", "cut a smaller piece");
    }
    return Shape(operand(0).type, instruction_.slice_sizes);
}

Shape ShapeRule::dynamic_update_slice() const {
    demand(operands_.size() >= 2, "it takes an operand and an update", "give both, then one start for each axis");
    demand(operand(1).type == operand(0).type && operand(1).rank() == operand(0).rank(),
           "operand and update differ in type or number of axes", "convert or reshape the update");
    demand_starts(2);
    for (size_t axis = 0; axis < operand(0).rank(); ++axis) {
        demand(operand(1).dimensions[axis] <= operand(0).dimensions[axis], "the update is larger than the operand",
               "write a smaller piece");
    }
    return operand(0);
}

Shape ShapeRule::gather() const {
    demand(operand(0).rank() >= 1 && operand(1).type == ElementType::s32, "it takes a table of rows and s32 indices",
           "the table is the first operand; convert the indices to s32");
    Shape shape(operand(0).type, operand(1).dimensions);
    shape.dimensions.insert(shape.dimensions.end(), operand(0).dimensions.begin() + 1, operand(0).dimensions.end());
    return shape;
}

// Appends the sizes of the axes that neither list names.
void append_free_sizes(const Shape& shape, const Axes& contracting, const Axes& batch, Axes& sizes) {
    for (int64_t axis = 0; axis < std::ssize(shape.dimensions); ++axis) {
        const bool is_named = std::count(contracting.begin(), contracting.end(), axis) != 0 ||
                              std::count(batch.begin(), batch.end(), axis) != 0;
        if (!is_named) sizes.push_back(shape.dimensions[static_cast<size_t>(axis)]);
    }
}

Shape ShapeRule::dot() const {
    const DotAxes& axes = instruction_.dot;
    const Shape &lhs = operand(0), &rhs = operand(1);
    demand_type(lhs, is_floating(lhs.type) && lhs.type == rhs.type);
    demand_type(stated(), is_floating(stated().type));
    const auto joined = [](Axes first, const Axes& second) {
        first.insert(first.end(), second.begin(), second.end());
        return first;
    };
    demand_axes(joined(axes.lhs_contracting, axes.lhs_batch), lhs);
    demand_axes(joined(axes.rhs_contracting, axes.rhs_batch), rhs);
    const auto demand_pairs = [&](const Axes& left, const Axes& right, const char* fault) {
        demand(left.size() == right.size(), fault, "name as many axes on either side");
        for (size_t index = 0; index < left.size(); ++index) {
            demand(
                lhs.dimensions[static_cast<size_t>(left[index])] == rhs.dimensions[static_cast<size_t>(right[index])],
                fault, "pair axes of one size");
        }
    };
    demand_pairs(axes.lhs_contracting, axes.rhs_contracting, "the contracting axes differ");
    demand_pairs(axes.lhs_batch, axes.rhs_batch, "the batch axes differ");
    Shape shape(stated().type, {});
    for (const int64_t axis : axes.lhs_batch) shape.dimensions.push_back(lhs.dimensions[static_cast<size_t>(axis)]);
    append_free_sizes(lhs, axes.lhs_contracting, axes.lhs_batch, shape.dimensions);
    append_free_sizes(rhs, axes.rhs_contracting, axes.rhs_batch, shape.dimensions);
    return shape;
}

Shape ShapeRule::reduce() const {
    demand_axes(instruction_.dimensions, operand(0));
    demand(operand(1) == Shape(operand(0).type, {}), "the initial value is no scalar of the operand's type",
           "use a constant of that type");
    Shape shape(operand(0).type, {});
    append_free_sizes(operand(0), instruction_.dimensions, {}, shape.dimensions);
    return shape;
}

Shape ShapeRule::infer() const {
    const Opcode opcode = instruction_.opcode;
    const int expected = operand_count(opcode);
    if (expected >= 0 && operands_.size() != static_cast<size_t>(expected)) {
        refuse(fmt::format("it takes {} operands", expected), "give as many");
    }
    if (opcode != Opcode::tuple && opcode != Opcode::get_tuple_element) {
        for (const Shape* shape : operands_)
            demand(!shape->is_tuple(), "a tuple is no array", "use one of its elements");
    }
    switch (opcode) {
        case Opcode::parameter:
        case Opcode::constant:
        case Opcode::iota:
            return leaf();
        case Opcode::tuple:
        case Opcode::get_tuple_element:
            return tuple();
        case Opcode::convert:
            demand(!stated().is_tuple(), "a tuple is no type of elements", "name the type of the elements");
            return Shape(stated().type, operand(0).dimensions);
        case Opcode::select:
        case Opcode::clamp:
            return choice();
        case Opcode::broadcast:
            return broadcast();
        case Opcode::reshape:
            return reshape();
        case Opcode::transpose:
            return transpose();
        case Opcode::slice:
            return slice();
        case Opcode::concatenate:
            return concatenate();
        case Opcode::dynamic_slice:
            return dynamic_slice();
        case Opcode::dynamic_update_slice:
            return dynamic_update_slice();
        case Opcode::gather:
            return gather();
        case Opcode::dot:
            return dot();
        case Opcode::reduce:
            return reduce();
        default:
            return elementwise();
    }
}

}  // namespace

Shape infer_shape(const Instruction& instruction, std::span<const Shape* const> operands) {
    check_shape(instruction.shape);  // so that what it states can be multiplied out
    Shape shape = ShapeRule(instruction, operands).infer();
    check_shape(shape);
    return shape;
}

}  // namespace gemmatrace::hlo
