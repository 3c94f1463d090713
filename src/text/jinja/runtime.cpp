// Binding of arguments, iteration and calls.
#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::text::jinja {

namespace {

const Value kMissing;

constexpr int64_t kMaxPosition = int64_t{1} << 62;

}  // namespace

Value Arguments::take(std::string_view name) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first.view() == name; });
    if (found == named.end()) return {};
    Value value = std::move(found->second);
    named.erase(found);
    return value;
}

Binder::Binder(std::string_view function, const Arguments& arguments,
               std::initializer_list<std::string_view> parameters, size_t required) {
    require(parameters.size() <= kMaxParameters, "a function has at most six parameters");
    std::fill(std::begin(values_), std::end(values_), &kMissing);
    if (arguments.positional.size() > parameters.size()) {
        fail(fmt::format("{}() takes at most {} arguments ({} given)", function, parameters.size(),
                         arguments.positional.size()));
    }
    for (size_t index = 0; index < arguments.positional.size(); ++index) values_[index] = &arguments.positional[index];
    for (const auto& [name, value] : arguments.named) {
        const auto* found = std::find(parameters.begin(), parameters.end(), name.view());
        if (found == parameters.end() || found->empty()) {
            fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, name.view()));
        }
        const Value*& slot = values_[found - parameters.begin()];
        if (!slot->is_missing()) fail(fmt::format("{}() got multiple values for argument '{}'", function, name.view()));
        slot = &value;
    }
    for (size_t index = 0; index < required; ++index) {
        if (!has(index)) fail(fmt::format("{}() is missing its argument {}", function, index + 1));
    }
}

Cursor::Cursor(Runtime& runtime, Value value) : runtime_(&runtime), value_(std::move(value)) {
    if (!is_iterable(value_)) fail(fmt::format("'{}' object is not iterable", type_name(value_)));
}

bool Cursor::next(Value& item) {
    runtime_->meter.step();
    switch (value_.kind()) {
        case Kind::text:
            return next_of_text(item);
        case Kind::list:
        case Kind::tuple: {
            const auto& items = value_.as<SequenceObject>().items;
            if (at_ >= items.size()) return false;
            item = items[at_++];
            return true;
        }
        case Kind::dict:
            return next_of_dict(value_.as<DictObject>().dict, DictPart::keys, item);
        case Kind::dict_view: {
            const auto& view = value_.as<DictViewObject>();
            return next_of_dict(view.source->dict, view.part, item);
        }
        case Kind::range: {
            const auto& range = value_.as<RangeObject>();
            if (static_cast<Integer>(at_) >= range.size()) return false;
            item = Value(range.at(static_cast<Integer>(at_++)));
            return true;
        }
        case Kind::iterator: {
            const NodeDepth depth(runtime_->meter);  // an iterator may draw from an iterator
            return value_.as<IteratorObject>().next(item);
        }
        default:
            return false;  // undefined: empty
    }
}

bool Cursor::next_of_text(Value& item) {
    const Text& text = value_.text();
    if (at_ >= text.size()) return false;
    const size_t width = sequence_length(text.view()[at_]);
    item = Value(text.slice(at_, width).as_markup(false));
    at_ += width;
    return true;
}

bool Cursor::next_of_dict(const Dict& dict, DictPart part, Value& item) {
    if (at_ >= dict.size()) return false;
    const auto& [key, value] = dict.entries()[at_++];
    if (part == DictPart::items) {
        item = runtime_->heap.tuple({key, value});
    } else {
        item = part == DictPart::keys ? key : value;
    }
    return true;
}

bool is_iterable(const Value& value) {
    switch (value.kind()) {
        case Kind::text:
        case Kind::undefined:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::dict_view:
        case Kind::range:
        case Kind::iterator:
            return true;
        default:
            return false;
    }
}

std::vector<Value> to_vector(Runtime& runtime, const Value& value) {
    std::vector<Value> items;
    Cursor cursor(runtime, value);
    for (Value item; cursor.next(item);) items.push_back(item);
    return items;
}

Value call(Runtime& runtime, const Value& callee, Arguments arguments) {
    runtime.meter.step();
    switch (callee.kind()) {
        case Kind::function: {
            const auto& function = callee.as<FunctionObject>();
            return function.native(runtime, function.self, arguments);
        }
        case Kind::macro:
            return runtime.callbacks->call_macro(callee, std::move(arguments));
        case Kind::loop:
            return runtime.callbacks->call_loop(callee, arguments);
        case Kind::joiner: {
            const Binder none("Joiner", arguments, {});
            auto& joiner = callee.as<JoinerObject>();
            if (joiner.is_used) return joiner.separator;
            joiner.is_used = true;
            return Value(Text());
        }
        case Kind::undefined:
            fail(callee.as<UndefinedObject>().message);
        default:
            fail(fmt::format("'{}' object is not callable", type_name(callee)));
    }
}

bool truth(Runtime& runtime, const Value& value) {
    switch (value.kind()) {
        case Kind::missing:
        case Kind::none:
        case Kind::undefined:
            return false;
        case Kind::boolean:
            return value.boolean();
        case Kind::integer:
            return value.integer() != 0;
        case Kind::real:
            return value.real() != 0;
        case Kind::text:
            return !value.text().empty();
        default:
            return !has_length(value) || length(runtime, value) != 0;
    }
}

bool has_length(const Value& value) {
    switch (value.kind()) {
        case Kind::text:
        case Kind::undefined:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::dict_view:
        case Kind::range:
        case Kind::loop:
            return true;
        default:
            return false;
    }
}

size_t length(Runtime& runtime, const Value& value) {
    switch (value.kind()) {
        case Kind::text:
            if (!value.text().is_ascii()) runtime.meter.work(value.text().size());
            return value.text().code_points();
        case Kind::undefined:
            return 0;
        case Kind::list:
        case Kind::tuple:
            return value.as<SequenceObject>().items.size();
        case Kind::dict:
            return value.as<DictObject>().dict.size();
        case Kind::dict_view:
            return value.as<DictViewObject>().source->dict.size();
        case Kind::range:
            return static_cast<size_t>(value.as<RangeObject>().size());
        case Kind::loop:
            return runtime.callbacks->loop_length(value);
        default:
            fail(fmt::format("object of type '{}' has no len()", type_name(value)));
    }
}

Integer to_index(const Value& value) {
    if (value.is_whole()) return value.integer();
    if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().message);
    fail(fmt::format("'{}' object cannot be interpreted as an integer", type_name(value)));
}

int64_t to_position(const Value& value) {
    const Integer index = to_index(value);
    return static_cast<int64_t>(std::clamp<Integer>(index, -kMaxPosition, kMaxPosition));
}

}  // namespace gemmatrace::text::jinja
