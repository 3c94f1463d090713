// Template source as tokens: text, tags and what stands in them, with jinja2's rules for white space around tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace gemmatrace::text::jinja {

enum class TokenType : unsigned char {
    data,            // text between tags, white space already removed where the tags ask for it
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    string,  // without quotes, escapes resolved
    integer,
    real,
    operation,  // one of + - * / // % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ;
    end,
};

struct Token {
    TokenType type = TokenType::end;
    int line = 1;
    std::string text;  // of data, names, strings and operators
    Integer integer = 0;
    double real = 0;

    bool is(TokenType wanted) const { return type == wanted; }
    bool is_name(std::string_view word) const { return type == TokenType::name && text == word; }
    bool is_operation(std::string_view sign) const { return type == TokenType::operation && text == sign; }
};

// How errors name a token: its name, or what its type is called.
std::string describe(const Token& token);

// Splits the source as jinja2 does with trim_blocks and lstrip_blocks; the last token is `end`.
// Throws Error(corrupt) with the line for an unclosed comment or string, an unbalanced bracket or a stray character.
std::vector<Token> tokenize(std::string_view source);

// A mistake in the template: Error(corrupt) with the line; the name of the template is added where parsing is entered.
[[noreturn]] void fail_syntax(const std::string& message, int line);

}  // namespace gemmatrace::text::jinja
