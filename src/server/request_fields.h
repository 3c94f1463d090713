// Members of a request's JSON object, read with their types: null is absent, a wrong type or range is an error that
// names the field.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gemmatrace::server {

class RequestFields {
  public:
    // `path` is how errors name the object, e.g. "messages[2]"; empty for the request itself. The object must outlive
    // the fields. Throws Error(bad_request) when it is no object.
    RequestFields(const nlohmann::ordered_json& object, std::string path);

    // The member, or null when absent or null.
    const nlohmann::ordered_json* find(std::string_view name) const;

    // Each throws Error(bad_request) for another type, and where limits are given for a value outside of them.
    std::optional<std::string> text(std::string_view name) const;
    std::optional<bool> flag(std::string_view name) const;
    std::optional<int64_t> whole(std::string_view name, int64_t smallest, int64_t largest) const;
    std::optional<double> number(std::string_view name, double smallest, double largest) const;
    const nlohmann::ordered_json* list(std::string_view name) const;
    const nlohmann::ordered_json* object(std::string_view name) const;

    // The same, but absent is an error too.
    std::string required_text(std::string_view name) const;
    const nlohmann::ordered_json& required_list(std::string_view name) const;

    std::string path_of(std::string_view name) const;
    // Throws Error(bad_request) naming the member.
    [[noreturn]] void refuse(std::string_view name, const std::string& message, const std::string& remedy = {}) const;

  private:
    const nlohmann::ordered_json& object_;
    std::string path_;
};

}  // namespace gemmatrace::server
