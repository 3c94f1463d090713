// The expression grammar, and the token stream that the statement parser shares with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace gemmatrace::text::jinja {

class ExpressionParser {
  public:
    ExpressionParser(Tree& tree, std::vector<Token> tokens) : tree_(tree), tokens_(std::move(tokens)) {}

  protected:
    const Token& current() const { return tokens_[at_]; }
    const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    Token next();
    bool skip_name(std::string_view word);
    bool skip_operation(std::string_view sign);
    Token expect(TokenType type, std::string_view what);
    void expect_name(std::string_view word);
    void expect_operation(std::string_view sign);
    [[noreturn]] void fail_here(const std::string& message) const { fail_syntax(message, current().line); }

    Expression* parse_expression(bool has_conditional = true);

    // Where a list of expressions without brackets ends besides a closing tag or bracket, and how its items look.
    struct TupleStyle {
        bool is_target = false;      // names only, as in "for a, b in"
        bool has_namespace = false;  // targets may be ns.x
        bool has_conditional = true;
        bool is_parenthesized = false;   // "()" is a tuple too
        std::string_view end_word = {};  // "in" or "recursive"
    };
    Expression* parse_tuple(const TupleStyle& style);
    // The name, tuple or namespace attribute that an assignment writes to.
    Expression* parse_target(bool has_namespace, std::string_view end_word = {});
    NameExpression* parse_target_name();
    NamedOperation* parse_filter(Expression* operand, bool is_inline);

    Tree& tree_;

  private:
    class Nesting;

    Expression* parse_or();
    Expression* parse_and();
    Expression* parse_not();
    Expression* parse_comparison();
    Expression* parse_sum();
    Expression* parse_concat();
    Expression* parse_product();
    Expression* parse_power();
    Expression* parse_unary(bool has_filter);
    Expression* parse_primary(bool has_namespace);
    Expression* parse_name(bool has_namespace);
    Expression* parse_literal();
    Expression* parse_list();
    Expression* parse_dict();
    Expression* parse_postfix(Expression* node);
    Expression* parse_filter_chain(Expression* node);
    Expression* parse_subscript(Expression* object);
    Expression* parse_subscript_part(Expression* object);
    Expression* parse_call(Expression* callee);
    Expression* parse_test(Expression* operand);
    ArgumentList parse_arguments();
    std::string parse_dotted_name();
    bool is_tuple_end(std::string_view end_word) const;
    void mark_stored(Expression* target);

    // Joins a new node to its parts: its depth is one more than the deepest of them.
    template <class Type>
    Type* joined(Type* node, std::initializer_list<const Expression*> parts);
    void deepen(Expression* node, const Expression* part);
    void deepen(Expression* node, const ArgumentList& arguments);

    std::vector<Token> tokens_;
    size_t at_ = 0;
    int nesting_ = 0;
};

}  // namespace gemmatrace::text::jinja
