// The table of releases, and versions read out of whatever surrounds them.
#include "neuron/releases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace gemmatrace::neuron {
namespace {

constexpr std::string_view kOldIslpy = "2023.2.5";
constexpr std::string_view kNewIslpy = "2026.1";

constexpr std::array kReleases = {
    Release{"2.23", {2, 21, 37}, {2, 25, 57}, {2, 25, 65}, {2, 23, 9}, {2, 18, 121}, ""},
    Release{"2.24", {2, 22, 2}, {2, 26, 42}, {2, 26, 43}, {2, 24, 54}, {2, 19, 8089}, ""},
    Release{"2.25", {2, 23, 9}, {2, 27, 23}, {2, 27, 34}, {2, 25, 145}, {2, 20, 9961}, ""},
    Release{"2.26", {2, 24, 7}, {2, 28, 23}, {2, 28, 27}, {2, 26, 14}, {2, 21, 18209}, ""},
    Release{"2.26.1", {2, 24, 7}, {2, 28, 23}, {2, 28, 27}, {2, 26, 14}, {2, 21, 33363}, ""},
    Release{"2.27", {2, 25, 4}, {2, 29, 40}, {2, 29, 41}, {2, 27, 33}, {2, 22, 12471}, ""},
    Release{"2.28", {2, 26, 5}, {2, 30, 51}, {2, 30, 59}, {2, 28, 23}, {2, 23, 6484}, ""},
    Release{"2.29", {2, 27, 4}, {2, 31, 24}, {2, 31, 24}, {2, 29, 18}, {2, 24, 5133}, ""},
    Release{"2.29.1", {2, 27, 4}, {2, 31, 24}, {2, 31, 24}, {2, 29, 18}, {2, 24, 8799}, ""},
    Release{"2.30", {2, 28, 0}, {2, 32, 31}, {2, 32, 28}, {2, 30, 10}, {2, 25, 3371}, ""},
    Release{"2.31", {2, 29, 0}, {2, 33, 10}, {2, 33, 10}, {2, 31, 13}, {2, 26, 6360}, kOldIslpy},
    Release{"2.32", {2, 30, 2}, {2, 34, 10}, {2, 34, 10}, {2, 32, 28}, {2, 27, 5334}, kNewIslpy},
};

// Digits from `place` on as a number, which they leave `place` behind; nothing where there are none or too many.
std::optional<int32_t> number_at(std::string_view text, size_t& place) {
    int64_t value = 0;
    const size_t begin = place;
    while (place < text.size() && std::isdigit(static_cast<unsigned char>(text[place])) != 0 && place - begin < 9) {
        value = value * 10 + (text[place++] - '0');
    }
    if (place == begin) return std::nullopt;
    return static_cast<int32_t>(value);
}

std::optional<Version> version_at(std::string_view text, size_t place) {
    const auto major = number_at(text, place);
    if (!major || place >= text.size() || text[place] != '.') return std::nullopt;
    const auto minor = number_at(text, ++place);
    if (!minor) return std::nullopt;
    Version version{*major, *minor, 0};
    if (place < text.size() && text[place] == '.') {
        if (const auto patch = number_at(text, ++place)) version.patch = *patch;
    }
    return version;
}

}  // namespace

std::string Version::text() const { return fmt::format("{}.{}.{}", major, minor, patch); }

std::optional<Version> parse_version(std::string_view text) {
    for (size_t place = 0; place < text.size(); ++place) {
        const bool is_start = place == 0 || std::isalnum(static_cast<unsigned char>(text[place - 1])) == 0;
        if (!is_start) continue;
        if (const auto version = version_at(text, place)) return version;
    }
    return std::nullopt;
}

std::span<const Release> known_releases() { return kReleases; }

const Release* release_of_compiler(const Version& compiler) {
    const auto found = std::ranges::find(kReleases, compiler, &Release::compiler);
    return found == kReleases.end() ? nullptr : &*found;
}

std::string known_compilers_text() {
    std::string text;
    for (auto release = kReleases.rbegin(); release != kReleases.rend(); ++release) {
        text += fmt::format("{}{} (SDK {}{})", text.empty() ? "" : ", ", release->compiler.text(), release->sdk,
                            release->islpy.empty() ? "" : fmt::format(", islpy {}", release->islpy));
    }
    return text;
}

}  // namespace gemmatrace::neuron
