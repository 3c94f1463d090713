// Small tokenizers in Gemma's form, written out as tokenizer.json texts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace gemmatrace::text::testing {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

inline const std::string kSpace = "\u2581";  // what the normaliser writes for a space

// Every split of a piece into two pieces of the vocabulary, piece by piece in the order of ids.
inline Json all_merges(const Strings& tokens) {
    const auto is_known = [&](const std::string& piece) {
        return std::find(tokens.begin(), tokens.end(), piece) != tokens.end();
    };
    Json merges = Json::array();
    for (const std::string& token : tokens) {
        if (token.front() == '<' && token.back() == '>') continue;
        for (size_t cut = 1; cut < token.size(); ++cut) {
            const std::string left = token.substr(0, cut);
            const std::string right = token.substr(cut);
            if (is_known(left) && is_known(right)) merges.push_back({left, right});
        }
    }
    return merges;
}

inline Json replace_step(const std::string& pattern, const std::string& content) {
    return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

inline Json added_token(int id, const std::string& content, bool is_special = true) {
    return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

// A file of these tokens (id = place in the list) and merges, with Gemma's pipeline.
inline Json gemma_file(const Strings& tokens, const Json& merges) {
    Json vocabulary = Json::object();
    for (size_t id = 0; id < tokens.size(); ++id) vocabulary[tokens[id]] = id;
    return {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", Json::array()},
        {"normalizer", replace_step(" ", kSpace)},
        {"pre_tokenizer",
         {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}}},
        {"post_processor", nullptr},
        {"decoder",
         {{"type", "Sequence"},
          {"decoders", {replace_step(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", "<unk>"},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", true},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", merges}}}};
}

// Gemma in small: control tokens 0-6, runs of up to 4 newlines and spaces, all bytes, ASCII, some pieces.
inline Strings small_tokens() {
    Strings tokens{"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"};
    for (const size_t run : {1, 2, 3, 4}) tokens.push_back(std::string(run, '\n'));
    tokens.insert(tokens.end(), {kSpace + kSpace, kSpace + kSpace + kSpace, kSpace + kSpace + kSpace + kSpace});
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
    tokens.insert(tokens.end(),
                  {"he", "ll", "hell", "hello", kSpace + "w", "or", "ld", "orld", kSpace + "world", "<b", ">\n"});
    for (char character = '!'; character <= '~'; ++character) tokens.emplace_back(1, character);
    tokens.insert(tokens.end(), {kSpace, "é", "ü", "中"});
    return tokens;
}

inline Json small_file() {
    Json file = gemma_file(small_tokens(), all_merges(small_tokens()));
    for (int id = 0; id < 7; ++id)
        file["added_tokens"].push_back(added_token(id, small_tokens()[static_cast<size_t>(id)]));
    return file;
}

inline Tokenizer parse(const Json& file, const Json& config = nullptr) {
    return Tokenizer::parse(file.dump(), config.is_null() ? std::string() : config.dump());
}

// The strings of ids: what a reader can check.
inline Strings names(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
    Strings strings;
    for (const int32_t id : ids) strings.push_back(tokenizer.token(id));
    return strings;
}

inline Strings tokens_of(const Tokenizer& tokenizer, std::string_view text, ControlText control = ControlText::tokens) {
    return names(tokenizer, tokenizer.encode(text, control));
}

// `text` as the file's decoder gives it back.
inline std::string round_trip(const Tokenizer& tokenizer, std::string_view text) {
    return tokenizer.decode(tokenizer.encode(text), false);
}

}  // namespace gemmatrace::text::testing
