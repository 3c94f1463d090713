// Expressions to values.
#include <fmt/format.h>

#include "text/jinja/attributes.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

Value Interpreter::evaluate(const Expression& expression) {
    if (expression.kind == ExpressionKind::constant) return static_cast<const ConstantExpression&>(expression).value;
    runtime_.meter.step();
    if (expression.kind == ExpressionKind::name) return name(static_cast<const NameExpression&>(expression));
    const NodeDepth depth(runtime_.meter);
    return evaluate_kind(expression);
}

Value Interpreter::evaluate_kind(const Expression& expression) {
    switch (expression.kind) {
        case ExpressionKind::tuple:
        case ExpressionKind::list:
            return sequence(static_cast<const SequenceExpression&>(expression));
        case ExpressionKind::dict:
            return dict(static_cast<const DictExpression&>(expression));
        case ExpressionKind::unary:
            return unary(static_cast<const UnaryExpression&>(expression));
        case ExpressionKind::binary:
            return binary(static_cast<const BinaryExpression&>(expression));
        case ExpressionKind::logic:
            return logic(static_cast<const LogicExpression&>(expression));
        case ExpressionKind::concat:
            return concat(static_cast<const ConcatExpression&>(expression));
        case ExpressionKind::comparison:
            return comparison(static_cast<const ComparisonExpression&>(expression));
        case ExpressionKind::conditional:
            return conditional(static_cast<const ConditionalExpression&>(expression));
        case ExpressionKind::attribute:
            return attribute_of(static_cast<const AttributeExpression&>(expression));
        case ExpressionKind::item:
            return item_of(static_cast<const ItemExpression&>(expression));
        case ExpressionKind::slice:
            return slice(static_cast<const SliceExpression&>(expression));
        case ExpressionKind::call:
            return call_expression(static_cast<const CallExpression&>(expression), Value());
        case ExpressionKind::filter:
        case ExpressionKind::test:
            return named(static_cast<const NamedOperation&>(expression));
        default:
            fail("this expression has no value");
    }
}

const Value& Interpreter::undefined_of(const Expression& expression, std::string message) {
    auto& [type, value] = undefined_[&expression];
    value = runtime_.undefined(std::move(message));
    return value;
}

Value Interpreter::name(const NameExpression& expression) {
    const Value& value = slot(expression.reference);
    if (!value.is_missing()) return value;
    const auto known = undefined_.find(&expression);
    if (known != undefined_.end()) return known->second.second;
    return undefined_of(expression, fmt::format("'{}' is undefined", expression.name));
}

Value Interpreter::sequence(const SequenceExpression& expression) {
    std::vector<Value> items;
    items.reserve(expression.items.size());
    for (const Expression* item : expression.items) items.push_back(evaluate(*item));
    const Kind kind = expression.kind == ExpressionKind::list ? Kind::list : Kind::tuple;
    return runtime_.heap.sequence(kind, std::move(items));
}

Value Interpreter::dict(const DictExpression& expression) {
    auto* made = runtime_.heap.make<DictObject>();
    for (const auto& [key, value] : expression.entries) {
        const Value key_value = evaluate(*key);
        Value item_value = evaluate(*value);
        runtime_.line = expression.line;
        made->dict.set(runtime_.meter, key_value, std::move(item_value));
    }
    return Value(made);
}

Value Interpreter::unary(const UnaryExpression& expression) {
    const Value operand = evaluate(*expression.operand);
    runtime_.line = expression.line;
    switch (expression.operation) {
        case UnaryOperator::negate:
            return negate(operand);
        case UnaryOperator::affirm:
            return affirm(operand);
        case UnaryOperator::invert:
            break;
    }
    return Value(!truth(runtime_, operand));
}

Value Interpreter::binary(const BinaryExpression& expression) {
    const Value left = evaluate(*expression.left);
    const Value right = evaluate(*expression.right);
    runtime_.line = expression.line;
    return apply_binary(runtime_, expression.operation, left, right);
}

Value Interpreter::logic(const LogicExpression& expression) {
    Value left = evaluate(*expression.left);
    if (truth(runtime_, left) != expression.is_and) return left;
    return evaluate(*expression.right);
}

Value Interpreter::concat(const ConcatExpression& expression) {
    std::vector<Value> parts;
    parts.reserve(expression.parts.size());
    for (const Expression* part : expression.parts) parts.push_back(evaluate(*part));
    runtime_.line = expression.line;
    TextBuilder text(runtime_.meter);
    for (const Value& part : parts) append_text(runtime_, text, part);
    return Value(text.build());
}

Value Interpreter::comparison(const ComparisonExpression& expression) {
    Value left = evaluate(*expression.first);
    for (const auto& [what, other] : expression.rest) {
        Value right = evaluate(*other);
        runtime_.line = expression.line;
        if (!compare(runtime_, what, left, right)) return Value(false);
        left = std::move(right);
    }
    return Value(true);
}

Value Interpreter::conditional(const ConditionalExpression& expression) {
    if (truth(runtime_, evaluate(*expression.test))) return evaluate(*expression.then);
    if (expression.otherwise != nullptr) return evaluate(*expression.otherwise);
    return undefined_of(
        expression,
        fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.",
                    expression.line));
}

Value Interpreter::attribute_of(const AttributeExpression& expression) {
    const Value object = evaluate(*expression.object);
    runtime_.line = expression.line;
    Value found = find_attribute(runtime_, object, expression.name);
    if (!found.is_missing()) return found;
    auto& [type, known] = undefined_[&expression];
    if (type != type_name(object)) {
        type = type_name(object);
        known = attribute(runtime_, object, expression.name);
    }
    return known;
}

Value Interpreter::item_of(const ItemExpression& expression) {
    const Value object = evaluate(*expression.object);
    const Value key = evaluate(*expression.key);
    runtime_.line = expression.line;
    if (expression.key->kind != ExpressionKind::constant || !key.is(Kind::text)) return item(runtime_, object, key);
    Value found = find_item(runtime_, object, key);  // message['content']: one undefined a place, as for attributes
    if (!found.is_missing()) return found;
    auto& [type, known] = undefined_[&expression];
    if (!object.is(Kind::dict)) return item(runtime_, object, key);
    if (type.empty()) {
        type = "dict";
        known = item(runtime_, object, key);
    }
    return known;
}

Value Interpreter::slice(const SliceExpression& expression) {
    if (expression.object == nullptr) fail("several subscripts cannot hold a slice");
    const Value object = evaluate(*expression.object);
    SliceParts parts;
    if (expression.start != nullptr) parts.start = evaluate(*expression.start);
    if (expression.stop != nullptr) parts.stop = evaluate(*expression.stop);
    if (expression.step != nullptr) parts.step = evaluate(*expression.step);
    runtime_.line = expression.line;
    return apply_slice(runtime_, object, parts);
}

Value Interpreter::named(const NamedOperation& expression) {
    const Value operand = expression.operand != nullptr ? evaluate(*expression.operand) : block_text_;
    const Arguments given = arguments(expression.arguments);
    runtime_.line = expression.line;
    if (expression.method == nullptr) {
        const bool is_filter = expression.kind == ExpressionKind::filter;
        fail(fmt::format("No {} named '{}' found.", is_filter ? "filter" : "test", expression.name));
    }
    return expression.method->native(runtime_, operand, given);
}

Value Interpreter::filtered(const NamedOperation& filter, const Value& text) {
    const Value outer = std::exchange(block_text_, text);
    Value result = evaluate(filter);
    block_text_ = outer;
    return result;
}

Arguments Interpreter::arguments(const ArgumentList& list) {
    Arguments given;
    given.positional.reserve(list.positional.size());
    for (const Expression* argument : list.positional) given.positional.push_back(evaluate(*argument));
    for (const auto& [argument_name, argument] : list.named)
        given.named.emplace_back(argument_name, evaluate(*argument));
    if (list.more_positional != nullptr) {
        const Value more = evaluate(*list.more_positional);
        Cursor cursor(runtime_, more);
        for (Value item; cursor.next(item);) given.positional.push_back(item);
    }
    if (list.more_named != nullptr) add_mapping(evaluate(*list.more_named), given);
    return given;
}

void Interpreter::add_mapping(const Value& mapping, Arguments& given) {
    if (!mapping.is(Kind::dict)) fail(fmt::format("argument after ** must be a mapping, not {}", type_name(mapping)));
    for (const auto& [key, value] : mapping.as<DictObject>().dict.entries()) {
        runtime_.meter.step();
        if (!key.is(Kind::text)) fail("keywords must be strings");
        for (const auto& [known, unused] : given.named) {
            if (known == key.text()) fail(fmt::format("got multiple values for keyword argument '{}'", known.view()));
        }
        given.named.emplace_back(key.text(), value);
    }
}

Value Interpreter::call_expression(const CallExpression& expression, const Value& caller) {
    if (expression.callee->kind == ExpressionKind::attribute) {
        return method_call(expression, static_cast<const AttributeExpression&>(*expression.callee), caller);
    }
    const Value callee = evaluate(*expression.callee);
    Arguments given = arguments(expression.arguments);
    if (!caller.is_missing()) given.named.emplace_back(Text("caller", Origin::template_text), caller);
    runtime_.line = expression.line;
    return call(runtime_, callee, std::move(given));
}

// object.method(…): calls the method where it stands, without an object for it.
Value Interpreter::method_call(const CallExpression& expression, const AttributeExpression& callee,
                               const Value& caller) {
    const Value object = evaluate(*callee.object);
    runtime_.line = callee.line;
    const Method* method = find_method(object, callee.name.view());
    const Value function = method != nullptr ? Value() : attribute(runtime_, object, callee.name);
    Arguments given = arguments(expression.arguments);
    if (!caller.is_missing()) given.named.emplace_back(Text("caller", Origin::template_text), caller);
    runtime_.line = expression.line;
    if (method != nullptr) return method->native(runtime_, object, given);
    return call(runtime_, function, std::move(given));
}

}  // namespace gemmatrace::text::jinja
