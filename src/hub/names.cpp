// What names may look like, and what they become in paths and addresses.
#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace gemmatrace::hub {
namespace {

constexpr size_t kLongestNamePart = 96;
constexpr size_t kLongestRevision = 200;
constexpr size_t kLongestFileName = 200;  // leaves room for an ending within the 255 of file systems
constexpr size_t kLongestBlobName = 128;
constexpr size_t kLongestPath = 4096;

// Without regard to the locale.
bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

bool has_control_characters(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
    });
}

bool is_name_part(std::string_view part) {
    return !part.empty() && part.size() <= kLongestNamePart && part != "." && part != ".." &&
           std::all_of(part.begin(), part.end(), is_name_character);
}

constexpr std::array<std::string_view, 12> kCheckpointFiles{
    "config.json",           "generation_config.json",   "tokenizer.json",
    "added_tokens.json",     "tokenizer_config.json",    "special_tokens_map.json",
    "chat_template.json",    "chat_template.jinja",      "model.safetensors.index.json",
    "processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"};

}  // namespace

bool is_repository_name(std::string_view text) {
    const size_t slash = text.find('/');
    if (slash == std::string_view::npos) return is_name_part(text);
    return is_name_part(text.substr(0, slash)) && is_name_part(text.substr(slash + 1));
}

void check_repository_name(std::string_view text) {
    if (is_repository_name(text)) return;
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is no name of a repository", printable(text)),
                {{"field", "REPO"}}, "name it as the hub does, e.g. google/gemma-4-E2B-it");
}

void check_revision(std::string_view revision) {
    const bool is_sound =
        !revision.empty() && revision.size() <= kLongestRevision && revision.front() != '/' && revision.back() != '/' &&
        revision.front() != '-' && revision.front() != '.' && revision.find("..") == std::string_view::npos &&
        revision.find("//") == std::string_view::npos && revision.find("/.") == std::string_view::npos &&
        std::all_of(revision.begin(), revision.end(), [](char c) {
            return is_name_character(c) || c == '/' || c == '+' || c == '@' || c == '=' || c == '#';
        });
    if (is_sound) return;
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is no name of a revision", printable(revision)),
                {{"field", "--revision"}}, "give a branch, a tag or a commit, e.g. main");
}

bool is_commit(std::string_view text) {
    return (text.size() == 40 || text.size() == 64) && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

bool is_blob_name(std::string_view text) {
    return !text.empty() && text.size() <= kLongestBlobName && text.front() != '.' &&
           std::all_of(text.begin(), text.end(), is_name_character);
}

bool is_checkpoint_file(std::string_view name) {
    if (name.find('/') != std::string_view::npos) return false;
    return name.ends_with(".safetensors") ||
           std::find(kCheckpointFiles.begin(), kCheckpointFiles.end(), name) != kCheckpointFiles.end();
}

bool is_honest_path(std::string_view path) {
    if (path.size() > kLongestPath || !is_valid_utf8(path) || has_control_characters(path)) return false;
    while (true) {
        const size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (part.empty() || part == "." || part == "..") return false;
        if (slash == std::string_view::npos) return true;
        path.remove_prefix(slash + 1);
    }
}

bool is_safe_file_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestFileName && name.front() != '.' && is_valid_utf8(name) &&
           !has_control_characters(name) && name.find_first_of("/\\") == std::string_view::npos;
}

std::string cache_folder_name(std::string_view repository) {
    std::string name = "models--";
    for (const char c : repository) name += c == '/' ? std::string("--") : std::string(1, c);
    return name;
}

std::string url_part(std::string_view text) {
    std::string encoded;
    for (const char c : text) {
        if (is_name_character(c) || c == '~') {
            encoded += c;
        } else {
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return encoded;
}

std::string url_repository(std::string_view repository) {
    const size_t slash = repository.find('/');
    if (slash == std::string_view::npos) return url_part(repository);
    return url_part(repository.substr(0, slash)) + "/" + url_part(repository.substr(slash + 1));
}

}  // namespace gemmatrace::hub
