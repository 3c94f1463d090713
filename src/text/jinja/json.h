// The request's JSON as values, and values as JSON text (Python's json.dumps).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

// Every string and key carries `origin`. Throws Error(bad_request) when the data is nested too deeply.
Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, Origin origin);

// The parameters of Hugging Face's tojson filter.
struct JsonStyle {
    bool is_ascii = false;
    std::optional<Text> indent;  // what a level adds; without it everything stands on one line
    Text item_separator = Text(", ", Origin::template_text);
    Text key_separator = Text(": ", Origin::template_text);
    bool has_sorted_keys = false;
};

Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace gemmatrace::text::jinja
