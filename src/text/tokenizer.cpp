// Loads a tokenizer and walks a text through its parts: added tokens, normaliser, added tokens again, pre-tokeniser,
// BPE.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer_data.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"
#include "text/tokenizer_special.h"

namespace gemmatrace::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // positions in BPE are 32 bits wide
constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr const char* kJsonName = "tokenizer.json";
constexpr const char* kConfigName = "tokenizer_config.json";

// The patterns of the tokens that match before the normaliser, or of those that match behind it.
AddedTokenMatcher matcher_of(const std::vector<AddedToken>& tokens, bool is_normalized, const Normalizer& normalizer,
                             const Vocabulary& vocabulary) {
    std::vector<AddedTokenMatcher::Pattern> patterns;
    for (const bool is_special : {true, false}) {  // the reference lists special ones first
        for (const AddedToken& token : tokens) {
            if (token.normalized != is_normalized || token.special != is_special) continue;
            std::string text = is_normalized ? normalizer.apply({token.content}).text : token.content;
            patterns.push_back({std::move(text), token, vocabulary.is_control(token.id)});
        }
    }
    return AddedTokenMatcher(std::move(patterns));
}

nlohmann::ordered_json read_config(std::string_view text) {
    if (text.empty()) return nlohmann::ordered_json::object();
    nlohmann::ordered_json config = parse_json(text, kConfigName, ErrorCode::corrupt);
    if (!config.is_object()) {
        throw Error(ErrorCode::corrupt, "this is not a JSON object", {{"in", kConfigName}}, "fetch the file again");
    }
    return config;
}

// Reads the file, which must be a tokenizer this program understands.
std::unique_ptr<Tokenizer::Data> build(std::string_view json, const nlohmann::ordered_json& config) {
    TokenizerFile file = read_tokenizer_file(json);
    const Fields fields(file.rest, "");
    const BpeSettings settings = read_bpe_settings(fields);
    check_remaining_parts(fields);
    if (!file.has_vocabulary) reject_field("model.vocab", "a field of tokenizer.json is missing");
    if (!file.has_merges) reject_field("model.merges", "a field of tokenizer.json is missing");
    if (file.vocabulary.model_size() == 0) reject_field("model.vocab", "the vocabulary is empty");
    const Normalizer normalizer(read_normalizer(fields));
    PreTokenizer pre_tokenizer(read_pre_tokenizer(fields, !normalizer.changes_nothing()));
    Decoder decoder = read_decoder(fields);
    Vocabulary vocabulary = std::move(file.vocabulary);
    Bpe bpe(vocabulary, file.merges, settings);
    const std::vector<AddedToken> added = read_added_tokens(fields, vocabulary);
    for (const AddedToken& token : added) {
        if (token.special) vocabulary.mark_control(token.id);
    }
    for (const std::string& name : special_token_names(config)) {
        if (const std::optional<int32_t> id = vocabulary.find(name)) vocabulary.mark_control(*id);
    }
    AddedTokenMatcher raw = matcher_of(added, false, normalizer, vocabulary);
    AddedTokenMatcher normalized = matcher_of(added, true, normalizer, vocabulary);
    const auto id_named = [&](const char* key) { return vocabulary.find(named_token(config, key)); };
    const std::optional<int32_t> bos_id = id_named("bos_token");
    const std::optional<int32_t> eos_id = id_named("eos_token");
    return std::make_unique<Tokenizer::Data>(Tokenizer::Data{std::move(vocabulary), std::move(raw), normalizer,
                                                             std::move(normalized), std::move(pre_tokenizer),
                                                             std::move(bpe), std::move(decoder), bos_id, eos_id});
}

// Walks one text; keeps what its steps make.
class Encoding {
  public:
    explicit Encoding(const Tokenizer::Data& data) : data_(data) {}

    std::vector<int32_t> encode(const TextView& text) {
        for (const Section& section : data_.raw_added.split(text)) {
            if (section.id) {
                ids_.push_back(*section.id);
            } else {
                encode_raw(text.slice(section.begin, section.end), section.begin == 0);
            }
        }
        return std::move(ids_);
    }

  private:
    void encode_raw(const TextView& text, bool starts_input) {
        if (data_.normalizer.changes_nothing()) return encode_normalized(text, starts_input);
        const OwnedText normalized = data_.normalizer.apply(text);
        encode_normalized(normalized.view(), starts_input);
    }

    void encode_normalized(const TextView& text, bool starts_input) {
        for (const Section& section : data_.normalized_added.split(text)) {
            if (section.id) {
                ids_.push_back(*section.id);
                continue;
            }
            std::deque<OwnedText> storage;
            const TextView part = text.slice(section.begin, section.end);
            for (const TextView& stretch :
                 data_.pre_tokenizer.split(part, starts_input && section.begin == 0, storage)) {
                data_.bpe.encode(data_.vocabulary, stretch, workspace_, ids_);
            }
        }
    }

    const Tokenizer::Data& data_;
    Bpe::Workspace workspace_;
    std::vector<int32_t> ids_;
};

void check_length(size_t bytes) {
    if (bytes <= kMaxTextBytes) return;
    throw Error(ErrorCode::too_long,
                fmt::format("the text has {} bytes, at most {} can be tokenised", bytes, kMaxTextBytes), {},
                "send a shorter text");
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / kJsonName;
    const std::filesystem::path config_path = directory / kConfigName;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
        throw Error(ErrorCode::not_found, "the checkpoint has no tokenizer.json", {{"file", path.string()}},
                    "fetch tokenizer.json from where the checkpoint came from");
    }
    try {
        const std::string json = read_file(path, kMaxFileBytes);
        const std::string config =
            std::filesystem::exists(config_path, ignored) ? read_file(config_path, JsonLimits{}.max_bytes) : "";
        return parse(json, config);
    } catch (Error& error) {
        throw error.add_context("checkpoint", directory.string());
    }
}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
    const nlohmann::ordered_json config = read_config(tokenizer_config_json);
    try {
        return Tokenizer(build(tokenizer_json, config));
    } catch (Error& error) {
        throw error.add_context("in", kJsonName);
    }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, ControlText control) const {
    check_length(text.size());
    const Origin origin = control == ControlText::tokens ? Origin::template_text : Origin::content;
    if (is_valid_utf8(text)) return Encoding(*data_).encode({text, nullptr, origin});
    const std::string clean = replace_invalid_utf8(text);
    check_length(clean.size());
    return Encoding(*data_).encode({clean, nullptr, origin});
}

std::vector<int32_t> Tokenizer::encode(const MarkedText& text) const {
    check_length(text.size());
    if (text.runs().size() < 2) {
        const bool is_content = !text.empty() && text.runs().front().origin == Origin::content;
        return encode(text.text(), is_content ? ControlText::plain : ControlText::tokens);
    }
    const OwnedText clean = well_formed(text);
    check_length(clean.text.size());
    return Encoding(*data_).encode(clean.view());
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    StreamingDetokenizer detokenizer(*this, skip_special);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
}

int32_t Tokenizer::vocab_size() const { return data_->vocabulary.size(); }
const std::string& Tokenizer::token(int32_t id) const { return data_->vocabulary.token(id); }
std::optional<int32_t> Tokenizer::id_of(std::string_view token) const { return data_->vocabulary.find(token); }
bool Tokenizer::is_control(int32_t id) const { return data_->vocabulary.is_control(id); }
std::optional<int32_t> Tokenizer::bos_id() const { return data_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return data_->eos_id; }

}  // namespace gemmatrace::text
