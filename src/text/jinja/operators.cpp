// Comparison, membership, items and slices.
#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

std::string_view symbol(CompareOperator what) {
    constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kSymbols[static_cast<size_t>(what)];
}

[[noreturn]] void fail_comparison(CompareOperator what, const Value& left, const Value& right) {
    for (const Value* side : {&left, &right}) {
        if (side->is(Kind::undefined)) fail(side->as<UndefinedObject>().message);
    }
    fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol(what), type_name(left),
                     type_name(right)));
}

template <class Type>
bool ordered(CompareOperator what, const Type& left, const Type& right) {
    switch (what) {
        case CompareOperator::less:
            return left < right;
        case CompareOperator::less_equal:
            return left <= right;
        case CompareOperator::greater:
            return left > right;
        default:
            return left >= right;
    }
}

// A whole number against a float, without rounding the whole one.
int compare_mixed(Integer whole, double real) {
    if (std::fabs(real) >= 0x1p126) return real > 0 ? -1 : 1;
    const double floor = std::floor(real);
    const auto floor_whole = static_cast<Integer>(floor);
    if (whole != floor_whole) return whole < floor_whole ? -1 : 1;
    return real > floor ? -1 : 0;
}

bool ordered_numbers(CompareOperator what, const Value& left, const Value& right) {
    if (left.is_whole() && right.is_whole()) return ordered(what, left.integer(), right.integer());
    if (left.is(Kind::real) && right.is(Kind::real)) return ordered(what, left.real(), right.real());
    if (std::isnan(left.is(Kind::real) ? left.real() : right.real())) return false;
    if (left.is_whole()) return ordered(what, compare_mixed(left.integer(), right.real()), 0);
    return ordered(what, 0, compare_mixed(right.integer(), left.real()));
}

std::span<const Value> items_of(const Value& sequence) { return sequence.as<SequenceObject>().items; }

bool ordered_sequences(Runtime& runtime, CompareOperator what, const Value& left, const Value& right) {
    const CallDepth depth(runtime.meter);
    const auto first = items_of(left);
    const auto second = items_of(right);
    for (size_t index = 0; index < std::min(first.size(), second.size()); ++index) {
        if (equal(runtime.meter, first[index], second[index])) continue;
        return compare(runtime, what, first[index], second[index]);
    }
    return ordered(what, first.size(), second.size());
}

bool contains_text(Runtime& runtime, const Value& container, const Value& item) {
    if (item.is(Kind::undefined)) fail("'in <string>' requires string as left operand, not Undefined");
    if (!item.is(Kind::text)) {
        fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    }
    runtime.meter.work(container.text().size());
    return container.text().view().find(item.text().view()) != std::string_view::npos;
}

bool contains_whole(const RangeObject& range, const Value& item) {
    Integer whole = 0;
    if (item.is_whole()) {
        whole = item.integer();
    } else if (item.is(Kind::real) && std::trunc(item.real()) == item.real() && std::fabs(item.real()) < 0x1p126) {
        whole = static_cast<Integer>(item.real());
    } else {
        return false;
    }
    const bool is_inside =
        range.step > 0 ? whole >= range.start && whole < range.stop : whole <= range.start && whole > range.stop;
    return is_inside && (whole - range.start) % range.step == 0;
}

// The bounds of a slice over `size` items, as slice.indices() gives them.
struct SliceBounds {
    int64_t start, stop, step;
};

int64_t slice_part(const Value& part, int64_t otherwise) {
    if (part.is_missing() || part.is(Kind::none)) return otherwise;
    if (!part.is_whole()) fail("slice indices must be integers or None or have an __index__ method");
    return to_position(part);
}

SliceBounds bounds(const SliceParts& parts, int64_t size) {
    SliceBounds result{};
    result.step = slice_part(parts.step, 1);
    if (result.step == 0) fail("slice step cannot be zero");
    const bool is_backward = result.step < 0;
    const int64_t lowest = is_backward ? -1 : 0;
    const int64_t highest = is_backward ? size - 1 : size;
    const auto place = [&](const Value& part, int64_t otherwise) {
        int64_t at = slice_part(part, otherwise);
        if (part.is_missing() || part.is(Kind::none)) return at;
        if (at < 0) at += size;
        return std::clamp(at, lowest, highest);
    };
    result.start = place(parts.start, is_backward ? highest : lowest);
    result.stop = place(parts.stop, is_backward ? lowest : highest);
    return result;
}

template <class Visit>
void walk(const SliceBounds& slice, Visit visit) {
    for (int64_t at = slice.start; slice.step > 0 ? at < slice.stop : at > slice.stop;) {
        visit(static_cast<size_t>(at));
        if (__builtin_add_overflow(at, slice.step, &at)) return;
    }
}

Text slice_text(Runtime& runtime, const Text& text, const SliceParts& parts) {
    if (!text.is_ascii()) runtime.meter.work(text.size() * 2);
    const SliceBounds slice = bounds(parts, static_cast<int64_t>(text.code_points()));
    if (slice.step == 1) {
        if (slice.start >= slice.stop) return text.slice(0, 0);
        const size_t begin = text.offset_of(static_cast<size_t>(slice.start));
        return text.slice(begin, text.slice(begin).offset_of(static_cast<size_t>(slice.stop - slice.start)));
    }
    std::vector<size_t> offsets;
    for (size_t at = 0; at < text.size(); at += sequence_length(text.view()[at])) offsets.push_back(at);
    TextBuilder out(runtime.meter);
    walk(slice, [&](size_t at) {
        runtime.meter.step();
        out.append(text.slice(offsets[at], sequence_length(text.view()[offsets[at]])));
    });
    return out.build().as_markup(text.is_markup());
}

}  // namespace

bool less_than(Runtime& runtime, const Value& left, const Value& right) {
    return compare(runtime, CompareOperator::less, left, right);
}

bool compare(Runtime& runtime, CompareOperator what, const Value& left, const Value& right) {
    runtime.meter.step();
    switch (what) {
        case CompareOperator::equal:
            return equal(runtime.meter, left, right);
        case CompareOperator::not_equal:
            return !equal(runtime.meter, left, right);
        case CompareOperator::in:
            return contains(runtime, right, left);
        case CompareOperator::not_in:
            return !contains(runtime, right, left);
        default:
            break;
    }
    if (left.is_number() && right.is_number()) return ordered_numbers(what, left, right);
    if (left.kind() == right.kind()) {
        if (left.is(Kind::text)) {
            runtime.meter.work(std::min(left.text().size(), right.text().size()));
            return ordered(what, left.text().view(), right.text().view());  // bytes order as code points do
        }
        if (left.is(Kind::list) || left.is(Kind::tuple)) return ordered_sequences(runtime, what, left, right);
    }
    fail_comparison(what, left, right);
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
    switch (container.kind()) {
        case Kind::text:
            return contains_text(runtime, container, item);
        case Kind::dict:
            return container.as<DictObject>().dict.find(runtime.meter, item) != nullptr;
        case Kind::range:
            return contains_whole(container.as<RangeObject>(), item);
        default:
            break;
    }
    if (!is_iterable(container)) fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
    if (container.is(Kind::dict_view) && container.as<DictViewObject>().part == DictPart::keys) {
        return container.as<DictViewObject>().source->dict.find(runtime.meter, item) != nullptr;
    }
    Cursor cursor(runtime, container);
    for (Value candidate; cursor.next(candidate);) {
        if (equal(runtime.meter, candidate, item)) return true;
    }
    return false;
}

Value apply_slice(Runtime& runtime, const Value& value, const SliceParts& parts) {
    switch (value.kind()) {
        case Kind::text:
            return Value(slice_text(runtime, value.text(), parts));
        case Kind::list:
        case Kind::tuple: {
            const auto& sequence = value.as<SequenceObject>();
            const SliceBounds slice = bounds(parts, static_cast<int64_t>(sequence.items.size()));
            if (slice.step == 1) {
                const int64_t count = std::max<int64_t>(slice.stop - slice.start, 0);
                const int64_t begin = count == 0 ? 0 : slice.start;
                return runtime.heap.part(sequence, static_cast<size_t>(begin), static_cast<size_t>(count));
            }
            std::vector<Value> chosen;
            walk(slice, [&](size_t at) {
                runtime.meter.step();
                chosen.push_back(sequence.items[at]);
            });
            return runtime.heap.sequence(value.kind(), std::move(chosen));
        }
        case Kind::range: {
            const auto& range = value.as<RangeObject>();
            const SliceBounds slice = bounds(parts, static_cast<int64_t>(range.size()));
            return Value(
                runtime.heap.make<RangeObject>(range.at(slice.start), range.at(slice.stop), range.step * slice.step));
        }
        case Kind::undefined:
            fail(value.as<UndefinedObject>().message);
        case Kind::dict:
            fail("unhashable type: 'slice'");
        default:
            fail(fmt::format("'{}' object is not subscriptable", type_name(value)));
    }
}

Value find_item(Runtime& runtime, const Value& value, const Value& key) {
    switch (value.kind()) {
        case Kind::dict: {
            if (key.is(Kind::list) || key.is(Kind::dict)) return {};  // not hashable
            const Value* found = value.as<DictObject>().dict.find(runtime.meter, key);
            return found == nullptr ? Value() : *found;
        }
        case Kind::text:
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
            break;
        default:
            return {};
    }
    if (!key.is_whole()) return {};
    int64_t at = to_position(key);
    const auto size = static_cast<int64_t>(length(runtime, value));
    if (at < 0) at += size;
    if (at < 0 || at >= size) return {};
    if (value.is(Kind::range)) return Value(value.as<RangeObject>().at(at));
    if (!value.is(Kind::text)) return items_of(value)[static_cast<size_t>(at)];
    const Text& text = value.text();
    if (!text.is_ascii()) runtime.meter.work(text.size());
    const size_t offset = text.offset_of(static_cast<size_t>(at));
    return Value(text.slice(offset, sequence_length(text.view()[offset])));
}

}  // namespace gemmatrace::text::jinja
