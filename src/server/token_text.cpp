// Single tokens to text.
#include "server/token_text.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

ordered_json entry(const text::Tokenizer& tokenizer, int32_t id, float logprob) {
    const std::string bytes = token_bytes(tokenizer, id);
    ordered_json result;
    result["token"] = bytes;  // bytes that are not UTF-8 are written as U+FFFD
    result["logprob"] = logprob;
    ordered_json& list = result["bytes"] = ordered_json::array();
    for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
    return result;
}

}  // namespace

std::string token_bytes(const text::Tokenizer& tokenizer, int32_t id) {
    const std::string& token = tokenizer.token(id);
    const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
    if (is_byte) {
        unsigned value = 0;
        const auto parsed = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
        if (parsed.ptr == token.data() + 5) return {static_cast<char>(value)};
    }
    const std::array<int32_t, 1> ids = {id};
    return tokenizer.decode(ids, false);
}

ordered_json chat_logprob(const text::Tokenizer& tokenizer, const engine::GeneratedToken& token) {
    ordered_json result = entry(tokenizer, token.id, token.logprob);
    ordered_json& top = result["top_logprobs"] = ordered_json::array();
    for (const auto& other : token.top) top.push_back(entry(tokenizer, other.id, other.logprob));
    return result;
}

}  // namespace gemmatrace::server
