// Tokens as log-probabilities show them: text, bytes, alternatives.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace gemmatrace::server {

// The bytes that a token adds to a text; of a byte-fallback token the one byte, which need not be UTF-8.
std::string token_bytes(const text::Tokenizer& tokenizer, int32_t id);

// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]} of the chat dialect.
nlohmann::ordered_json chat_logprob(const text::Tokenizer& tokenizer, const engine::GeneratedToken& token);

}  // namespace gemmatrace::server
