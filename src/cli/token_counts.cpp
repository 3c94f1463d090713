// Digits, an optional K, commas between them.
#include "cli/token_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"

namespace gemmatrace::cli {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;

int64_t parse_token_count(std::string_view text, const char* option) {
    std::string_view digits = text;
    const bool is_kilo = digits.ends_with('K') || digits.ends_with('k');
    if (is_kilo) digits.remove_suffix(1);
    int64_t tokens = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), tokens);
    const bool is_number = fault == std::errc() && end == digits.data() + digits.size();
    if (is_number && is_kilo && tokens <= kMostTokens) tokens *= 1024;
    if (is_number && tokens >= 1 && tokens <= kMostTokens) return tokens;
    throw Error(ErrorCode::bad_request, fmt::format("\"{}\" is no number of tokens", printable(text)),
                {{"field", option}}, "write numbers with commas between them, e.g. 512,2K,8K");
}

}  // namespace

std::vector<int64_t> parse_token_counts(std::string_view text, const char* option) {
    std::vector<int64_t> counts;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        counts.push_back(parse_token_count(text.substr(begin, end - begin), option));
        begin = end + 1;
    }
    std::ranges::sort(counts);
    const auto doubles = std::ranges::unique(counts);
    counts.erase(doubles.begin(), doubles.end());
    return counts;
}

}  // namespace gemmatrace::cli
