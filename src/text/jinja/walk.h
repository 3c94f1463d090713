// Walks over the tree in the order of the source.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "text/jinja/ast.h"

namespace gemmatrace::text::jinja {

using FreeNames = std::set<std::string, std::less<>>;

// Which of the names the statements read, at any depth, before something assigns or declares them.
FreeNames free_names(const Body& body, std::initializer_list<std::string_view> names);
inline bool reads_free(const Body& body, std::string_view name) { return !free_names(body, {name}).empty(); }

// Whether a loop assigns to the name `loop` anywhere, its targets included.
bool stores_loop(const LoopStatement& loop);

template <class List, class Visit>
void each_argument(List& arguments, Visit& visit) {
    for (auto* argument : arguments.positional) visit(argument);
    for (auto& [name, argument] : arguments.named) visit(argument);
    if (arguments.more_positional != nullptr) visit(arguments.more_positional);
    if (arguments.more_named != nullptr) visit(arguments.more_named);
}

// The node as what it is, const when the base is.
template <class Type, class Base>
auto& node_as(Base& node) {
    return static_cast<std::conditional_t<std::is_const_v<Base>, const Type, Type>&>(node);
}

// Calls visit(child) for the expressions directly inside a node; with a const node for const children.
template <class Base, class Visit>
void each_child(Base& node, Visit visit_child) {
    const auto visit = [&](auto* child) {
        if (child != nullptr) visit_child(static_cast<Base*>(child));
    };
    switch (node.kind) {
        case ExpressionKind::constant:
        case ExpressionKind::name:
        case ExpressionKind::namespace_attribute:
            return;
        case ExpressionKind::tuple:
        case ExpressionKind::list:
            for (auto* item : node_as<SequenceExpression>(node).items) visit(item);
            return;
        case ExpressionKind::dict:
            for (auto& [key, value] : node_as<DictExpression>(node).entries) {
                visit(key);
                visit(value);
            }
            return;
        case ExpressionKind::unary:
            return visit(node_as<UnaryExpression>(node).operand);
        case ExpressionKind::binary: {
            auto& binary = node_as<BinaryExpression>(node);
            visit(binary.left);
            return visit(binary.right);
        }
        case ExpressionKind::logic: {
            auto& logic = node_as<LogicExpression>(node);
            visit(logic.left);
            return visit(logic.right);
        }
        case ExpressionKind::concat:
            for (auto* part : node_as<ConcatExpression>(node).parts) visit(part);
            return;
        case ExpressionKind::comparison: {
            auto& comparison = node_as<ComparisonExpression>(node);
            visit(comparison.first);
            for (auto& [what, other] : comparison.rest) visit(other);
            return;
        }
        case ExpressionKind::conditional: {
            auto& conditional = node_as<ConditionalExpression>(node);
            visit(conditional.test);
            visit(conditional.then);
            return visit(conditional.otherwise);
        }
        case ExpressionKind::attribute:
            return visit(node_as<AttributeExpression>(node).object);
        case ExpressionKind::item: {
            auto& item = node_as<ItemExpression>(node);
            visit(item.object);
            return visit(item.key);
        }
        case ExpressionKind::slice: {
            auto& slice = node_as<SliceExpression>(node);
            visit(slice.object);
            visit(slice.start);
            visit(slice.stop);
            return visit(slice.step);
        }
        case ExpressionKind::call: {
            auto& call = node_as<CallExpression>(node);
            visit(call.callee);
            return each_argument(call.arguments, visit);
        }
        case ExpressionKind::filter:
        case ExpressionKind::test: {
            auto& operation = node_as<NamedOperation>(node);
            visit(operation.operand);
            return each_argument(operation.arguments, visit);
        }
    }
}

}  // namespace gemmatrace::text::jinja
