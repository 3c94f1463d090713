// Typed access to the keys of a JSON object, as strict as Transformers' config classes and with errors that name the
// key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace gemmatrace::checkpoint {

// Smallest and largest value that a number may have; both included.
template <typename Number>
struct Bounds {
    Number low;
    Number high;
};

// One JSON object of a file. Getters with a default return it when the key is absent; null counts as absent only for
// the optional_ getters, because a config field that may not be null is an error when it is. A wrong type or a value
// out of bounds throws Error(corrupt) naming file, field and value.
class Fields {
  public:
    // `path` is where the object stands in the file, e.g. "text_config"; empty for the top level. Throws Error(corrupt)
    // when `object` is no object. Keeps references: file and object outlive it.
    Fields(const nlohmann::ordered_json& object, const std::string& file, std::string path);

    // Null when the key is absent or null.
    const nlohmann::ordered_json* find(std::string_view key) const;
    // Whether the key is there, null or not.
    bool contains(std::string_view key) const { return present(key) != nullptr; }

    int64_t integer(std::string_view key, int64_t fallback, Bounds<int64_t> bounds) const;
    int32_t dimension(std::string_view key, int32_t fallback) const;  // 1 … 2^24
    bool boolean(std::string_view key, bool fallback) const;
    // A number written with a point or an exponent; 5.13 refuses an integer here, and so do we.
    double real(std::string_view key, double fallback, Bounds<double> bounds) const;
    std::string text(std::string_view key, std::string_view fallback) const;

    std::optional<int64_t> optional_integer(std::string_view key, Bounds<int64_t> bounds) const;
    std::optional<double> optional_real(std::string_view key, Bounds<double> bounds) const;
    std::optional<double> optional_number(std::string_view key, Bounds<double> bounds) const;  // integers count too
    std::optional<std::string> optional_text(std::string_view key) const;
    // An integer, a list of integers or null/absent (empty).
    std::vector<int32_t> token_ids(std::string_view key) const;

    // The error of a field: message "<field> <problem>", context file and field.
    Error error(ErrorCode code, std::string_view key, const std::string& problem, std::string remedy) const;
    std::string field_name(std::string_view key) const;
    const std::string& file() const { return file_; }

  private:
    const nlohmann::ordered_json* present(std::string_view key) const;  // null only when absent
    int64_t checked_integer(std::string_view key, const nlohmann::ordered_json& value, Bounds<int64_t> bounds) const;
    double checked_number(std::string_view key, const nlohmann::ordered_json& value, Bounds<double> bounds) const;
    Error wrong_type(std::string_view key, const nlohmann::ordered_json& value, std::string_view expected) const;

    const nlohmann::ordered_json& object_;
    const std::string& file_;
    std::string path_;
};

}  // namespace gemmatrace::checkpoint
