// Look-up of attributes and items, and what the sandbox keeps away.
#include "text/jinja/attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

using namespace std::string_view_literals;

// Methods that would change a value of the request; the immutable sandbox answers with an undefined.
constexpr std::string_view kMutatingDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kMutatingList[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
// What every Python object has; all of it is out of bounds.
constexpr std::string_view kObjectAttributes[] = {
    "__class__", "__delattr__",     "__dir__",    "__doc__",           "__eq__",           "__format__",  "__ge__",
    "__gt__",    "__hash__",        "__init__",   "__init_subclass__", "__getattribute__", "__le__",      "__lt__",
    "__ne__",    "__new__",         "__reduce__", "__reduce_ex__",     "__repr__",         "__setattr__", "__sizeof__",
    "__str__",   "__subclasshook__"};

template <size_t Size>
bool holds(const std::string_view (&names)[Size], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const Method* find_in(std::span<const Method> methods, std::string_view name) {
    const auto found =
        std::lower_bound(methods.begin(), methods.end(), name,
                         [](const Method& method, std::string_view wanted) { return method.name < wanted; });
    return found != methods.end() && found->name == name ? &*found : nullptr;
}

// object_type_repr of jinja2.
std::string object_name(const Value& value) {
    switch (value.kind()) {
        case Kind::none:
            return "None";
        case Kind::name_space:
        case Kind::cycler:
        case Kind::joiner:
            return fmt::format("jinja2.utils.{} object", type_name(value));
        case Kind::macro:
        case Kind::loop:
            return fmt::format("jinja2.runtime.{} object", type_name(value));
        default:
            return fmt::format("{} object", type_name(value));
    }
}

Value no_such(Runtime& runtime, const Value& value, const Value& key) {
    if (key.is(Kind::text)) {
        return runtime.undefined(
            fmt::format("'{}' has no attribute {}", object_name(value), represent(runtime, key).view()));
    }
    return runtime.undefined(fmt::format("{} has no element {}", object_name(value), represent(runtime, key).view()));
}

Value unsafe(Runtime& runtime, const Value& value, std::string_view name) {
    return runtime.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
}

bool is_mutating(const Value& value, std::string_view name) {
    if (value.is(Kind::dict)) return holds(kMutatingDict, name);
    return value.is(Kind::list) && holds(kMutatingList, name);
}

// Attributes that are values, not methods; missing when there is none.
Value property(Runtime& runtime, const Value& value, std::string_view name) {
    switch (value.kind()) {
        case Kind::boolean:
        case Kind::integer:
            if (name == "real" || name == "numerator") return Value(value.integer());
            if (name == "imag") return Value(0);
            return name == "denominator" ? Value(1) : Value();
        case Kind::real:
            if (name == "real") return value;
            return name == "imag" ? Value(0.0) : Value();
        case Kind::tuple: {
            const auto& tuple = value.as<SequenceObject>();
            if (tuple.is_group && name == "grouper") return tuple.items[0];
            return tuple.is_group && name == "list" ? tuple.items[1] : Value();
        }
        case Kind::range: {
            const auto& range = value.as<RangeObject>();
            if (name == "start") return Value(range.start);
            if (name == "stop") return Value(range.stop);
            return name == "step" ? Value(range.step) : Value();
        }
        case Kind::name_space: {
            const Value* found = value.as<NamespaceObject>().attributes.find(name);
            return found == nullptr ? Value() : *found;
        }
        case Kind::cycler: {
            const auto& cycler = value.as<CyclerObject>();
            if (name == "current") return cycler.items[cycler.position];
            if (name == "pos") return Value(cycler.position);
            return name == "items" ? runtime.heap.tuple(cycler.items) : Value();
        }
        case Kind::joiner: {
            const auto& joiner = value.as<JoinerObject>();
            if (name == "sep") return joiner.separator;
            return name == "used" ? Value(joiner.is_used) : Value();
        }
        case Kind::loop:
            return runtime.callbacks->loop_attribute(value, name);
        case Kind::macro:
            return runtime.callbacks->macro_attribute(value, name);
        default:
            return {};
    }
}

// Python's getattr as the sandbox lets it through; missing for AttributeError.
Value python_attribute(Runtime& runtime, const Value& value, std::string_view name) {
    if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().message);
    if (holds(kObjectAttributes, name) || is_mutating(value, name)) return unsafe(runtime, value, name);
    if (const Method* method = find_method(value, name)) {
        return Value(runtime.heap.make<FunctionObject>(method->name, value, method->native));
    }
    Value found = property(runtime, value, name);
    if (!found.is_missing() && name.starts_with('_')) return unsafe(runtime, value, name);
    return found;
}

}  // namespace

const Method* find_method(const Value& value, std::string_view name) {
    switch (value.kind()) {
        case Kind::text:
            return find_in(kTextMethods, name);
        case Kind::dict:
            return find_in(kDictMethods, name);
        case Kind::list:
            return find_in(kListMethods, name);
        case Kind::tuple:
        case Kind::range:
            return name == "copy" ? nullptr : find_in(kListMethods, name);
        case Kind::boolean:
        case Kind::integer:
            return name == "is_integer" ? nullptr : find_in(kNumberMethods, name);
        case Kind::real:
            return name.starts_with("bit_") ? nullptr : find_in(kNumberMethods, name);
        case Kind::cycler:
            return find_in(kCyclerMethods, name);
        default:
            return nullptr;
    }
}

Value find_attribute(Runtime& runtime, const Value& value, const Text& name) {
    Value found = python_attribute(runtime, value, name.view());
    return found.is_missing() && value.is(Kind::dict) ? find_item(runtime, value, Value(name)) : found;
}

Value attribute(Runtime& runtime, const Value& value, const Text& name) {
    Value found = find_attribute(runtime, value, name);
    return found.is_missing() ? no_such(runtime, value, Value(name)) : found;
}

Value item(Runtime& runtime, const Value& value, const Value& key) {
    if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().message);
    Value found = find_item(runtime, value, key);
    if (found.is_missing() && key.is(Kind::text)) found = python_attribute(runtime, value, key.text().view());
    return found.is_missing() ? no_such(runtime, value, key) : found;
}

bool has_attribute(Runtime& runtime, const Value& value, std::string_view name) {
    return !value.is(Kind::undefined) && !python_attribute(runtime, value, name).is_missing();
}

const Text& text_argument(const Value& value, std::string_view function) {
    if (value.is(Kind::undefined)) fail(fmt::format("{}: {}", function, value.as<UndefinedObject>().message));
    if (!value.is(Kind::text)) fail(fmt::format("{} argument must be str, not {}", function, type_name(value)));
    return value.text();
}

}  // namespace gemmatrace::text::jinja
