// tokenizer.json: text to ids and back, id for id as Hugging Face tokenizers does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace gemmatrace::text {

// What strings of added tokens in a text become.
enum class ControlText {
    tokens,  // their ids, as the reference does
    plain,   // control tokens (special ones) stay ordinary text; other added tokens still match
};

class Tokenizer {
  public:
    // Reads `directory/tokenizer.json` (and tokenizer_config.json for the names of special tokens, if present).
    // Throws Error(not_found) when absent, Error(corrupt) when empty or broken, Error(unsupported) for a model,
    // normaliser, pre-tokeniser, post-processor or decoder that is not understood: never guessed.
    static Tokenizer load(const std::filesystem::path& directory);
    // The same from the texts of the files; tokenizer_config may be empty. For tests and fuzzing.
    static Tokenizer parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json);

    ~Tokenizer();
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;

    // Ids of a text, without adding BOS or other specials. Text that is not UTF-8: each ill-formed stretch is U+FFFD.
    std::vector<int32_t> encode(std::string_view text, ControlText control = ControlText::tokens) const;
    // Ids of a rendered prompt: control tokens match only where every byte of them is template text. The text between
    // is tokenised as one stretch, so a border of origin by itself changes nothing.
    std::vector<int32_t> encode(const MarkedText& text) const;

    // The text of ids as the decoder of the file states it; control tokens are kept as text unless skip_special.
    // Ids out of range: Error(bad_request); an id in range without a token gives nothing, as in the reference.
    // Incomplete UTF-8 from byte tokens becomes U+FFFD as in the reference.
    std::string decode(std::span<const int32_t> ids, bool skip_special) const;

    // Number of ids: 1 + the largest id of the file.
    int32_t vocab_size() const;
    // The token's string as the file has it (e.g. "▁the", "<0x0A>"); empty for an id without a token.
    const std::string& token(int32_t id) const;
    std::optional<int32_t> id_of(std::string_view token) const;
    // Whether the id is a control token: an added token marked special, or one that tokenizer_config.json names
    // special.
    bool is_control(int32_t id) const;
    std::optional<int32_t> bos_id() const;  // bos_token of tokenizer_config.json
    std::optional<int32_t> eos_id() const;

    struct Data;

  private:
    explicit Tokenizer(std::unique_ptr<Data> data);
    friend class StreamingDetokenizer;
    std::unique_ptr<Data> data_;
};

// What one step of the decoder keeps between tokens.
struct DecoderState {
    std::string held;  // bytes that later tokens may still change
    size_t seen = 0;   // tokens or characters met, where the first ones are special
};

// Turns ids that come one at a time into text that can be shown at once: holds back what may still change. That is a
// run of byte tokens until it ends, because in the reference one wrong byte turns the whole run into U+FFFD; and with
// some decoders the spaces at the end. Joined output equals Tokenizer::decode of all ids. One per sequence; the
// tokenizer must outlive it (it may be moved).
class StreamingDetokenizer {
  public:
    StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special);

    // The text that this id completes; may be empty.
    std::string push(int32_t id);
    // What is still held, with the incomplete rest as U+FFFD; once, at the end.
    std::string finish();

  private:
    const Tokenizer::Data* data_;
    bool skip_special_;
    std::vector<DecoderState> states_;
    bool is_at_start_ = true;
};

}  // namespace gemmatrace::text
