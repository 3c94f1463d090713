// What Python's str knows about characters: classes and case mappings of whole code points.
#pragma once

namespace gemmatrace::text::jinja {

// The characters of one other case: at most three.
struct CaseResult {
    char32_t code_points[3] = {};
    int count = 0;
};

bool is_alpha(char32_t code_point);      // str.isalpha
bool is_decimal(char32_t code_point);    // str.isdecimal
bool is_digit(char32_t code_point);      // str.isdigit
bool is_numeric(char32_t code_point);    // str.isnumeric
bool is_alnum(char32_t code_point);      // str.isalnum
bool is_space(char32_t code_point);      // str.isspace, \s of re
bool is_printable(char32_t code_point);  // str.isprintable
bool is_lower(char32_t code_point);      // str.islower of the character alone
bool is_upper(char32_t code_point);
bool is_title(char32_t code_point);  // a title-case letter that is neither upper nor lower
bool is_cased(char32_t code_point);
bool is_case_ignorable(char32_t code_point);
bool is_line_break(char32_t code_point);  // str.splitlines
// Letters, digits and "_": \w of re.
bool is_word(char32_t code_point);

CaseResult to_lower(char32_t code_point);
CaseResult to_upper(char32_t code_point);
CaseResult to_title(char32_t code_point);
CaseResult to_fold(char32_t code_point);

// The value 0..9 of a decimal digit of any script, or -1.
int decimal_value(char32_t code_point);

}  // namespace gemmatrace::text::jinja
