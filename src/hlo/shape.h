// Element types and shapes of HLO values; arrays are always row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::hlo {

// The element types of programs we write; the values are the numbers of the proto. There are no 64-bit types: the
// accelerator cuts them to 32 bits.
enum class ElementType : uint8_t {
    pred = 1,
    s8 = 2,
    s32 = 4,
    u8 = 6,
    u32 = 8,
    f16 = 10,
    f32 = 11,
    tuple = 13,
    bf16 = 16
};

// As HLO text writes it: "bf16", "pred", …
std::string_view type_name(ElementType type);
// The type of a proto's number, or nothing for one that programs may not use.
std::optional<ElementType> type_of_number(int number);
// Bytes of one element: 1, 2 or 4; 0 for a tuple.
size_t element_bytes(ElementType type);
// bf16, f16 or f32.
bool is_floating(ElementType type);
// s8, u8, s32 or u32.
bool is_integer(ElementType type);

// An array of `type` with `dimensions`, outermost first (none: a scalar), or a tuple of `elements`.
struct Shape {
    ElementType type = ElementType::f32;
    std::vector<int64_t> dimensions;
    std::vector<Shape> elements;  // of a tuple

    Shape() = default;
    Shape(ElementType element_type, std::vector<int64_t> sizes) : type(element_type), dimensions(std::move(sizes)) {}
    // The tuple of these shapes.
    static Shape tuple(std::vector<Shape> elements);

    bool is_tuple() const { return type == ElementType::tuple; }
    bool is_scalar() const { return !is_tuple() && dimensions.empty(); }
    size_t rank() const { return dimensions.size(); }
    // Product of the dimensions, and its bytes; of a shape that passed check_shape. A tuple's bytes are its elements'.
    int64_t element_count() const;
    size_t bytes() const;
    // "bf16[2,640]"; of a tuple "(f32[], s32[4])".
    std::string text() const;

    bool operator==(const Shape&) const = default;
};

// Throws Error(mismatch) unless every dimension is at least 1 and the array is below 2 GiB, which is what the
// accelerator's compiler takes. Elements of a tuple are checked one by one.
void check_shape(const Shape& shape);

}  // namespace gemmatrace::hlo
