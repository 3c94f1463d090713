// Names, sizes and limits of shapes.
#include "hlo/shape.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"

namespace gemmatrace::hlo {

namespace {

struct TypeFacts {
    ElementType type;
    std::string_view name;
    size_t bytes;
};

constexpr std::array kTypes = {
    TypeFacts{ElementType::pred, "pred", 1},   TypeFacts{ElementType::s8, "s8", 1},
    TypeFacts{ElementType::s32, "s32", 4},     TypeFacts{ElementType::u8, "u8", 1},
    TypeFacts{ElementType::u32, "u32", 4},     TypeFacts{ElementType::f16, "f16", 2},
    TypeFacts{ElementType::f32, "f32", 4},     TypeFacts{ElementType::bf16, "bf16", 2},
    TypeFacts{ElementType::tuple, "tuple", 0},
};

const TypeFacts& facts_of(ElementType type) {
    for (const TypeFacts& facts : kTypes) {
        if (facts.type == type) return facts;
    }
    throw Error(ErrorCode::internal, fmt::format("{} is no element type", static_cast<int>(type)));
}

constexpr int64_t kArrayLimitBytes = int64_t{1} << 31;

}  // namespace

std::string_view type_name(ElementType type) { return facts_of(type).name; }

std::optional<ElementType> type_of_number(int number) {
    for (const TypeFacts& facts : kTypes) {
        if (static_cast<int>(facts.type) == number) return facts.type;
    }
    return std::nullopt;
}

size_t element_bytes(ElementType type) { return facts_of(type).bytes; }

bool is_floating(ElementType type) {
    return type == ElementType::bf16 || type == ElementType::f16 || type == ElementType::f32;
}

bool is_integer(ElementType type) {
    return type == ElementType::s8 || type == ElementType::u8 || type == ElementType::s32 || type == ElementType::u32;
}

Shape Shape::tuple(std::vector<Shape> elements) {
    Shape shape(ElementType::tuple, {});
    shape.elements = std::move(elements);
    return shape;
}

int64_t Shape::element_count() const {
    int64_t count = 1;
    for (const int64_t dimension : dimensions) count *= dimension;
    return count;
}

size_t Shape::bytes() const {
    if (!is_tuple()) return static_cast<size_t>(element_count()) * element_bytes(type);
    size_t total = 0;
    for (const Shape& element : elements) total += element.bytes();
    return total;
}

std::string Shape::text() const {
    if (!is_tuple()) return fmt::format("{}[{}]", type_name(type), fmt::join(dimensions, ","));
    std::string text = "(";
    for (const Shape& element : elements) text += (text.size() > 1 ? ", " : "") + element.text();
    return text + ")";
}

void check_shape(const Shape& shape) {
    for (const Shape& element : shape.elements) check_shape(element);
    if (shape.is_tuple()) return;
    for (const int64_t dimension : shape.dimensions) {
        if (dimension >= 1) continue;
        throw Error(ErrorCode::mismatch, fmt::format("{} has an axis without elements", shape.text()), {},
                    "leave such a value out");
    }
    const auto count = element_count(shape.dimensions);
    const auto bytes = count ? checked_multiply(*count, static_cast<int64_t>(element_bytes(shape.type))) : std::nullopt;
    if (bytes && *bytes < kArrayLimitBytes) return;
    throw Error(ErrorCode::mismatch, fmt::format("{} takes 2 GiB or more", shape.text()), {},
                "divide the array: the accelerator's compiler takes none of this size");
}

}  // namespace gemmatrace::hlo
