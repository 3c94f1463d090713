// The two character classes that flags of added tokens need, as Rust's regex crate defines them.
#pragma once

namespace gemmatrace::text {

// `\s`: the White_Space property.
bool is_white_space(char32_t code_point);

// `\w`: Alphabetic, Mark, Decimal_Number, Connector_Punctuation and Join_Control of Unicode 16.
bool is_word_character(char32_t code_point);

}  // namespace gemmatrace::text
