// Which tokens are special: what tokenizer.json marks and what tokenizer_config.json names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/tokenizer_added.h"
#include "text/tokenizer_fields.h"
#include "text/tokenizer_vocabulary.h"

namespace gemmatrace::text {

// added_tokens of tokenizer.json. A token that the model lacks joins the vocabulary. Throws Error(corrupt) for an entry
// that is incomplete, there twice, or whose id is another one than Hugging Face tokenizers would give it (it takes the
// model's id, or for a token new to the model the next free one, whatever the file says).
std::vector<AddedToken> read_added_tokens(const Fields& file, Vocabulary& vocabulary);

// The strings that tokenizer_config.json calls special: values of *_token, special entries of added_tokens_decoder,
// additional_special_tokens, extra_special_tokens, model_specific_special_tokens.
std::vector<std::string> special_token_names(const nlohmann::ordered_json& config);

// The value of bos_token and the like, a string or an object with "content"; empty when there is none.
std::string named_token(const nlohmann::ordered_json& config, const std::string& key);

}  // namespace gemmatrace::text
