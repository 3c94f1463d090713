// The methods of dict, list, tuple, range, numbers and cycler.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/attributes.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr std::string_view kPositional;

// --- dict

Value get_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("get", arguments, {kPositional, kPositional}, 1);
    const Value* found = self.as<DictObject>().dict.find(runtime.meter, bound[0]);
    return found != nullptr ? *found : bound.get(1, Value::none());
}

template <DictPart part>
Value view_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("dict method", arguments, {});
    return Value(runtime.heap.make<DictViewObject>(&self.as<DictObject>(), part));
}

Value copy_dict_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("copy", arguments, {});
    auto* copy = runtime.heap.make<DictObject>();
    for (const auto& [key, value] : self.as<DictObject>().dict.entries()) {
        runtime.meter.step();
        copy->dict.set(runtime.meter, key, value);
    }
    return Value(copy);
}

Value fromkeys_method(Runtime& runtime, const Value&, const Arguments& arguments) {
    const Binder bound("fromkeys", arguments, {kPositional, kPositional}, 1);
    auto* made = runtime.heap.make<DictObject>();
    Cursor cursor(runtime, bound[0]);
    for (Value key; cursor.next(key);) made->dict.set(runtime.meter, key, bound.get(1, Value::none()));
    return Value(made);
}

// --- list, tuple and range

Value count_in_list_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("count", arguments, {kPositional}, 1);
    Integer count = 0;
    Cursor cursor(runtime, self);
    for (Value item; cursor.next(item);) {
        if (equal(runtime.meter, item, bound[0])) ++count;
    }
    return Value(count);
}

Value index_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("index", arguments, {kPositional, kPositional, kPositional}, 1);
    const auto size = static_cast<int64_t>(length(runtime, self));
    const auto place = [&](size_t index, int64_t otherwise) {
        if (!bound.has(index)) return otherwise;
        const int64_t at = to_position(bound[index]);
        return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    const int64_t start = place(1, 0);
    const int64_t end = place(2, size);
    Cursor cursor(runtime, self);
    Value item;
    for (int64_t at = 0; at < end && cursor.next(item); ++at) {
        if (at >= start && equal(runtime.meter, item, bound[0])) return Value(at);
    }
    fail(fmt::format("{} is not in {}", represent(runtime, bound[0]).view(), type_name(self)));
}

Value copy_list_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("copy", arguments, {});
    return runtime.heap.list(to_vector(runtime, self));
}

// --- numbers

Value bit_length_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("bit_length", arguments, {});
    Integer rest = self.integer() < 0 ? -self.integer() : self.integer();
    Integer bits = 0;
    for (; rest != 0; rest /= 2) ++bits;
    return Value(bits);
}

Value bit_count_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("bit_count", arguments, {});
    Integer rest = self.integer() < 0 ? -self.integer() : self.integer();
    Integer bits = 0;
    for (; rest != 0; rest /= 2) bits += rest % 2;
    return Value(bits);
}

Value conjugate_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("conjugate", arguments, {});
    return affirm(self);
}

Value is_integer_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("is_integer", arguments, {});
    return Value(std::isfinite(self.real()) && std::trunc(self.real()) == self.real());
}

// --- cycler

Value next_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("next", arguments, {});
    auto& cycler = self.as<CyclerObject>();
    Value current = cycler.items[cycler.position];
    cycler.position = (cycler.position + 1) % cycler.items.size();
    return current;
}

Value reset_method(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("reset", arguments, {});
    self.as<CyclerObject>().position = 0;
    return Value::none();
}

constexpr Method kDict[] = {
    {"copy", copy_dict_method},
    {"fromkeys", fromkeys_method},
    {"get", get_method},
    {"items", view_method<DictPart::items>},
    {"keys", view_method<DictPart::keys>},
    {"values", view_method<DictPart::values>},
};
constexpr Method kList[] = {{"copy", copy_list_method}, {"count", count_in_list_method}, {"index", index_method}};
constexpr Method kNumber[] = {
    {"bit_count", bit_count_method},
    {"bit_length", bit_length_method},
    {"conjugate", conjugate_method},
    {"is_integer", is_integer_method},
};
constexpr Method kCycler[] = {{"next", next_method}, {"reset", reset_method}};

}  // namespace

const std::span<const Method> kDictMethods = kDict;
const std::span<const Method> kListMethods = kList;
const std::span<const Method> kNumberMethods = kNumber;
const std::span<const Method> kCyclerMethods = kCycler;

}  // namespace gemmatrace::text::jinja
