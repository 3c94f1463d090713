// Any text as a chat template: a render of a small conversation, or an error that blames template or request.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat_template.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;
namespace text = gemmatrace::text;

namespace {

const nlohmann::ordered_json& variables() {
    static const auto kVariables = nlohmann::ordered_json::parse(R"({
        "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Grüße 🙂 <turn|>"},
                     {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]}],
        "tools": [{"function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}}],
        "add_generation_prompt": true, "n": 7, "s": "Hello World", "xs": [3, 1, 2], "d": {"b": 1, "a": "x"}})");
    return kVariables;
}

text::TemplateLimits limits() {
    text::TemplateLimits small;
    small.max_steps = 200'000;
    small.max_output_bytes = size_t{1} << 20;
    small.max_value_bytes = size_t{16} << 20;
    return small;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    try {
        const auto rendered =
            text::ChatTemplate::parse(source, "fuzz").render(variables(), {{"bos_token", "<bos>"}}, limits());
        size_t total = 0;
        for (const auto& run : rendered.runs()) total += run.length;
        require(total == rendered.size(), "the runs cover the text");
        require(gemmatrace::is_valid_utf8(rendered.text()), "the text is UTF-8");
    } catch (const Error& error) {
        const bool is_expected = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::bad_request ||
                                 error.code() == ErrorCode::unsupported;
        if (!is_expected) throw;
    }
    return 0;
}
