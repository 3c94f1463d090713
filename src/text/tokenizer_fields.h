// Reading the small parts of tokenizer.json field by field: a field that is missing, wrong or unknown is an error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gemmatrace::text {

// An object of the file and the path that leads to it, e.g. "decoder.decoders[2]".
class Fields {
  public:
    // Throws Error(corrupt) when the value is no object.
    Fields(const nlohmann::json& value, std::string path);

    // Throws Error(unsupported) when the object has a field that is not named here.
    void allow_only(std::initializer_list<std::string_view> names) const;

    // A required member. Throw Error(corrupt) when it is missing or of another type.
    const nlohmann::json& member(std::string_view name) const;
    std::string string(std::string_view name) const;
    bool boolean(std::string_view name) const;
    uint64_t number(std::string_view name) const;
    // A member that may be absent or null.
    const nlohmann::json* optional_member(std::string_view name) const;
    std::optional<std::string> optional_string(std::string_view name) const;
    std::optional<bool> optional_boolean(std::string_view name) const;

    // Path of a member.
    std::string path_of(std::string_view name) const;
    const std::string& path() const { return path_; }

  private:
    const nlohmann::json& value_;
    std::string path_;
};

// Throws Error(unsupported) for a field whose value this program does not understand.
[[noreturn]] void refuse_field(const std::string& path, const std::string& message);
// Throws Error(corrupt) for a field whose value is not what the format asks for.
[[noreturn]] void reject_field(const std::string& path, const std::string& message);

}  // namespace gemmatrace::text
