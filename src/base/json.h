// JSON behind one door: limits on size and depth, and errors of our own family instead of the library's.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gemmatrace {

// What a JSON text may cost before it is refused.
struct JsonLimits {
    size_t max_bytes = size_t{64} << 20;
    int max_depth = 64;
};

// Parses text, keeping the order of keys. `what` names the text in errors (a file path or "standard input"); `code` is
// thrown for anything malformed, too large or too deep, with line and column. Duplicate keys: the last one counts, as
// in Python.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& what, ErrorCode code,
                                  const JsonLimits& limits = {});

// Reads and parses a file; Error(not_found) when missing, Error(corrupt) when malformed.
nlohmann::ordered_json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

// Compact JSON text; text that is not UTF-8 is written with U+FFFD instead of throwing.
std::string dump_json(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace gemmatrace
