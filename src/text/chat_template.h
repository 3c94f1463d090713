// The checkpoint's chat template: a conversation in, the exact prompt text out, each byte with its origin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/marked_text.h"

namespace gemmatrace::text {

// What a render may cost before it is refused.
struct TemplateLimits {
    int64_t max_steps = 100'000'000;             // statements and expressions evaluated
    size_t max_output_bytes = size_t{64} << 20;  // also of any single text the template makes on its way
    size_t max_value_bytes = size_t{512} << 20;  // texts, lists and mappings held at one time
    int max_depth = 200;                         // nested calls, macros and expressions
};

// The wall clock that strftime_now shows, as datetime.now() gives it.
struct LocalTime {
    int year = 1970;
    int month = 1;  // 1 … 12
    int day = 1;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int microsecond = 0;

    static LocalTime now();
};

class ChatTemplate {
  public:
    // Reads chat_template.jinja, or `chat_template` of tokenizer_config.json (a string, or a list with a "default").
    // Throws Error(not_found) when the checkpoint has none, Error(corrupt) with line and message on a syntax error.
    static ChatTemplate load(const std::filesystem::path& directory);
    // Parses source text; `name` is used in errors.
    static ChatTemplate parse(std::string_view source, const std::string& name);

    ~ChatTemplate();
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;

    // Renders with the members of `variables` (messages, tools, enable_thinking, add_generation_prompt, …) as Python's
    // jinja2 does in Hugging Face's sandbox (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception,
    // strftime_now, generation tag). Strings of `variables` carry Origin::content. bos_token, eos_token and the like
    // are template variables with Origin::template_text when they stand in `special_tokens`. Throws Error(bad_request)
    // with the template's line when the template raises or an operation fails there.
    MarkedText render(const nlohmann::ordered_json& variables, const nlohmann::ordered_json& special_tokens,
                      const TemplateLimits& limits = {}) const;
    // The same at a given time, so that tests control what strftime_now shows.
    MarkedText render(const nlohmann::ordered_json& variables, const nlohmann::ordered_json& special_tokens,
                      const TemplateLimits& limits, const LocalTime& now) const;

    struct Data;

  private:
    explicit ChatTemplate(std::unique_ptr<Data> data);
    std::unique_ptr<Data> data_;
};

// The special-token variables (bos_token, eos_token, …) that tokenizer_config.json gives a template; an empty object
// when there are none.
nlohmann::ordered_json special_token_variables(const std::filesystem::path& directory);

}  // namespace gemmatrace::text
