// The statement grammar: what stands in {% … %}, and the text between.
#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/scope.h"

namespace gemmatrace::text::jinja {

namespace {

using EndTags = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
  public:
    using ExpressionParser::ExpressionParser;

    Body parse_all() {
        Body body = parse_body({});
        if (!current().is(TokenType::end)) fail_here("unexpected end of a block");
        return body;
    }

  private:
    // Statements up to one of the end tags, whose name is then the current token; without end tags, to the end.
    Body parse_body(EndTags end_tags) {
        if (++nesting_ > kMaxNesting)
            fail_here(fmt::format("statements are nested deeper than {} levels", kMaxNesting));
        Body body;
        OutputStatement* output = nullptr;  // gathers text and {{ }} up to the next block
        const auto add_output = [&](Expression* part) {
            if (output == nullptr) {
                output = tree_.make<OutputStatement>(part->line);
                body.push_back(output);
            }
            output->parts.push_back(part);
        };
        while (!current().is(TokenType::end)) {
            const Token token = next();
            if (token.is(TokenType::data)) {
                add_output(tree_.make<ConstantExpression>(literal(token.text), token.line));
            } else if (token.is(TokenType::variable_begin)) {
                add_output(parse_tuple({}));
                expect(TokenType::variable_end, "end of print statement");
            } else {
                output = nullptr;
                const auto ends = [&](std::string_view tag) { return current().is_name(tag); };
                if (std::any_of(end_tags.begin(), end_tags.end(), ends)) break;
                if (Statement* statement = parse_statement(end_tags)) body.push_back(statement);
                expect(TokenType::block_end, "end of statement block");
            }
        }
        --nesting_;
        return body;
    }

    // The body of a tag whose head has just been parsed. The end tag is left as the current token.
    Body parse_block(EndTags end_tags) {
        skip_operation(":");
        expect(TokenType::block_end, "end of statement block");
        Body body = parse_body(end_tags);
        if (current().is(TokenType::end)) fail_end(end_tags);
        return body;
    }

    Body parse_last_block(std::string_view end_tag) {
        Body body = parse_block({end_tag});
        next();
        return body;
    }

    static std::string listed(EndTags tags) {
        std::string text;
        for (const std::string_view tag : tags) text += (text.empty() ? "'" : " or '") + std::string(tag) + "'";
        return text;
    }

    [[noreturn]] void fail_end(EndTags end_tags) const {
        std::string message =
            "Unexpected end of template. Jinja was looking for the following tags: " + listed(end_tags) + ".";
        if (!tags_.empty())
            message += fmt::format(" The innermost block that needs to be closed is '{}'.", tags_.back());
        fail_here(message);
    }

    [[noreturn]] void fail_unknown(const std::string& tag, EndTags end_tags) const {
        std::string message = fmt::format("Encountered unknown tag '{}'.", tag);
        if (end_tags.size() > 0) message += " Jinja was looking for the following tags: " + listed(end_tags) + ".";
        if (!tags_.empty())
            message += fmt::format(" The innermost block that needs to be closed is '{}'.", tags_.back());
        fail_here(message);
    }

    Statement* parse_statement(EndTags end_tags) {
        if (!current().is(TokenType::name)) fail_here("tag name expected");
        const std::string tag = current().text;
        for (const std::string_view refused : {"block", "extends", "include", "from", "import", "autoescape"}) {
            if (tag != refused) continue;
            throw Error(ErrorCode::unsupported, fmt::format("the tag '{}' is not supported in chat templates", tag),
                        {{"line", std::to_string(current().line)}}, "Write the template as one file without this tag.");
        }
        using Rule = Statement* (Parser::*)();
        constexpr std::pair<std::string_view, Rule> kRules[] = {
            {"for", &Parser::parse_for},
            {"if", &Parser::parse_if},
            {"set", &Parser::parse_set},
            {"with", &Parser::parse_with},
            {"macro", &Parser::parse_macro},
            {"call", &Parser::parse_call_block},
            {"print", &Parser::parse_print},
            {"filter", &Parser::parse_filter_block},
            {"break", &Parser::parse_break},
            {"continue", &Parser::parse_break},
            {"generation", &Parser::parse_generation},
        };
        for (const auto& [name, rule] : kRules) {
            if (name != tag) continue;
            tags_.push_back(tag);
            Statement* statement = (this->*rule)();
            tags_.pop_back();
            return statement;
        }
        fail_unknown(tag, end_tags);
    }

    Statement* parse_for() {
        auto* loop = tree_.make<LoopStatement>(next().line);
        loop->target = parse_target(false, "in");
        expect_name("in");
        TupleStyle style;
        style.has_conditional = false;
        style.end_word = "recursive";
        loop->sequence = parse_tuple(style);
        if (skip_name("if")) {
            loop->test = parse_expression();
            loop->test_target = copy_target(loop->target);
        }
        loop->is_recursive = skip_name("recursive");
        ++loops_;
        loop->body = parse_block({"endfor", "else"});
        --loops_;
        if (next().text == "else") loop->otherwise = parse_last_block("endfor");
        return loop;
    }

    Expression* copy_target(const Expression* target) {
        if (target->kind == ExpressionKind::name) {
            auto* name = tree_.make<NameExpression>(static_cast<const NameExpression*>(target)->name, target->line);
            name->use = NameUse::store;
            return name;
        }
        auto* tuple = tree_.make<SequenceExpression>(ExpressionKind::tuple, target->line);
        for (const Expression* item : static_cast<const SequenceExpression*>(target)->items) {
            tuple->items.push_back(copy_target(item));
        }
        return tuple;
    }

    Statement* parse_if() {
        auto* condition = tree_.make<ConditionStatement>(current().line);
        std::string tag = next().text;
        TupleStyle style;
        style.has_conditional = false;
        while (tag == "if" || tag == "elif") {
            Expression* test = parse_tuple(style);
            condition->branches.push_back({test, parse_block({"elif", "else", "endif"})});
            tag = next().text;
        }
        if (tag == "else") condition->branches.push_back({nullptr, parse_last_block("endif")});
        return condition;
    }

    Statement* parse_set() {
        const int line = next().line;
        Expression* target = parse_target(true);
        if (skip_operation("=")) {
            auto* assignment = tree_.make<AssignmentStatement>(line);
            assignment->target = target;
            assignment->value = parse_tuple({});
            return assignment;
        }
        auto* assignment = tree_.make<BlockAssignmentStatement>(line);
        assignment->target = target;
        assignment->filter = parse_filter(nullptr, false);
        assignment->body = parse_last_block("endset");
        return assignment;
    }

    Statement* parse_with() {
        auto* with = tree_.make<WithStatement>(next().line);
        while (!current().is(TokenType::block_end)) {
            if (!with->targets.empty()) expect_operation(",");
            with->targets.push_back(parse_target(false));
            mark_parameters(with->targets.back());
            expect_operation("=");
            with->values.push_back(parse_expression());
        }
        with->body = parse_last_block("endwith");
        return with;
    }

    static void mark_parameters(Expression* target) {
        if (target->kind == ExpressionKind::name) static_cast<NameExpression*>(target)->use = NameUse::parameter;
        if (target->kind != ExpressionKind::tuple) return;
        for (Expression* item : static_cast<SequenceExpression*>(target)->items) mark_parameters(item);
    }

    void parse_signature(MacroFunction& function) {
        expect_operation("(");
        while (!current().is_operation(")")) {
            if (!function.parameters.empty()) expect_operation(",");
            NameExpression* name = parse_target_name();
            name->use = NameUse::parameter;
            const auto is_same = [&](const NameExpression* other) { return other->name == name->name; };
            if (std::any_of(function.parameters.begin(), function.parameters.end(), is_same)) {
                fail_here(fmt::format("duplicate argument '{}' in function definition", name->name));
            }
            function.parameters.push_back(name);
            if (skip_operation("=")) {
                function.defaults.push_back(parse_expression());
            } else if (!function.defaults.empty()) {
                fail_here("non-default argument follows default argument");
            }
        }
        next();
    }

    // A body of its own: a break inside cannot end a loop around it.
    Body parse_function_body(std::string_view end_tag) {
        const int loops = std::exchange(loops_, 0);
        Body body = parse_last_block(end_tag);
        loops_ = loops;
        return body;
    }

    Statement* parse_macro() {
        auto* macro = tree_.make<MacroStatement>(next().line);
        macro->target = parse_target_name();
        macro->function.name = macro->target->name;
        parse_signature(macro->function);
        macro->function.body = parse_function_body("endmacro");
        return macro;
    }

    Statement* parse_call_block() {
        auto* block = tree_.make<CallBlockStatement>(next().line);
        if (current().is_operation("(")) parse_signature(block->function);
        Expression* call = parse_expression();
        if (call->kind != ExpressionKind::call) fail_syntax("expected call", block->line);
        block->call = static_cast<CallExpression*>(call);
        block->function.body = parse_function_body("endcall");
        return block;
    }

    Statement* parse_generation() {
        auto* block = tree_.make<CallBlockStatement>(next().line);
        block->function.body = parse_function_body("endgeneration");
        return block;
    }

    Statement* parse_filter_block() {
        auto* block = tree_.make<FilterBlockStatement>(next().line);
        block->filter = parse_filter(nullptr, true);
        block->body = parse_last_block("endfilter");
        return block;
    }

    Statement* parse_print() {
        auto* output = tree_.make<OutputStatement>(next().line);
        while (!current().is(TokenType::block_end)) {
            if (!output->parts.empty()) expect_operation(",");
            output->parts.push_back(parse_expression());
        }
        return output;
    }

    Statement* parse_break() {
        const Token tag = next();
        if (loops_ == 0) fail_syntax(fmt::format("'{}' outside loop", tag.text), tag.line);
        const auto kind = tag.text == "break" ? StatementKind::loop_break : StatementKind::loop_continue;
        return tree_.make<Statement>(kind, tag.line);
    }

    std::vector<std::string> tags_;  // the open ones, for messages
    int loops_ = 0;                  // around the current place, within its function
    int nesting_ = 0;
};

}  // namespace

std::unique_ptr<Tree> parse_template(std::string_view source) {
    auto tree = std::make_unique<Tree>();
    tree->body = Parser(*tree, tokenize(source)).parse_all();
    resolve_names(*tree);
    return tree;
}

}  // namespace gemmatrace::text::jinja
