// Renders small templates with a fixed set of variables; the expected texts of these tests were made with jinja2 3.1.6.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

namespace gemmatrace::text {

inline const nlohmann::ordered_json& fixture_variables() {
    static const auto kVariables = nlohmann::ordered_json::parse(
        R"j({"s": "Hello World", "padded": "  x ", "accents": "ÀÉîß日本🙂", "quotes": "it's \"q\"", "n": 7, "zero": 0, "f": 2.5, "yes": true, "no": false, "nil": null,
        "xs": [3, 1, 2], "ys": ["b", "a", "B", "c"], "mixed": [1, "a", null, true, 2.5], "empty": [], 
        "d": {"b": 1, "a": "x", "C": [1, 2]}, "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "tags": []}], 
        "shadow": {"items": "own", "get": 1}, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " yo "}]})j");
    return kVariables;
}

inline MarkedText render_marked(std::string_view source, const nlohmann::ordered_json& variables = fixture_variables(),
                                const TemplateLimits& limits = {}) {
    const nlohmann::ordered_json special{{"bos_token", "<bos>"}};
    return ChatTemplate::parse(source, "test").render(variables, special, limits, {2024, 7, 5, 9, 3, 7, 42});
}

inline std::string render(std::string_view source, const nlohmann::ordered_json& variables = fixture_variables(),
                          const TemplateLimits& limits = {}) {
    return render_marked(source, variables, limits).text();
}

// The error that parsing or rendering ends in, as its code, message and context in one line; "" when it ends well.
inline std::string failure(std::string_view source, const nlohmann::ordered_json& variables = fixture_variables(),
                           const TemplateLimits& limits = {}) {
    try {
        render(source, variables, limits);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace gemmatrace::text
