// Parsing by nlohmann-json, with its exceptions translated.
#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file_mapping.h"

namespace gemmatrace {
namespace {

// Line and column (from 1) of a byte offset.
std::pair<size_t, size_t> line_and_column(std::string_view text, size_t offset) {
    size_t line = 1;
    size_t column = 1;
    for (size_t byte = 0; byte < offset && byte < text.size(); ++byte) {
        if (text[byte] == '\n') {
            ++line;
            column = 1;
        } else {
            ++column;
        }
    }
    return {line, column};
}

// Nesting is checked before parsing, because destroying a deep tree recurses.
void check_depth(std::string_view text, const std::string& what, ErrorCode code, int max_depth) {
    int depth = 0;
    bool in_string = false;
    for (size_t byte = 0; byte < text.size(); ++byte) {
        const char c = text[byte];
        if (in_string) {
            if (c == '\\') ++byte;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth) {
                throw Error(code, fmt::format("JSON is nested deeper than {} levels", max_depth), {{"in", what}},
                            "flatten the document");
            }
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const std::string& what, ErrorCode code,
                                  const JsonLimits& limits) {
    if (text.size() > limits.max_bytes) {
        throw Error(code, fmt::format("JSON of {} bytes is larger than the {} allowed", text.size(), limits.max_bytes),
                    {{"in", what}}, "check that this is the right document");
    }
    check_depth(text, what, code, limits.max_depth);
    try {
        return nlohmann::ordered_json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
        const auto [line, column] = line_and_column(text, error.byte == 0 ? 0 : error.byte - 1);
        throw Error(code, text.empty() ? "the JSON text is empty" : "this is not valid JSON",
                    {{"in", what}, {"line", std::to_string(line)}, {"column", std::to_string(column)}},
                    "mend the JSON at that place, or fetch the file again");
    } catch (const nlohmann::json::exception& error) {
        throw Error(code, fmt::format("this JSON cannot be represented: {}", error.what()), {{"in", what}},
                    "check numbers and escapes in the document");
    }
}

nlohmann::ordered_json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
    return parse_json(read_file(path, limits.max_bytes), path.string(), ErrorCode::corrupt, limits);
}

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
    return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gemmatrace
