// Normaliser and pre-tokeniser steps (source: normalizers/, pre_tokenizers/ and NormalizedString::split of tokenizers
// 0.22.2).
#include "text/tokenizer_pipeline.h"

#include <algorithm>
#include <utility>

namespace gemmatrace::text {
namespace {

// A part of a text, and whether it is a delimiter.
struct Part {
    size_t begin;
    size_t end;
    bool is_delimiter;
};

// The occurrences of a pattern and the text between them, in order, without empty parts.
std::vector<Part> find_parts(std::string_view text, std::string_view pattern, bool is_inverted) {
    std::vector<Part> parts;
    size_t rest = 0;
    for (size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, rest)) {
        if (rest < at) parts.push_back({rest, at, is_inverted});
        rest = at + pattern.size();
        parts.push_back({at, rest, !is_inverted});
    }
    if (rest < text.size()) parts.push_back({rest, text.size(), is_inverted});
    return parts;
}

// Neighbours of one kind become one part.
std::vector<Part> join_contiguous(const std::vector<Part>& parts) {
    std::vector<Part> joined;
    for (const Part& part : parts) {
        if (!joined.empty() && joined.back().is_delimiter == part.is_delimiter) {
            joined.back().end = part.end;
        } else {
            joined.push_back(part);
        }
    }
    return joined;
}

// A delimiter goes to the part in front of it, except one that follows another delimiter.
std::vector<Part> merge_with_previous(const std::vector<Part>& parts) {
    std::vector<Part> merged;
    bool follows_delimiter = false;
    for (const Part& part : parts) {
        if (part.is_delimiter && !follows_delimiter && !merged.empty()) {
            merged.back().end = part.end;
        } else {
            merged.push_back(part);
        }
        follows_delimiter = part.is_delimiter;
    }
    return merged;
}

// A delimiter goes to the part behind it, except one in front of another delimiter.
std::vector<Part> merge_with_next(const std::vector<Part>& parts) {
    std::vector<Part> merged;
    bool precedes_delimiter = false;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->is_delimiter && !precedes_delimiter && !merged.empty()) {
            merged.back().begin = part->begin;
        } else {
            merged.push_back(*part);
        }
        precedes_delimiter = part->is_delimiter;
    }
    std::reverse(merged.begin(), merged.end());
    return merged;
}

void cut(const TextView& text, const PreTokenizerStep& step, SplitBehavior behavior, std::vector<TextView>& stretches) {
    std::vector<Part> parts = find_parts(text.text, step.pattern, step.is_inverted);
    if (behavior == SplitBehavior::removed) std::erase_if(parts, [](const Part& part) { return part.is_delimiter; });
    if (behavior == SplitBehavior::contiguous) parts = join_contiguous(parts);
    if (behavior == SplitBehavior::merged_with_previous) parts = merge_with_previous(parts);
    if (behavior == SplitBehavior::merged_with_next) parts = merge_with_next(parts);
    for (const Part& part : parts) stretches.push_back(text.slice(part.begin, part.end));
}

// The text with spaces marked and perhaps a mark in front.
OwnedText mark_spaces(const TextView& text, const PreTokenizerStep& step, bool starts_input) {
    OwnedText marked = replace_all(text, " ", step.pattern);
    const bool may_prepend =
        step.prepend_scheme == PrependScheme::always || (step.prepend_scheme == PrependScheme::first && starts_input);
    if (!may_prepend || marked.text.starts_with(step.pattern)) return marked;
    OwnedText whole = OwnedText::like(text);
    whole.append_instead(step.pattern, text, 0, 1);
    whole.append(marked.view(), 0, marked.text.size());
    return whole;
}

}  // namespace

OwnedText replace_all(const TextView& text, std::string_view pattern, std::string_view content) {
    OwnedText result = OwnedText::like(text);
    size_t rest = 0;
    for (size_t at = text.text.find(pattern); at != std::string_view::npos; at = text.text.find(pattern, rest)) {
        result.append(text, rest, at);
        rest = at + pattern.size();
        result.append_instead(content, text, at, rest);
    }
    result.append(text, rest, text.size());
    return result;
}

OwnedText Normalizer::apply(const TextView& text) const {
    OwnedText current = OwnedText::like(text);
    current.append(text, 0, text.size());
    for (const NormalizerStep& step : steps_) {
        if (step.kind == NormalizerStep::Kind::replace) {
            current = replace_all(current.view(), step.pattern, step.content);
        } else if (!current.text.empty()) {
            OwnedText longer = OwnedText::like(current.view());
            longer.append_instead(step.content, current.view(), 0, 1);
            longer.append(current.view(), 0, current.text.size());
            current = std::move(longer);
        }
    }
    return current;
}

std::vector<TextView> PreTokenizer::split(const TextView& text, bool starts_input,
                                          std::deque<OwnedText>& storage) const {
    std::vector<TextView> stretches;
    if (!text.empty()) stretches.push_back(text);
    for (const PreTokenizerStep& step : steps_) {
        std::vector<TextView> finer;
        bool is_first = starts_input;
        for (const TextView& stretch : stretches) {
            if (step.kind == PreTokenizerStep::Kind::split) {
                cut(stretch, step, step.behavior, finer);
            } else {
                const TextView marked = storage.emplace_back(mark_spaces(stretch, step, is_first)).view();
                if (step.is_cutting) {
                    cut(marked, step, SplitBehavior::merged_with_next, finer);
                } else {
                    finer.push_back(marked);
                }
            }
            is_first = false;
        }
        stretches = std::move(finer);
    }
    return stretches;
}

}  // namespace gemmatrace::text
