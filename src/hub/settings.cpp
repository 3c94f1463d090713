// Reading the environment as Hugging Face's libraries do, with every value checked.
#include "hub/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/printable.h"

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPublicHub = "https://huggingface.co";
constexpr size_t kLongestToken = 4096;
constexpr size_t kLongestEndpoint = 1000;
constexpr int kLongestStallSeconds = 3600;

// Set and not empty: an empty variable counts as none.
std::optional<std::string> variable(const Environment& environment, const char* name) {
    const char* value = environment(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
}

std::string trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

bool is_printable_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string checked_endpoint(std::string endpoint, const std::string& field) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    const bool has_scheme = endpoint.starts_with("https://") || endpoint.starts_with("http://");
    const size_t host = endpoint.find("//") + 2;
    if (has_scheme && endpoint.size() > host && endpoint.size() <= kLongestEndpoint && is_printable_ascii(endpoint) &&
        endpoint.find_first_of("@?#\\\"'<>") == std::string::npos) {
        return endpoint;
    }
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is no address of a hub", printable(endpoint)),
                {{"field", field}}, "give it as https://host or http://host:port");
}

// Header lines are made of the token, so nothing in it may end one.
std::string checked_token(std::string_view text, const std::string& field) {
    std::string token = trimmed(text);
    if (!token.empty() && token.size() <= kLongestToken && is_printable_ascii(token)) return token;
    throw Error(ErrorCode::bad_request, "the access token is empty, too long, or holds characters no token has",
                {{"field", field}}, "copy it again from the hub's settings; it is not shown here");
}

fs::path expanded(const Environment& environment, const std::string& path) {
    const auto home = variable(environment, "HOME");
    if (home && path == "~") return *home;
    if (home && path.starts_with("~/")) return fs::path(*home) / path.substr(2);
    return path;
}

// The folder of Hugging Face's libraries.
fs::path hub_home(const Environment& environment) {
    if (const auto home = variable(environment, "HF_HOME")) return expanded(environment, *home);
    if (const auto cache = variable(environment, "XDG_CACHE_HOME"))
        return expanded(environment, *cache) / "huggingface";
    if (const auto home = variable(environment, "HOME")) return fs::path(*home) / ".cache" / "huggingface";
    throw Error(ErrorCode::bad_request, "there is no place for fetched checkpoints: HOME is not set",
                {{"field", "HF_HOME"}}, "set HF_HOME to a folder");
}

fs::path cache_folder(const Environment& environment) {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
        if (const auto folder = variable(environment, name)) return expanded(environment, *folder);
    }
    return hub_home(environment) / "hub";
}

std::optional<std::string> find_token(const Environment& environment) {
    for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
        if (const auto token = variable(environment, name)) return checked_token(*token, name);
    }
    const auto named = variable(environment, "HF_TOKEN_PATH");
    const fs::path path = named ? expanded(environment, *named) : hub_home(environment) / "token";
    std::error_code failure;
    if (!fs::is_regular_file(path, failure)) return std::nullopt;
    const std::string text = read_file(path, kLongestToken);
    if (trimmed(text).empty()) return std::nullopt;
    return checked_token(text, path.string());
}

bool is_on(const Environment& environment, const char* name) {
    const auto value = variable(environment, name);
    if (!value) return false;
    std::string lower = *value;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    constexpr std::array<std::string_view, 4> kYes{"1", "on", "yes", "true"};
    return std::find(kYes.begin(), kYes.end(), lower) != kYes.end();
}

int stall_seconds(const Environment& environment, int otherwise) {
    const auto text = variable(environment, "HF_HUB_DOWNLOAD_TIMEOUT");
    if (!text) return otherwise;
    int seconds = 0;
    const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), seconds);
    if (fault == std::errc{} && end == text->data() + text->size() && seconds >= 1 && seconds <= kLongestStallSeconds) {
        return seconds;
    }
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is no number of seconds", printable(*text)),
                {{"field", "HF_HUB_DOWNLOAD_TIMEOUT"}}, fmt::format("use 1 to {}", kLongestStallSeconds));
}

}  // namespace

Settings read_settings(const Environment& environment, const SettingsOverrides& overrides) {
    Settings settings;
    const auto endpoint = variable(environment, "HF_ENDPOINT");
    settings.endpoint = overrides.endpoint
                            ? checked_endpoint(*overrides.endpoint, "--endpoint")
                            : checked_endpoint(endpoint.value_or(std::string(kPublicHub)), "HF_ENDPOINT");
    settings.cache = cache_folder(environment);
    settings.token = overrides.token ? checked_token(*overrides.token, "--token") : find_token(environment);
    settings.is_offline = is_on(environment, "HF_HUB_OFFLINE");
    settings.stall_seconds = stall_seconds(environment, settings.stall_seconds);
    settings.certificates = variable(environment, "SSL_CERT_FILE").value_or("");
    return settings;
}

Settings read_settings(const SettingsOverrides& overrides) {
    return read_settings([](const char* name) { return std::getenv(name); }, overrides);
}

}  // namespace gemmatrace::hub
