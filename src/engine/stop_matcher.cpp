// Search for stop strings in text that arrives in pieces.
#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace gemmatrace::engine {
namespace {

// Bytes at the end of `text` that are the beginning of one of the strings, the longest such stretch.
size_t possible_tail(std::string_view text, const std::vector<std::string>& stop_strings) {
    size_t longest = 0;
    for (const std::string& stop : stop_strings) {
        size_t length = std::min(stop.size() - 1, text.size());
        while (length > longest && text.substr(text.size() - length) != std::string_view(stop).substr(0, length)) {
            --length;
        }
        longest = std::max(longest, length);
    }
    return longest;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stop_strings) : stop_strings_(std::move(stop_strings)) {
    std::erase_if(stop_strings_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
    if (match_) return {};
    if (stop_strings_.empty()) return std::string(text);
    held_ += text;

    size_t first_end = std::string::npos;
    const std::string* first = nullptr;
    for (const std::string& stop : stop_strings_) {
        const size_t begin = held_.find(stop);
        if (begin == std::string::npos) continue;
        const size_t end = begin + stop.size();
        if (end < first_end || (end == first_end && stop.size() > first->size())) {
            first_end = end;
            first = &stop;
        }
    }
    if (first != nullptr) {
        match_ = *first;
        std::string shown = held_.substr(0, first_end - first->size());
        held_.clear();
        return shown;
    }

    const size_t tail = possible_tail(held_, stop_strings_);
    std::string shown = held_.substr(0, held_.size() - tail);
    held_.erase(0, shown.size());
    return shown;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace gemmatrace::engine
