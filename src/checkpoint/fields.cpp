// Type and range checks of single JSON fields.
#include "checkpoint/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/printable.h"

namespace gemmatrace::checkpoint {
namespace {

// A value as it may stand in an error message: short, whatever the file holds.
std::string short_text(const nlohmann::ordered_json& value) {
    std::string text =
        value.is_structured() ? std::string(value.is_array() ? "a list" : "an object") : dump_json(value);
    constexpr size_t kLongest = 60;
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
    return text;
}

}  // namespace

Fields::Fields(const nlohmann::ordered_json& object, const std::string& file, std::string path)
    : object_(object), file_(file), path_(std::move(path)) {
    if (object.is_object()) return;
    Error error(ErrorCode::corrupt, fmt::format("{} is not a JSON object", path_.empty() ? "the document" : path_),
                {{"file", file}}, "fetch the file again from where the checkpoint came from");
    if (!path_.empty()) error.add_context("field", path_);
    throw error;
}

const nlohmann::ordered_json* Fields::present(std::string_view key) const {
    const auto found = object_.find(std::string(key));
    return found == object_.end() ? nullptr : &*found;
}

const nlohmann::ordered_json* Fields::find(std::string_view key) const {
    const auto* value = present(key);
    return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Fields::field_name(std::string_view key) const {
    return path_.empty() ? printable(key) : fmt::format("{}.{}", path_, printable(key));
}

Error Fields::error(ErrorCode code, std::string_view key, const std::string& problem, std::string remedy) const {
    return {code,
            fmt::format("{} {}", field_name(key), problem),
            {{"file", file_}, {"field", field_name(key)}},
            std::move(remedy)};
}

Error Fields::wrong_type(std::string_view key, const nlohmann::ordered_json& value, std::string_view expected) const {
    return error(ErrorCode::corrupt, key, fmt::format("is {}, but {} is expected", short_text(value), expected),
                 "correct the value, or fetch the file again");
}

int64_t Fields::checked_integer(std::string_view key, const nlohmann::ordered_json& value,
                                Bounds<int64_t> bounds) const {
    if (!value.is_number_integer()) throw wrong_type(key, value, "an integer");
    const bool is_too_large = value.is_number_unsigned() &&
                              value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (is_too_large || value.get<int64_t>() < bounds.low || value.get<int64_t>() > bounds.high) {
        throw error(ErrorCode::corrupt, key,
                    fmt::format("is {}, outside {} to {}", short_text(value), bounds.low, bounds.high),
                    "correct the value, or fetch the file again");
    }
    return value.get<int64_t>();
}

double Fields::checked_number(std::string_view key, const nlohmann::ordered_json& value, Bounds<double> bounds) const {
    if (!value.is_number()) throw wrong_type(key, value, "a number");
    const double number = value.get<double>();
    if (!std::isfinite(number) || number < bounds.low || number > bounds.high) {
        throw error(ErrorCode::corrupt, key,
                    fmt::format("is {}, outside {} to {}", short_text(value), bounds.low, bounds.high),
                    "correct the value, or fetch the file again");
    }
    return number;
}

int64_t Fields::integer(std::string_view key, int64_t fallback, Bounds<int64_t> bounds) const {
    const auto* value = present(key);
    return value == nullptr ? fallback : checked_integer(key, *value, bounds);
}

int32_t Fields::dimension(std::string_view key, int32_t fallback) const {
    return static_cast<int32_t>(integer(key, fallback, {1, int64_t{1} << 24}));
}

bool Fields::boolean(std::string_view key, bool fallback) const {
    const auto* value = present(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) throw wrong_type(key, *value, "true or false");
    return value->get<bool>();
}

double Fields::real(std::string_view key, double fallback, Bounds<double> bounds) const {
    const auto* value = present(key);
    if (value == nullptr) return fallback;
    if (!value->is_number_float()) throw wrong_type(key, *value, "a number with a decimal point or an exponent");
    return checked_number(key, *value, bounds);
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
    const auto* value = present(key);
    if (value == nullptr) return std::string(fallback);
    if (!value->is_string()) throw wrong_type(key, *value, "a string");
    return value->get<std::string>();
}

std::optional<int64_t> Fields::optional_integer(std::string_view key, Bounds<int64_t> bounds) const {
    const auto* value = find(key);
    if (value == nullptr) return std::nullopt;
    return checked_integer(key, *value, bounds);
}

std::optional<double> Fields::optional_real(std::string_view key, Bounds<double> bounds) const {
    if (find(key) == nullptr) return std::nullopt;
    return real(key, 0.0, bounds);
}

std::optional<double> Fields::optional_number(std::string_view key, Bounds<double> bounds) const {
    const auto* value = find(key);
    if (value == nullptr) return std::nullopt;
    return checked_number(key, *value, bounds);
}

std::optional<std::string> Fields::optional_text(std::string_view key) const {
    if (find(key) == nullptr) return std::nullopt;
    return text(key, "");
}

std::vector<int32_t> Fields::token_ids(std::string_view key) const {
    constexpr Bounds<int64_t> kIds{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    const auto* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array()) return {static_cast<int32_t>(checked_integer(key, *value, kIds))};
    std::vector<int32_t> ids;
    for (const auto& entry : *value) ids.push_back(static_cast<int32_t>(checked_integer(key, entry, kIds)));
    return ids;
}

}  // namespace gemmatrace::checkpoint
