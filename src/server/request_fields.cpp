// Typed access to JSON members.
#include "server/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

std::string kind_of(const nlohmann::ordered_json& value) {
    if (value.is_number_float()) return "a number with a fraction";
    if (value.is_number()) return "a number";
    if (value.is_string()) return "a string";
    if (value.is_boolean()) return "true or false";
    if (value.is_array()) return "a list";
    return "an object";
}

}  // namespace

RequestFields::RequestFields(const nlohmann::ordered_json& object, std::string path)
    : object_(object), path_(std::move(path)) {
    if (object.is_object()) return;
    throw Error(ErrorCode::bad_request,
                fmt::format("{} must be an object, not {}", path_.empty() ? "the request" : path_,
                            object.is_null() ? "null" : kind_of(object)),
                {{"field", path_}});
}

std::string RequestFields::path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void RequestFields::refuse(std::string_view name, const std::string& message, const std::string& remedy) const {
    throw Error(ErrorCode::bad_request, fmt::format("{}: {}", path_of(name), message), {{"field", path_of(name)}},
                remedy);
}

const nlohmann::ordered_json* RequestFields::find(std::string_view name) const {
    const auto found = object_.find(std::string(name));
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> RequestFields::text(std::string_view name) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(name, "a string is expected, not " + kind_of(*value));
    return value->get<std::string>();
}

std::optional<bool> RequestFields::flag(std::string_view name) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(name, "true or false is expected, not " + kind_of(*value));
    return value->get<bool>();
}

std::optional<int64_t> RequestFields::whole(std::string_view name, int64_t smallest, int64_t largest) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer()) refuse(name, "a whole number is expected, not " + kind_of(*value));
    const bool is_huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    const int64_t result = is_huge ? INT64_MAX : value->get<int64_t>();
    if (result < smallest || result > largest || is_huge) {
        refuse(name, fmt::format("{} is not between {} and {}", value->dump(), smallest, largest));
    }
    return result;
}

std::optional<double> RequestFields::number(std::string_view name, double smallest, double largest) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) refuse(name, "a number is expected, not " + kind_of(*value));
    const auto result = value->get<double>();
    if (!(result >= smallest && result <= largest)) {
        refuse(name, fmt::format("{} is not between {} and {}", value->dump(), smallest, largest));
    }
    return result;
}

const nlohmann::ordered_json* RequestFields::list(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_array()) refuse(name, "a list is expected, not " + kind_of(*value));
    return value;
}

const nlohmann::ordered_json* RequestFields::object(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_object()) refuse(name, "an object is expected, not " + kind_of(*value));
    return value;
}

std::string RequestFields::required_text(std::string_view name) const {
    auto value = text(name);
    if (!value) refuse(name, "is missing", "give a string");
    return *std::move(value);
}

const nlohmann::ordered_json& RequestFields::required_list(std::string_view name) const {
    const auto* value = list(name);
    if (value == nullptr) refuse(name, "is missing", "give a list");
    return *value;
}

}  // namespace gemmatrace::server
