// Reads normalizer, pre_tokenizer, decoder, model settings and post_processor, following the deserialisers of
// tokenizers 0.22.2.
#include "text/tokenizer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace gemmatrace::text {
namespace {

constexpr size_t kMaxSteps = 64;
constexpr size_t kMaxPatternBytes = 1024;
constexpr size_t kMaxGrowth = 64;  // how many times longer the steps of one part may make a text

// A part with its Sequences unfolded.
std::vector<Fields> steps_of(const Fields& file, std::string_view part, std::string_view list) {
    std::vector<Fields> steps;
    const nlohmann::json* whole = file.optional_member(part);
    if (whole == nullptr) return steps;
    std::vector<Fields> open{Fields(*whole, file.path_of(part))};  // a stack: the next step is at its end
    while (!open.empty()) {
        const Fields step = open.back();
        open.pop_back();
        if (step.string("type") != "Sequence") {
            steps.push_back(step);
            continue;
        }
        step.allow_only({"type", list});
        const nlohmann::json& inner = step.member(list);
        const std::string path = step.path_of(list);
        if (!inner.is_array()) reject_field(path, "this is not a list");
        if (inner.size() + open.size() + steps.size() > kMaxSteps) {
            refuse_field(path, fmt::format("more than {} steps", kMaxSteps));
        }
        for (size_t index = inner.size(); index-- > 0;)
            open.emplace_back(inner[index], fmt::format("{}[{}]", path, index));
    }
    return steps;
}

[[noreturn]] void refuse_type(const Fields& step) {
    refuse_field(step.path_of("type"), fmt::format("the type {} is not supported here", step.string("type")));
}

// The text a pattern stands for: {"String": …}, or a {"Regex": …} that means just its own text.
std::string read_pattern(const Fields& step) {
    const Fields pattern(step.member("pattern"), step.path_of("pattern"));
    pattern.allow_only({"String", "Regex"});
    const std::optional<std::string> regex = pattern.optional_string("Regex");
    if (regex && pattern.optional_member("String") != nullptr) reject_field(pattern.path(), "there are two patterns");
    if (regex && regex->find_first_of("\\^$.|?*+()[]{}") != std::string::npos) {
        refuse_field(pattern.path_of("Regex"), "a regular expression is not supported here");
    }
    std::string text = regex ? *regex : pattern.string("String");
    if (text.empty()) refuse_field(pattern.path(), "an empty pattern is not supported here");
    if (text.size() > kMaxPatternBytes) {
        refuse_field(pattern.path(),
                     fmt::format("the pattern has {} bytes, {} are allowed", text.size(), kMaxPatternBytes));
    }
    return text;
}

// Exactly one character.
std::string read_character(const Fields& step, std::string_view name) {
    std::string text = step.string(name);
    if (text.empty() || static_cast<size_t>(decode_utf8(text, 0).length) != text.size()) {
        reject_field(step.path_of(name), "this is not one character");
    }
    return text;
}

// Refuses steps that together could blow a text up.
class Growth {
  public:
    void add(const Fields& step, size_t from_bytes, size_t to_bytes) {
        factor_ *= to_bytes > from_bytes ? (to_bytes + from_bytes - 1) / from_bytes : 1;
        if (factor_ > kMaxGrowth) {
            refuse_field(step.path(), fmt::format("the steps can make a text more than {} times as long", kMaxGrowth));
        }
    }

  private:
    size_t factor_ = 1;
};

SplitBehavior read_behavior(const Fields& step) {
    const std::string name = step.string("behavior");
    if (name == "Removed") return SplitBehavior::removed;
    if (name == "Isolated") return SplitBehavior::isolated;
    if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (name == "Contiguous") return SplitBehavior::contiguous;
    reject_field(step.path_of("behavior"), "this behaviour does not exist");
}

// The scheme of a Metaspace step, also in the older form with add_prefix_space.
PrependScheme read_prepend_scheme(const Fields& step) {
    const std::string name = step.optional_string("prepend_scheme").value_or("always");
    if (name != "always" && name != "never" && name != "first") {
        reject_field(step.path_of("prepend_scheme"), "this scheme does not exist");
    }
    if (!step.optional_boolean("add_prefix_space").value_or(true)) {
        if (name != "never") reject_field(step.path_of("add_prefix_space"), "this contradicts prepend_scheme");
        return PrependScheme::never;
    }
    if (name == "never") return PrependScheme::never;
    return name == "first" ? PrependScheme::first : PrependScheme::always;
}

PreTokenizerStep read_metaspace(const Fields& step) {
    step.allow_only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    PreTokenizerStep metaspace;
    metaspace.kind = PreTokenizerStep::Kind::metaspace;
    metaspace.pattern = read_character(step, "replacement");
    metaspace.prepend_scheme = read_prepend_scheme(step);
    metaspace.is_cutting = step.optional_boolean("split").value_or(true);
    return metaspace;
}

DecoderStep read_decoder_step(const Fields& step, Growth& growth) {
    const std::string type = step.string("type");
    DecoderStep read;
    if (type == "Replace") {
        step.allow_only({"type", "pattern", "content"});
        read.kind = DecoderStep::Kind::replace;
        read.pattern = read_pattern(step);
        read.content = step.string("content");
        growth.add(step, read.pattern.size(), read.content.size());
    } else if (type == "ByteFallback" || type == "Fuse") {
        step.allow_only({"type"});
        read.kind = type == "Fuse" ? DecoderStep::Kind::fuse : DecoderStep::Kind::byte_fallback;
    } else if (type == "Strip") {
        step.allow_only({"type", "content", "start", "stop"});
        read.kind = DecoderStep::Kind::strip;
        read.pattern = read_character(step, "content");
        read.start = step.number("start");
        read.stop = step.number("stop");
    } else if (type == "Metaspace") {
        const PreTokenizerStep metaspace = read_metaspace(step);
        read.kind = DecoderStep::Kind::metaspace;
        read.pattern = metaspace.pattern;
        read.drops_first = metaspace.prepend_scheme != PrependScheme::never;
    } else {
        refuse_type(step);
    }
    return read;
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const Fields& file) {
    std::vector<NormalizerStep> steps;
    Growth growth;
    for (const Fields& step : steps_of(file, "normalizer", "normalizers")) {
        const std::string type = step.string("type");
        NormalizerStep read;
        if (type == "Replace") {
            step.allow_only({"type", "pattern", "content"});
            read.pattern = read_pattern(step);
            read.content = step.string("content");
        } else if (type == "Prepend") {
            step.allow_only({"type", "prepend"});
            read.kind = NormalizerStep::Kind::prepend;
            read.content = step.string("prepend");
        } else {
            refuse_type(step);
        }
        growth.add(step, std::max<size_t>(read.pattern.size(), 1), read.content.size());
        steps.push_back(std::move(read));
    }
    return steps;
}

std::vector<PreTokenizerStep> read_pre_tokenizer(const Fields& file, bool has_normalizer) {
    std::vector<PreTokenizerStep> steps;
    for (const Fields& step : steps_of(file, "pre_tokenizer", "pretokenizers")) {
        const std::string type = step.string("type");
        PreTokenizerStep read;
        if (type == "Split") {
            step.allow_only({"type", "pattern", "behavior", "invert"});
            read.pattern = read_pattern(step);
            read.behavior = read_behavior(step);
            read.is_inverted = step.boolean("invert");
        } else if (type == "Metaspace") {
            read = read_metaspace(step);
            // "first" asks where a stretch began in the input, which is only plain while nothing has moved text.
            if (read.prepend_scheme == PrependScheme::first && (has_normalizer || !steps.empty())) {
                refuse_field(step.path_of("prepend_scheme"), "the scheme first is supported only as the first step");
            }
        } else {
            refuse_type(step);
        }
        steps.push_back(std::move(read));
    }
    return steps;
}

Decoder read_decoder(const Fields& file) {
    if (file.optional_member("decoder") == nullptr) return Decoder();
    std::vector<DecoderStep> steps;
    Growth growth;
    bool is_fused = false;
    for (const Fields& step : steps_of(file, "decoder", "decoders")) {
        DecoderStep read = read_decoder_step(step, growth);
        if (read.kind == DecoderStep::Kind::byte_fallback && is_fused) {
            refuse_field(step.path_of("type"), "ByteFallback behind Fuse is not supported");
        }
        is_fused = is_fused || read.kind == DecoderStep::Kind::fuse;
        steps.push_back(std::move(read));
    }
    return Decoder(std::move(steps));
}

BpeSettings read_bpe_settings(const Fields& file) {
    const Fields model(file.member("model"), "model");
    const std::optional<std::string> type = model.optional_string("type");  // the oldest files have none
    if (type && *type != "BPE") refuse_type(model);
    model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges"});
    const nlohmann::json* dropout = model.optional_member("dropout");
    if (dropout != nullptr && *dropout != 0)
        refuse_field("model.dropout", "random dropping of merges is not supported");
    for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (!model.optional_string(affix).value_or("").empty()) {
            refuse_field(model.path_of(affix), "pieces with an affix are not supported");
        }
    }
    return {model.optional_string("unk_token"), model.optional_boolean("fuse_unk").value_or(false),
            model.optional_boolean("byte_fallback").value_or(false),
            model.optional_boolean("ignore_merges").value_or(false)};
}

void check_remaining_parts(const Fields& file) {
    file.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
    if (file.optional_string("version").value_or("1.0") != "1.0") refuse_field("version", "only version 1.0 is known");
    if (file.optional_member("truncation") != nullptr) {
        refuse_field("truncation", "a tokenizer.json that cuts texts is not supported");
    }
    if (const nlohmann::json* padding = file.optional_member("padding")) {
        const Fields fields(*padding, "padding");
        // Padding to the longest of a batch does nothing to a single text.
        if (fields.member("strategy") != "BatchLongest" || fields.optional_member("pad_to_multiple_of") != nullptr) {
            refuse_field("padding", "a tokenizer.json that pads texts is not supported");
        }
    }
    // What it adds are special tokens, and those are never added here.
    for (const Fields& step : steps_of(file, "post_processor", "processors")) {
        if (step.string("type") != "TemplateProcessing") refuse_type(step);
    }
}

}  // namespace gemmatrace::text
