// Filters over sequences and mappings: order, groups, ends and sizes.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/sort.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

bool is_set(Runtime& runtime, const Binder& bound, size_t index) {
    return bound.has(index) && truth(runtime, bound[index]);
}

bool is_given(const Binder& bound, size_t index) { return bound.has(index) && !bound[index].is(Kind::none); }

Value length_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("len", arguments, {});
    return Value(length(runtime, self));
}

Value list_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("list", arguments, {});
    return runtime.heap.list(to_vector(runtime, self));
}

Value default_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("default", arguments, {"default_value", "boolean"});
    const bool is_replaced = self.is(Kind::undefined) || (is_set(runtime, bound, 1) && !truth(runtime, self));
    return is_replaced ? bound.get(0, Value(Text())) : self;
}

Value attr_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("attr", arguments, {"name"}, 1);
    const Text& name = text_argument(bound[0], "attr");
    if (!has_attribute(runtime, self, name.view())) {
        if (self.is(Kind::undefined)) fail(self.as<UndefinedObject>().message);
        return runtime.undefined(fmt::format("'{} object' has no attribute '{}'", type_name(self), name.view()));
    }
    return attribute(runtime, self, name);
}

Value first_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("first", arguments, {});
    Cursor cursor(runtime, self);
    Value first;
    return cursor.next(first) ? first : runtime.undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& value) { return is_iterable(value) && !value.is(Kind::iterator); }

Value last_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("last", arguments, {});
    if (!is_reversible(self)) fail(fmt::format("'{}' object is not reversible", type_name(self)));
    const size_t size = length(runtime, self);
    if (size == 0) return runtime.undefined("No last item, sequence was empty.");
    if (self.is(Kind::dict) || self.is(Kind::dict_view)) return to_vector(runtime, self).back();
    const Value last = find_item(runtime, self, Value(-1));
    return last.is(Kind::text) && self.is(Kind::text) ? Value(last.text().as_markup(false)) : last;
}

Value reverse_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("reverse", arguments, {});
    if (self.is(Kind::text)) return Value(reverse_text(runtime, self.text()));
    if (!is_iterable(self)) fail("argument must be iterable");
    std::vector<Value> items = to_vector(runtime, self);
    std::reverse(items.begin(), items.end());
    if (self.is(Kind::iterator)) return runtime.heap.list(std::move(items));
    return deferred(runtime, [items = std::move(items)] { return items; });
}

Value items_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("items", arguments, {});
    return deferred(runtime, [&runtime, self]() -> std::vector<Value> {
        if (self.is(Kind::undefined)) return {};
        if (!self.is(Kind::dict)) fail("Can only get item pairs from a mapping.");
        return to_vector(runtime, Value(runtime.heap.make<DictViewObject>(&self.as<DictObject>(), DictPart::items)));
    });
}

// Items with the keys they are sorted by.
using Keyed = std::pair<Value, Value>;

std::vector<Value> sorted(Runtime& runtime, std::vector<Keyed> keyed, bool is_reverse) {
    if (is_reverse) std::reverse(keyed.begin(), keyed.end());
    stable_sort(keyed,
                [&](const Keyed& left, const Keyed& right) { return less_than(runtime, left.first, right.first); });
    if (is_reverse) std::reverse(keyed.begin(), keyed.end());  // twice: equal items keep their order, as in Python
    std::vector<Value> items;
    items.reserve(keyed.size());
    for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
    return items;
}

Value dictsort_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
    const std::string_view by = bound.has(1) && bound[1].is(Kind::text) ? bound[1].text().view()
                                : bound.has(1)                          ? ""
                                                                        : "key";
    if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
    if (self.is(Kind::undefined)) fail(self.as<UndefinedObject>().message);
    if (!self.is(Kind::dict)) fail(fmt::format("'{}' object has no attribute 'items'", type_name(self)));
    const bool has_case = is_set(runtime, bound, 0);
    std::vector<Keyed> keyed;
    for (const auto& [key, value] : self.as<DictObject>().dict.entries()) {
        const Value& sorted_by = by == "key" ? key : value;
        keyed.emplace_back(has_case ? sorted_by : without_case(runtime, sorted_by), runtime.heap.tuple({key, value}));
    }
    return runtime.heap.list(sorted(runtime, std::move(keyed), is_set(runtime, bound, 2)));
}

// The readers of "name,age": one for each part.
std::vector<AttributeReader> readers(Runtime& runtime, const Value& attribute, bool has_case) {
    std::vector<AttributeReader> found;
    if (!attribute.is(Kind::text)) {
        found.emplace_back(runtime, attribute, !has_case);
        return found;
    }
    for (const Text& part : split(runtime, attribute.text(), Text(",", Origin::template_text), -1)) {
        found.emplace_back(runtime, Value(part), !has_case);
    }
    return found;
}

Value sort_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
    const auto read = readers(runtime, bound.get(2, Value::none()), is_set(runtime, bound, 1));
    std::vector<Keyed> keyed;
    Cursor cursor(runtime, self);
    for (Value item; cursor.next(item);) {
        std::vector<Value> key;
        for (const AttributeReader& reader : read) key.push_back(reader(item));
        keyed.emplace_back(runtime.heap.list(std::move(key)), item);
    }
    return runtime.heap.list(sorted(runtime, std::move(keyed), is_set(runtime, bound, 0)));
}

Value unique_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("unique", arguments, {"case_sensitive", "attribute"});
    const AttributeReader read(runtime, bound.get(1, Value::none()), !is_set(runtime, bound, 0));
    return deferred(runtime, [&runtime, self, read] {
        std::vector<Value> items;
        Dict seen;
        Cursor cursor(runtime, self);
        for (Value item; cursor.next(item);) {
            const Value key = read(item);
            if (seen.find(runtime.meter, key) != nullptr) continue;
            seen.set(runtime.meter, key, Value::none());
            items.push_back(item);
        }
        return items;
    });
}

template <bool is_max>
Value extreme_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound(is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
    const AttributeReader read(runtime, bound.get(1, Value::none()), !is_set(runtime, bound, 0));
    Cursor cursor(runtime, self);
    Value best;
    if (!cursor.next(best)) return runtime.undefined("No aggregated item, sequence was empty.");
    Value best_key = read(best);
    for (Value item; cursor.next(item);) {
        Value key = read(item);
        const auto what = is_max ? CompareOperator::greater : CompareOperator::less;
        if (!compare(runtime, what, key, best_key)) continue;
        best = item;
        best_key = std::move(key);
    }
    return best;
}

Value sum_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("sum", arguments, {"attribute", "start"});
    const AttributeReader read(runtime, bound.get(0, Value::none()), false);
    Value sum = bound.get(1, Value(0));
    if (sum.is(Kind::text)) fail("sum() can't sum strings [use ''.join(seq) instead]");
    Cursor cursor(runtime, self);
    for (Value item; cursor.next(item);) sum = apply_binary(runtime, BinaryOperator::add, sum, read(item));
    return sum;
}

Value groupby_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
    const Value otherwise = is_given(bound, 1) ? bound[1] : Value();
    const bool has_case = is_set(runtime, bound, 2);
    const AttributeReader read(runtime, bound[0], !has_case, otherwise);
    const AttributeReader read_shown(runtime, bound[0], false, otherwise);
    std::vector<Keyed> keyed;
    Cursor cursor(runtime, self);
    for (Value item; cursor.next(item);) keyed.emplace_back(read(item), item);
    const std::vector<Value> items = sorted(runtime, std::move(keyed), false);
    std::vector<Value> groups;
    for (size_t begin = 0; begin < items.size();) {
        const Value key = read(items[begin]);
        size_t end = begin + 1;
        while (end < items.size() && equal(runtime.meter, read(items[end]), key)) ++end;
        std::vector<Value> group(items.begin() + static_cast<std::ptrdiff_t>(begin),
                                 items.begin() + static_cast<std::ptrdiff_t>(end));
        groups.push_back(runtime.heap.tuple({read_shown(items[begin]), runtime.heap.list(std::move(group))}));
        groups.back().as<SequenceObject>().is_group = true;
        begin = end;
    }
    return runtime.heap.list(std::move(groups));
}

Value slice_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("slice", arguments, {"slices", "fill_with"}, 1);
    const int64_t slices = to_position(bound[0]);
    const Value fill = is_given(bound, 1) ? bound[1] : Value();
    return deferred(runtime, [&runtime, self, slices, fill] {
        const std::vector<Value> items = to_vector(runtime, self);
        if (slices == 0) fail("integer division or modulo by zero");
        std::vector<Value> parts;
        size_t begin = 0;
        for (int64_t number = 0; number < slices; ++number) {
            const bool has_extra = number < static_cast<int64_t>(items.size()) % slices;
            const size_t size = items.size() / static_cast<size_t>(slices) + (has_extra ? 1 : 0);
            std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(begin),
                                    items.begin() + static_cast<std::ptrdiff_t>(begin + size));
            if (!fill.is_missing() && !has_extra) part.push_back(fill);
            parts.push_back(runtime.heap.list(std::move(part)));
            begin += size;
            runtime.meter.step();
        }
        return parts;
    });
}

Value batch_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("batch", arguments, {"linecount", "fill_with"}, 1);
    const int64_t size = to_position(bound[0]);
    const Value fill = is_given(bound, 1) ? bound[1] : Value();
    return deferred(runtime, [&runtime, self, size, fill] {
        std::vector<Value> batches;
        std::vector<Value> batch;
        Cursor cursor(runtime, self);
        for (Value item; cursor.next(item);) {
            if (static_cast<int64_t>(batch.size()) == size)
                batches.push_back(runtime.heap.list(std::exchange(batch, {})));
            batch.push_back(item);
        }
        if (batch.empty()) return batches;
        while (!fill.is_missing() && static_cast<int64_t>(batch.size()) < size) {
            runtime.meter.step();
            batch.push_back(fill);
        }
        batches.push_back(runtime.heap.list(std::move(batch)));
        return batches;
    });
}

constexpr Method kOfSequences[] = {
    {"attr", attr_filter},         {"batch", batch_filter},        {"count", length_filter},
    {"d", default_filter},         {"default", default_filter},    {"dictsort", dictsort_filter},
    {"first", first_filter},       {"groupby", groupby_filter},    {"items", items_filter},
    {"last", last_filter},         {"length", length_filter},      {"list", list_filter},
    {"max", extreme_filter<true>}, {"min", extreme_filter<false>}, {"reverse", reverse_filter},
    {"slice", slice_filter},       {"sort", sort_filter},          {"sum", sum_filter},
    {"unique", unique_filter},
};

}  // namespace

const std::span<const Method> kSequenceFilters = kOfSequences;

}  // namespace gemmatrace::text::jinja
