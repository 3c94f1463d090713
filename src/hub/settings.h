// Where a hub is, what opens it, and where its files are kept: the environment variables that Hugging Face's libraries
// know, and what the command line says instead.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace gemmatrace::hub {

// The value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

// What the command line says; what it does not say comes from the environment.
struct SettingsOverrides {
    std::optional<std::string> endpoint;
    std::optional<std::string> token;
};

struct Settings {
    std::string endpoint;              // "https://huggingface.co", without a slash at the end
    std::filesystem::path cache;       // holds models--org--name
    std::optional<std::string> token;  // a secret: never shown, sent to the endpoint alone
    bool is_offline = false;
    int stall_seconds = 30;    // a transfer that stands still for so long has failed
    std::string certificates;  // file of trusted certificates; empty: the system's
};

// HF_ENDPOINT; HF_HUB_CACHE, HF_HOME or ~/.cache/huggingface (XDG_CACHE_HOME); HF_TOKEN, HF_TOKEN_PATH or the file
// "token" of that home; HF_HUB_OFFLINE; HF_HUB_DOWNLOAD_TIMEOUT; SSL_CERT_FILE. Throws Error(bad_request) naming the
// variable or option that cannot be used; a token is never part of the error.
Settings read_settings(const Environment& environment, const SettingsOverrides& overrides = {});

// The same from this process's environment.
Settings read_settings(const SettingsOverrides& overrides = {});

}  // namespace gemmatrace::hub
