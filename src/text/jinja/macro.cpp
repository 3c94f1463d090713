// Macros, call blocks and what the runtime asks of the interpreter.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/loop.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

bool has_parameter(const MacroFunction& function, std::string_view name) {
    return std::any_of(function.parameters.begin(), function.parameters.end(),
                       [&](const NameExpression* parameter) { return parameter->name == name; });
}

std::string shown_name(const MacroFunction& function) {
    return function.name.empty() ? "None" : fmt::format("'{}'", function.name);
}

size_t activation_bytes(const MacroFunction& function) {
    return sizeof(Activation) + static_cast<size_t>(function.slot_count) * sizeof(Value);
}

}  // namespace

Value Interpreter::make_macro(const MacroFunction& function) {
    activation_->is_captured = true;
    return Value(runtime_.heap.make<MacroObject>(&function, activation_));
}

Value Interpreter::call_macro(const Value& macro, Arguments arguments) {
    const CallDepth depth(runtime_.meter);
    const auto& object = macro.as<MacroObject>();
    auto activation = std::make_unique<Activation>(object.closure, object.function->slot_count);
    bind(*object.function, std::move(arguments), *activation);
    Value text = invoke(*object.function, *activation);
    if (activation->is_captured) runtime_.heap.adopt(std::move(activation), activation_bytes(*object.function));
    return text;
}

void Interpreter::bind(const MacroFunction& function, Arguments arguments, Activation& activation) {
    const size_t count = function.parameters.size();
    for (size_t index = 0; index < count; ++index) {
        const NameExpression& parameter = *function.parameters[index];
        Value& target = activation.slots[static_cast<size_t>(parameter.reference.slot)];
        target = index < arguments.positional.size() ? arguments.positional[index] : arguments.take(parameter.name);
    }
    bind_special(function, arguments, activation);
}

void Interpreter::bind_special(const MacroFunction& function, Arguments& arguments, Activation& activation) {
    const size_t count = function.parameters.size();
    if (function.caller_slot >= 0) {
        Value caller = arguments.take("caller");
        if (caller.is_missing() || caller.is(Kind::none)) caller = runtime_.undefined("No caller defined");
        activation.slots[static_cast<size_t>(function.caller_slot)] = std::move(caller);
    }
    if (function.kwargs_slot >= 0) {
        auto* named = runtime_.heap.make<DictObject>();
        for (auto& [name, value] : arguments.named) named->dict.set(runtime_.meter, Value(name), std::move(value));
        activation.slots[static_cast<size_t>(function.kwargs_slot)] = Value(named);
    } else if (!arguments.named.empty()) {
        fail(fmt::format("macro {} takes no keyword argument '{}'", shown_name(function),
                         arguments.named.front().first.view()));
    }
    const bool has_more = arguments.positional.size() > count;
    if (function.varargs_slot >= 0) {
        std::vector<Value> more;
        if (has_more)
            more.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count), arguments.positional.end());
        activation.slots[static_cast<size_t>(function.varargs_slot)] = runtime_.heap.tuple(std::move(more));
    } else if (has_more) {
        fail(fmt::format("macro {} takes not more than {} argument(s)", shown_name(function), count));
    }
}

Value Interpreter::invoke(const MacroFunction& function, Activation& activation) {
    const Entered entered(*this, activation);
    Capture capture(*this);
    enter(function.loads);
    const size_t required = function.parameters.size() - function.defaults.size();
    for (size_t index = 0; index < function.parameters.size(); ++index) {
        const NameExpression& parameter = *function.parameters[index];
        if (!slot(parameter.reference).is_missing()) continue;
        Value value = index < required
                          ? runtime_.undefined(fmt::format("parameter '{}' was not provided", parameter.name))
                          : evaluate(*function.defaults[index - required]);
        slot(parameter.reference) = std::move(value);
    }
    execute(function.body);
    return Value(capture.text());
}

void Interpreter::call_block(const CallBlockStatement& statement) {
    const Value caller = make_macro(statement.function);
    const Value text = statement.call == nullptr ? call_macro(caller, {}) : call_expression(*statement.call, caller);
    write_text(text);
}

Value Interpreter::call_loop(const Value& loop, const Arguments& arguments) {
    const Binder bound("loop", arguments, {"iterable"}, 1);
    auto& object = loop.as<LoopObject>();
    if (!object.statement.is_recursive) {
        fail("The loop must have the 'recursive' marker to be called recursively.");
    }
    return loop_recursively(object.statement, *object.activation.parent, bound[0], object.depth + 1);
}

Value Interpreter::loop_attribute(const Value& loop, std::string_view name) {
    return loop_property(runtime_, loop, name);
}

size_t Interpreter::loop_length(const Value& loop) { return loop.as<LoopObject>().items.length(); }

Value Interpreter::macro_attribute(const Value& macro, std::string_view name) {
    const MacroFunction& function = *macro.as<MacroObject>().function;
    if (name == "name") return function.name.empty() ? Value::none() : literal(function.name);
    if (name == "catch_kwargs") return Value(function.kwargs_slot >= 0);
    if (name == "catch_varargs") return Value(function.varargs_slot >= 0);
    if (name == "caller") return Value(function.caller_slot >= 0);
    if (name == "explicit_caller") return Value(has_parameter(function, "caller"));
    if (name != "arguments") return {};
    std::vector<Value> names;
    for (const NameExpression* parameter : function.parameters) names.push_back(literal(parameter->name));
    return runtime_.heap.tuple(std::move(names));
}

std::string Interpreter::describe(const Value& macro_or_loop) {
    if (macro_or_loop.is(Kind::macro)) {
        const MacroFunction& function = *macro_or_loop.as<MacroObject>().function;
        return fmt::format("<Macro {}>", function.name.empty() ? "anonymous" : shown_name(function));
    }
    LoopItems& items = macro_or_loop.as<LoopObject>().items;
    return fmt::format("<LoopContext {}/{}>", items.index + 1, items.length());
}

}  // namespace gemmatrace::text::jinja
