// Errors that name the field of tokenizer.json they speak of.
#include "text/tokenizer_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gemmatrace::text {

Fields::Fields(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value_.is_object()) reject_field(path_, "this is not an object");
}

void Fields::allow_only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : value_.items()) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            refuse_field(path_of(name), "this field of tokenizer.json is not known");
        }
    }
}

const nlohmann::json& Fields::member(std::string_view name) const {
    const auto found = value_.find(name);
    if (found == value_.end()) reject_field(path_of(name), "a field of tokenizer.json is missing");
    return *found;
}

std::string Fields::string(std::string_view name) const {
    const nlohmann::json& value = member(name);
    if (!value.is_string()) reject_field(path_of(name), "this is not a string");
    return value.get<std::string>();
}

bool Fields::boolean(std::string_view name) const {
    const nlohmann::json& value = member(name);
    if (!value.is_boolean()) reject_field(path_of(name), "this is neither true nor false");
    return value.get<bool>();
}

uint64_t Fields::number(std::string_view name) const {
    const nlohmann::json& value = member(name);
    if (!value.is_number_unsigned()) reject_field(path_of(name), "this is not a whole number");
    return value.get<uint64_t>();
}

const nlohmann::json* Fields::optional_member(std::string_view name) const {
    const auto found = value_.find(name);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::optional_string(std::string_view name) const {
    if (optional_member(name) == nullptr) return std::nullopt;
    return string(name);
}

std::optional<bool> Fields::optional_boolean(std::string_view name) const {
    if (optional_member(name) == nullptr) return std::nullopt;
    return boolean(name);
}

std::string Fields::path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void refuse_field(const std::string& path, const std::string& message) {
    throw Error(ErrorCode::unsupported, message, {{"field", path}},
                "use the tokenizer.json that was published with the Gemma checkpoint");
}

void reject_field(const std::string& path, const std::string& message) {
    throw Error(ErrorCode::corrupt, message, {{"field", path}},
                "fetch tokenizer.json again; if it stays so, the file was made wrongly");
}

}  // namespace gemmatrace::text
