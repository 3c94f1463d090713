// Recursive descent over expressions; every rule has the name of its operators.
#include "text/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/filters.h"
#include "text/jinja/tests.h"

namespace gemmatrace::text::jinja {

namespace {

[[noreturn]] void fail_nesting(int line) {
    fail_syntax(fmt::format("expressions or statements are nested deeper than {} levels", kMaxNesting), line);
}

const char* kind_name(const Expression* node) {
    switch (node->kind) {
        case ExpressionKind::constant:
            return "const";
        case ExpressionKind::name:
            return "name";
        case ExpressionKind::tuple:
            return "tuple";
        case ExpressionKind::list:
            return "list";
        case ExpressionKind::dict:
            return "dict";
        default:
            return "expression";
    }
}

bool can_assign(const Expression* target) {
    if (target->kind == ExpressionKind::tuple) {
        const auto& items = static_cast<const SequenceExpression*>(target)->items;
        return std::all_of(items.begin(), items.end(), can_assign);
    }
    return target->kind == ExpressionKind::name || target->kind == ExpressionKind::namespace_attribute;
}

}  // namespace

// Counts how deep the parser itself is in brackets and prefixes, which bounds its stack.
class ExpressionParser::Nesting {
  public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) {
        if (++parser_.nesting_ > kMaxNesting) fail_nesting(parser_.current().line);
    }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

  private:
    ExpressionParser& parser_;
};

Token ExpressionParser::next() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool ExpressionParser::skip_name(std::string_view word) {
    if (!current().is_name(word)) return false;
    next();
    return true;
}

bool ExpressionParser::skip_operation(std::string_view sign) {
    if (!current().is_operation(sign)) return false;
    next();
    return true;
}

Token ExpressionParser::expect(TokenType type, std::string_view what) {
    if (current().is(type)) return next();
    if (current().is(TokenType::end)) fail_here(fmt::format("unexpected end of template, expected '{}'.", what));
    fail_here(fmt::format("expected token '{}', got '{}'", what, describe(current())));
}

void ExpressionParser::expect_name(std::string_view word) {
    if (!skip_name(word)) fail_here(fmt::format("expected token '{}', got '{}'", word, describe(current())));
}

void ExpressionParser::expect_operation(std::string_view sign) {
    if (!skip_operation(sign)) fail_here(fmt::format("expected token '{}', got '{}'", sign, describe(current())));
}

void ExpressionParser::deepen(Expression* node, const Expression* part) {
    if (part == nullptr) return;
    node->depth = std::max(node->depth, part->depth + 1);
    if (node->depth > kMaxNesting) fail_nesting(node->line);
}

void ExpressionParser::deepen(Expression* node, const ArgumentList& arguments) {
    for (const Expression* argument : arguments.positional) deepen(node, argument);
    for (const auto& [name, argument] : arguments.named) deepen(node, argument);
    deepen(node, arguments.more_positional);
    deepen(node, arguments.more_named);
}

template <class Type>
Type* ExpressionParser::joined(Type* node, std::initializer_list<const Expression*> parts) {
    for (const Expression* part : parts) deepen(node, part);
    return node;
}

Expression* ExpressionParser::parse_expression(bool has_conditional) {
    const Nesting nesting(*this);
    if (!has_conditional) return parse_or();
    const int line = current().line;
    Expression* value = parse_or();
    while (skip_name("if")) {
        auto* node = tree_.make<ConditionalExpression>(line);
        node->then = value;
        node->test = parse_or();
        if (skip_name("else")) node->otherwise = parse_expression();
        value = joined(node, {node->test, node->then, node->otherwise});
    }
    return value;
}

Expression* ExpressionParser::parse_or() {
    Expression* left = parse_and();
    while (current().is_name("or")) {
        auto* node = tree_.make<LogicExpression>(false, next().line);
        node->left = left;
        node->right = parse_and();
        left = joined(node, {node->left, node->right});
    }
    return left;
}

Expression* ExpressionParser::parse_and() {
    Expression* left = parse_not();
    while (current().is_name("and")) {
        auto* node = tree_.make<LogicExpression>(true, next().line);
        node->left = left;
        node->right = parse_not();
        left = joined(node, {node->left, node->right});
    }
    return left;
}

Expression* ExpressionParser::parse_not() {
    if (!current().is_name("not")) return parse_comparison();
    const Nesting nesting(*this);
    auto* node = tree_.make<UnaryExpression>(UnaryOperator::invert, next().line);
    node->operand = parse_not();
    return joined(node, {node->operand});
}

Expression* ExpressionParser::parse_comparison() {
    constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
    const int line = current().line;
    Expression* first = parse_sum();
    ComparisonExpression* node = nullptr;
    while (true) {
        CompareOperator what = CompareOperator::equal;
        const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                        [&](std::string_view s) { return current().is_operation(s); });
        if (sign != std::end(kSigns)) {
            what = static_cast<CompareOperator>(sign - std::begin(kSigns));
            next();
        } else if (skip_name("in")) {
            what = CompareOperator::in;
        } else if (current().is_name("not") && following().is_name("in")) {
            what = CompareOperator::not_in;
            next();
            next();
        } else {
            return node != nullptr ? node : first;
        }
        if (node == nullptr) {
            node = tree_.make<ComparisonExpression>(line);
            node->first = first;
            deepen(node, first);
        }
        node->rest.emplace_back(what, parse_sum());
        deepen(node, node->rest.back().second);
    }
}

Expression* ExpressionParser::parse_sum() {
    Expression* left = parse_concat();
    while (current().is_operation("+") || current().is_operation("-")) {
        const Token sign = next();
        auto* node =
            tree_.make<BinaryExpression>(sign.text == "+" ? BinaryOperator::add : BinaryOperator::subtract, sign.line);
        node->left = left;
        node->right = parse_concat();
        left = joined(node, {node->left, node->right});
    }
    return left;
}

Expression* ExpressionParser::parse_concat() {
    const int line = current().line;
    Expression* first = parse_product();
    if (!current().is_operation("~")) return first;
    auto* node = tree_.make<ConcatExpression>(line);
    node->parts.push_back(first);
    deepen(node, first);
    while (skip_operation("~")) {
        node->parts.push_back(parse_product());
        deepen(node, node->parts.back());
    }
    return node;
}

Expression* ExpressionParser::parse_product() {
    Expression* left = parse_power();
    while (true) {
        BinaryOperator what = BinaryOperator::multiply;
        if (current().is_operation("/")) {
            what = BinaryOperator::divide;
        } else if (current().is_operation("//")) {
            what = BinaryOperator::floor_divide;
        } else if (current().is_operation("%")) {
            what = BinaryOperator::modulo;
        } else if (!current().is_operation("*")) {
            return left;
        }
        auto* node = tree_.make<BinaryExpression>(what, next().line);
        node->left = left;
        node->right = parse_power();
        left = joined(node, {node->left, node->right});
    }
}

Expression* ExpressionParser::parse_power() {
    Expression* left = parse_unary(true);
    while (current().is_operation("**")) {
        auto* node = tree_.make<BinaryExpression>(BinaryOperator::power, next().line);
        node->left = left;
        node->right = parse_unary(true);
        left = joined(node, {node->left, node->right});
    }
    return left;
}

Expression* ExpressionParser::parse_unary(bool has_filter) {
    const Nesting nesting(*this);
    Expression* node = nullptr;
    if (current().is_operation("-") || current().is_operation("+")) {
        const Token sign = next();
        auto* unary =
            tree_.make<UnaryExpression>(sign.text == "-" ? UnaryOperator::negate : UnaryOperator::affirm, sign.line);
        unary->operand = parse_unary(false);
        node = joined(unary, {unary->operand});
    } else {
        node = parse_primary(false);
    }
    node = parse_postfix(node);
    return has_filter ? parse_filter_chain(node) : node;
}

Expression* ExpressionParser::parse_primary(bool has_namespace) {
    if (current().is(TokenType::name)) return parse_name(has_namespace);
    if (current().is_operation("[")) return parse_list();
    if (current().is_operation("{")) return parse_dict();
    if (skip_operation("(")) {
        TupleStyle style;
        style.is_parenthesized = true;
        Expression* node = parse_tuple(style);
        expect_operation(")");
        return node;
    }
    return parse_literal();
}

Expression* ExpressionParser::parse_name(bool has_namespace) {
    const Token token = next();
    if (token.text == "true" || token.text == "True") return tree_.make<ConstantExpression>(Value(true), token.line);
    if (token.text == "false" || token.text == "False") return tree_.make<ConstantExpression>(Value(false), token.line);
    if (token.text == "none" || token.text == "None") return tree_.make<ConstantExpression>(Value::none(), token.line);
    if (has_namespace && skip_operation(".")) {
        const std::string attribute = expect(TokenType::name, "name").text;
        return tree_.make<NamespaceAttributeExpression>(token.text, attribute, token.line);
    }
    return tree_.make<NameExpression>(token.text, token.line);
}

Expression* ExpressionParser::parse_literal() {
    const Token token = current();
    switch (token.type) {
        case TokenType::string: {
            std::string text;
            while (current().is(TokenType::string)) text += next().text;
            return tree_.make<ConstantExpression>(literal(std::move(text)), token.line);
        }
        case TokenType::integer:
            next();
            return tree_.make<ConstantExpression>(Value(token.integer), token.line);
        case TokenType::real:
            next();
            return tree_.make<ConstantExpression>(Value(token.real), token.line);
        default:
            fail_here(fmt::format("unexpected '{}'", describe(token)));
    }
}

bool ExpressionParser::is_tuple_end(std::string_view end_word) const {
    if (current().is(TokenType::variable_end) || current().is(TokenType::block_end) || current().is_operation(")"))
        return true;
    return !end_word.empty() && current().is_name(end_word);
}

Expression* ExpressionParser::parse_tuple(const TupleStyle& style) {
    const int line = current().line;
    std::vector<Expression*> items;
    bool is_tuple = false;
    while (true) {
        if (!items.empty()) expect_operation(",");
        if (is_tuple_end(style.end_word)) break;
        items.push_back(style.is_target ? parse_primary(style.has_namespace) : parse_expression(style.has_conditional));
        if (!current().is_operation(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return items.front();
    if (!is_tuple && !style.is_parenthesized) {
        fail_here(fmt::format("Expected an expression, got '{}'", describe(current())));
    }
    auto* node = tree_.make<SequenceExpression>(ExpressionKind::tuple, line);
    node->items = std::move(items);
    for (const Expression* item : node->items) deepen(node, item);
    return node;
}

void ExpressionParser::mark_stored(Expression* target) {
    if (target->kind == ExpressionKind::name) static_cast<NameExpression*>(target)->use = NameUse::store;
    if (target->kind != ExpressionKind::tuple) return;
    for (Expression* item : static_cast<SequenceExpression*>(target)->items) mark_stored(item);
}

Expression* ExpressionParser::parse_target(bool has_namespace, std::string_view end_word) {
    TupleStyle style;
    style.is_target = true;
    style.has_namespace = has_namespace;
    style.end_word = end_word;
    Expression* target = parse_tuple(style);
    if (!can_assign(target)) fail_syntax(fmt::format("can't assign to '{}'", kind_name(target)), target->line);
    mark_stored(target);
    return target;
}

NameExpression* ExpressionParser::parse_target_name() {
    const Token token = expect(TokenType::name, "name");
    for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
        if (token.text == reserved) fail_syntax("can't assign to 'name'", token.line);
    }
    auto* name = tree_.make<NameExpression>(token.text, token.line);
    name->use = NameUse::store;
    return name;
}

Expression* ExpressionParser::parse_list() {
    auto* node = tree_.make<SequenceExpression>(ExpressionKind::list, next().line);
    while (!current().is_operation("]")) {
        if (!node->items.empty()) expect_operation(",");
        if (current().is_operation("]")) break;
        node->items.push_back(parse_expression());
        deepen(node, node->items.back());
    }
    expect_operation("]");
    return node;
}

Expression* ExpressionParser::parse_dict() {
    auto* node = tree_.make<DictExpression>(next().line);
    while (!current().is_operation("}")) {
        if (!node->entries.empty()) expect_operation(",");
        if (current().is_operation("}")) break;
        Expression* key = parse_expression();
        expect_operation(":");
        node->entries.emplace_back(key, parse_expression());
        deepen(node, key);
        deepen(node, node->entries.back().second);
    }
    expect_operation("}");
    return node;
}

Expression* ExpressionParser::parse_postfix(Expression* node) {
    while (true) {
        if (current().is_operation(".") || current().is_operation("[")) {
            node = parse_subscript(node);
        } else if (current().is_operation("(")) {
            node = parse_call(node);
        } else {
            return node;
        }
    }
}

Expression* ExpressionParser::parse_filter_chain(Expression* node) {
    while (true) {
        if (current().is_operation("|")) {
            node = parse_filter(node, false);
        } else if (current().is_name("is")) {
            node = parse_test(node);
        } else if (current().is_operation("(")) {
            node = parse_call(node);
        } else {
            return node;
        }
    }
}

Expression* ExpressionParser::parse_subscript(Expression* object) {
    const Token opening = next();
    if (opening.text == ".") {
        const Token what = next();
        if (what.is(TokenType::name)) {
            auto* node = tree_.make<AttributeExpression>(Text(what.text, Origin::template_text), opening.line);
            node->object = object;
            return joined(node, {object});
        }
        if (!what.is(TokenType::integer)) fail_syntax("expected name or number", what.line);
        auto* node = tree_.make<ItemExpression>(opening.line);
        node->object = object;
        node->key = tree_.make<ConstantExpression>(Value(what.integer), what.line);
        return joined(node, {object});
    }
    std::vector<Expression*> parts;
    while (!current().is_operation("]")) {
        if (!parts.empty()) expect_operation(",");
        parts.push_back(parse_subscript_part(object));
    }
    expect_operation("]");
    if (parts.size() == 1 && parts[0]->kind == ExpressionKind::slice) return parts[0];
    auto* node = tree_.make<ItemExpression>(opening.line);
    node->object = object;
    if (parts.size() == 1) {
        node->key = parts[0];
    } else {
        auto* keys = tree_.make<SequenceExpression>(ExpressionKind::tuple, opening.line);
        for (Expression* part : parts) {
            if (part->kind == ExpressionKind::slice) static_cast<SliceExpression*>(part)->object = nullptr;
            deepen(keys, part);
        }
        keys->items = std::move(parts);
        node->key = keys;
    }
    return joined(node, {object, node->key});
}

Expression* ExpressionParser::parse_subscript_part(Expression* object) {
    const int line = current().line;
    Expression* start = nullptr;
    if (!current().is_operation(":")) {
        start = parse_expression();
        if (!current().is_operation(":")) return start;
    }
    next();
    auto* slice = tree_.make<SliceExpression>(line);
    slice->object = object;
    slice->start = start;
    const auto is_end = [&] { return current().is_operation("]") || current().is_operation(","); };
    if (!current().is_operation(":") && !is_end()) slice->stop = parse_expression();
    if (skip_operation(":") && !is_end()) slice->step = parse_expression();
    return joined(slice, {object, slice->start, slice->stop, slice->step});
}

ArgumentList ExpressionParser::parse_arguments() {
    const int line = current().line;
    expect_operation("(");
    ArgumentList arguments;
    const auto ensure = [&](bool condition) {
        if (!condition) fail_syntax("invalid syntax for function call expression", line);
    };
    for (bool is_first = true; !current().is_operation(")"); is_first = false) {
        if (!is_first) {
            expect_operation(",");
            if (current().is_operation(")")) break;
        }
        if (skip_operation("*")) {
            ensure(arguments.more_positional == nullptr && arguments.more_named == nullptr);
            arguments.more_positional = parse_expression();
        } else if (skip_operation("**")) {
            ensure(arguments.more_named == nullptr);
            arguments.more_named = parse_expression();
        } else if (current().is(TokenType::name) && following().is_operation("=")) {
            ensure(arguments.more_named == nullptr);
            const std::string name = next().text;
            next();
            for (const auto& [given, value] : arguments.named) {
                if (given.view() == name) fail_syntax(fmt::format("keyword argument repeated: {}", name), line);
            }
            arguments.named.emplace_back(Text(name, Origin::template_text), parse_expression());
        } else {
            ensure(arguments.more_positional == nullptr && arguments.more_named == nullptr && arguments.named.empty());
            arguments.positional.push_back(parse_expression());
        }
    }
    expect_operation(")");
    return arguments;
}

Expression* ExpressionParser::parse_call(Expression* callee) {
    auto* node = tree_.make<CallExpression>(current().line);
    node->callee = callee;
    node->arguments = parse_arguments();
    deepen(node, callee);
    deepen(node, node->arguments);
    return node;
}

std::string ExpressionParser::parse_dotted_name() {
    std::string name = expect(TokenType::name, "name").text;
    while (skip_operation(".")) name += "." + expect(TokenType::name, "name").text;
    return name;
}

NamedOperation* ExpressionParser::parse_filter(Expression* operand, bool is_inline) {
    NamedOperation* filter = nullptr;
    while (is_inline || current().is_operation("|")) {
        if (!is_inline) next();
        is_inline = false;
        const int line = current().line;
        const std::string name = parse_dotted_name();
        auto* node = tree_.make<NamedOperation>(ExpressionKind::filter, name, line);
        node->operand = operand;
        if (current().is_operation("(")) node->arguments = parse_arguments();
        node->method = find_filter(name);
        deepen(node, operand);
        deepen(node, node->arguments);
        operand = filter = node;
    }
    return filter;
}

Expression* ExpressionParser::parse_test(Expression* operand) {
    const int line = next().line;
    const bool is_negated = skip_name("not");
    const std::string name = parse_dotted_name();
    auto* node = tree_.make<NamedOperation>(ExpressionKind::test, name, line);
    node->operand = operand;
    node->method = find_test(name);
    const Token& token = current();
    const bool is_argument = token.is(TokenType::name) || token.is(TokenType::string) || token.is(TokenType::integer) ||
                             token.is(TokenType::real) || token.is_operation("[") || token.is_operation("{");
    if (token.is_operation("(")) {
        node->arguments = parse_arguments();
    } else if (is_argument && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
        if (token.is_name("is")) fail_here("You cannot chain multiple tests with is");
        node->arguments.positional.push_back(parse_postfix(parse_primary(false)));
    }
    deepen(node, operand);
    deepen(node, node->arguments);
    if (!is_negated) return node;
    auto* inverted = tree_.make<UnaryExpression>(UnaryOperator::invert, line);
    inverted->operand = node;
    return joined(inverted, {node});
}

}  // namespace gemmatrace::text::jinja
