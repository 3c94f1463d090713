// value.name and value[key]: the order in which jinja2's sandbox looks, and the methods of Python's types.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

struct Method {
    std::string_view name;
    Native native;
};

extern const std::span<const Method> kTextMethods;
extern const std::span<const Method> kListMethods;
extern const std::span<const Method> kDictMethods;
extern const std::span<const Method> kNumberMethods;
extern const std::span<const Method> kCyclerMethods;

// The method of the value's type, or null; a call through it needs no bound function object.
const Method* find_method(const Value& value, std::string_view name);

// value.name: the attribute, else the item of that name, else missing.
Value find_attribute(Runtime& runtime, const Value& value, const Text& name);
// The same, with an undefined that tells what is not there in place of missing.
Value attribute(Runtime& runtime, const Value& value, const Text& name);
// value[key]: the item, else the attribute of that name, else undefined.
Value item(Runtime& runtime, const Value& value, const Value& key);
// Whether the value has an attribute of this name, without looking at its items (|attr).
bool has_attribute(Runtime& runtime, const Value& value, std::string_view name);

// An argument that must be a text; fails in the words of `function`.
const Text& text_argument(const Value& value, std::string_view function);

}  // namespace gemmatrace::text::jinja
