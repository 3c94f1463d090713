// Reads added_tokens and the places where tokenizer_config.json names special tokens.
#include "text/tokenizer_special.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"

namespace gemmatrace::text {
namespace {

AddedToken read_added_token(const Fields& entry) {
    entry.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = entry.string("content");
    token.single_word = entry.boolean("single_word");
    token.lstrip = entry.boolean("lstrip");
    token.rstrip = entry.boolean("rstrip");
    token.normalized = entry.boolean("normalized");
    token.special = entry.boolean("special");
    return token;
}

// The text of a token given as a string or as an object with "content".
std::string token_text(const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    const auto content = value.is_object() ? value.find("content") : value.end();
    if (value.is_object() && content != value.end() && content->is_string()) return content->get<std::string>();
    return {};
}

void add_name(const nlohmann::ordered_json& value, std::vector<std::string>& names) {
    std::string name = token_text(value);
    if (!name.empty()) names.push_back(std::move(name));
}

bool is_marked_special(const nlohmann::ordered_json& entry) {
    return entry.is_object() && entry.contains("special") && entry["special"] == true;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Fields& file, Vocabulary& vocabulary) {
    std::vector<AddedToken> tokens;
    const nlohmann::json* list = file.optional_member("added_tokens");
    if (list == nullptr) return tokens;
    if (!list->is_array()) reject_field("added_tokens", "this is not a list");
    std::set<std::string> seen;
    uint64_t next_id = static_cast<uint64_t>(vocabulary.model_size());
    for (size_t index = 0; index < list->size(); ++index) {
        const Fields entry((*list)[index], fmt::format("added_tokens[{}]", index));
        AddedToken token = read_added_token(entry);
        if (token.content.empty()) reject_field(entry.path_of("content"), "an added token is empty");
        if (!seen.insert(token.content).second) reject_field(entry.path(), "an added token is there twice");
        const std::optional<int32_t> model_id = vocabulary.find_in_model(token.content);
        const uint64_t id = model_id ? static_cast<uint64_t>(*model_id) : next_id++;
        if (entry.number("id") != id) {
            reject_field(entry.path_of("id"),
                         fmt::format("the added token {} has id {} here, but Hugging Face tokenizers "
                                     "would give it {}",
                                     token.content, entry.number("id"), id));
        }
        if (!model_id) vocabulary.add_extra_token(token.content, id);
        token.id = static_cast<int32_t>(id);
        tokens.push_back(std::move(token));
    }
    return tokens;
}

std::vector<std::string> special_token_names(const nlohmann::ordered_json& config) {
    std::vector<std::string> names;
    for (const auto& [key, value] : config.items()) {
        if (key == "added_tokens_decoder") {
            for (const auto& entry : value) {
                if (is_marked_special(entry)) add_name(entry, names);
            }
        } else if (key == "additional_special_tokens" || key == "extra_special_tokens" ||
                   key == "model_specific_special_tokens") {
            for (const auto& entry : value) add_name(entry, names);
        } else if (key.ends_with("_token")) {
            add_name(value, names);
        }
    }
    return names;
}

std::string named_token(const nlohmann::ordered_json& config, const std::string& key) {
    const auto found = config.find(key);
    return found == config.end() ? std::string() : token_text(*found);
}

}  // namespace gemmatrace::text
