// Any bytes as text: decoding UTF-8 covers every byte, agrees with itself, and the tokenizer loses nothing of it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

using gemmatrace::text::ControlText;
using gemmatrace::text::MarkedText;
using gemmatrace::text::Origin;
using gemmatrace::text::Tokenizer;

void check(bool holds) {
    if (!holds) __builtin_trap();
}

// Byte tokens, a few characters and a control token; no normaliser, so that decoding gives the very text back.
std::string small_tokenizer() {
    const std::string digits = "0123456789ABCDEF";
    std::string vocabulary = R"("<unk>":0,"<bos>":1,"a":2,"aa":3,"\u00e9":4)";
    for (int byte = 0; byte < 256; ++byte) {
        vocabulary += std::string(",\"<0x") + digits[static_cast<size_t>(byte / 16)] +
                      digits[static_cast<size_t>(byte % 16)] + ">\":" + std::to_string(5 + byte);
    }
    return R"({"added_tokens":[{"id":1,"content":"<bos>","single_word":false,"lstrip":false,"rstrip":false,)"
           R"("normalized":false,"special":true}],"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},)"
           R"({"type":"Fuse"}]},"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":{)" +
           vocabulary + R"(},"merges":[["a","a"]]}})";
}

// Walks the text step by step and compares with the functions for whole texts.
void check_decoding(std::string_view text) {
    std::string rebuilt;
    bool is_valid = true;
    for (size_t at = 0; at < text.size();) {
        const gemmatrace::Utf8Step step = gemmatrace::decode_utf8(text, at);
        check(step.length >= 1 && step.length <= 4 && at + static_cast<size_t>(step.length) <= text.size());
        check(!step.is_cut || (!step.is_valid && at + static_cast<size_t>(step.length) == text.size()));
        is_valid = is_valid && step.is_valid;
        gemmatrace::append_utf8(rebuilt, step.is_valid ? step.code_point : 0xfffd);
        at += static_cast<size_t>(step.length);
    }
    check(gemmatrace::is_valid_utf8(text) == is_valid);
    check(gemmatrace::replace_invalid_utf8(text) == rebuilt);
    check(gemmatrace::is_valid_utf8(rebuilt));
    check(!is_valid || rebuilt == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Tokenizer tokenizer = Tokenizer::parse(small_tokenizer(), "");
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_decoding(text);
    const std::string clean = gemmatrace::replace_invalid_utf8(text);
    check(tokenizer.decode(tokenizer.encode(text), false) == clean);
    const std::vector<int32_t> plain = tokenizer.encode(text, ControlText::plain);
    for (const int32_t id : plain) check(!tokenizer.is_control(id));
    check(tokenizer.decode(plain, false) == clean);
    // Runs of origin that cut the text anywhere, also inside of a character. What is broken across a border of origin
    // is replaced as one, so the text comes out the same.
    MarkedText marked;
    for (size_t at = 0, length = 1; at < size; at += length, length = length % 5 + 1) {
        marked.append(text.substr(at, length), length % 2 == 0 ? Origin::content : Origin::template_text);
    }
    check(tokenizer.decode(tokenizer.encode(marked), false) == clean);
    return 0;
}
