// Any bytes as tokenizer.json: either one of our errors, or a tokenizer whose promises hold on a fixed and a fuzzed
// text.
//
// Input: tokenizer.json, and behind a NUL byte (which no JSON holds) a text to tokenise.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace {

using gemmatrace::Error;
using gemmatrace::text::ControlText;
using gemmatrace::text::MarkedText;
using gemmatrace::text::Origin;
using gemmatrace::text::StreamingDetokenizer;
using gemmatrace::text::Tokenizer;

constexpr size_t kMaxText = 4096;
constexpr std::string_view kText = "Hello  world\n\n<bos>\xe2\x96\x81 na\xc3\xafve \xf0\x9f\x98\x80 \xff<unk> 123\t";

void check(bool holds) {
    if (!holds) __builtin_trap();
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
    StreamingDetokenizer detokenizer(tokenizer, skip_special);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    const std::vector<int32_t> plain = tokenizer.encode(text, ControlText::plain);
    for (const int32_t id : ids) check(id >= 0 && id < tokenizer.vocab_size());
    for (const bool skip_special : {false, true}) {
        check(streamed(tokenizer, ids, skip_special) == tokenizer.decode(ids, skip_special));
        check(streamed(tokenizer, plain, skip_special) == tokenizer.decode(plain, skip_special));
    }
    check(tokenizer.encode(MarkedText(std::string(text), Origin::template_text)) == ids);
    check(tokenizer.encode(MarkedText(std::string(text), Origin::content)) == plain);
    MarkedText mixed(std::string(text.substr(0, text.size() / 2)), Origin::template_text);
    mixed.append(text.substr(text.size() / 2), Origin::content);
    tokenizer.encode(mixed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t border = std::min(input.find('\0'), size);
    try {
        const Tokenizer tokenizer =
            Tokenizer::parse(input.substr(0, border), R"({"bos_token": "<bos>", "eos_token": "a"})");
        check_text(tokenizer, kText);
        if (border < size) check_text(tokenizer, input.substr(border + 1).substr(0, kMaxText));
    } catch (const Error&) {
        // A refusal is a fine answer; anything else that is thrown ends the run.
    }
    return 0;
}
