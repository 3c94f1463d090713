// Reads regular expressions, settles their anchors and turns them into nodes.
#include "engine/constraint/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace gemmatrace::engine {
namespace {

constexpr int kMaxGroups = 64;  // one inside the other

// A shorthand or a class item. Engines differ on which characters beyond ASCII belong to \d, \w and \s, so a class
// takes what all of them include, and a negated class leaves out what any of them includes.
struct ClassItem {
    CodePointSet sure;
    CodePointSet possible;
};

ClassItem certain(CodePointSet set) { return {set, std::move(set)}; }

ClassItem negated(const ClassItem& item) { return {item.possible.complement(), item.sure.complement()}; }

const CodePointSet& line_breaks() {
    static const CodePointSet kBreaks{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    return kBreaks;
}

ClassItem shorthand(char letter) {
    static const CodePointSet kDigits{{'0', '9'}};
    static const CodePointSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const CodePointSet kSpace{{'\t', '\r'}, {' ', ' '}};
    static const CodePointSet kAnySpace{{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                        {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const auto with_the_rest = [](CodePointSet set) {
        set.add(0x80, 0x10FFFF);
        return set;
    };
    switch (letter) {
        case 'd':
            return {kDigits, with_the_rest(kDigits)};
        case 'w':
            return {kWord, with_the_rest(kWord)};
        default:
            return {kSpace, kAnySpace};
    }
}

class PatternParser {
  public:
    PatternParser(std::string_view text, const ConstraintLimits& limits) : text_(text), limits_(limits) {}

    Pattern parse() {
        Pattern pattern = choice();
        if (!is_at_end()) malformed("a closing parenthesis has no opening one");
        return pattern;
    }

  private:
    bool is_at_end() const { return at_ == text_.size(); }
    bool is_next(char letter) const { return !is_at_end() && text_[at_] == letter; }
    bool take(std::string_view letters) {
        if (!text_.substr(at_).starts_with(letters)) return false;
        at_ += letters.size();
        return true;
    }
    [[noreturn]] void fail(ErrorCode code, std::string message) const {
        throw Error(code, std::move(message), {{"pattern", std::string(text_)}, {"at byte", std::to_string(at_)}},
                    "use literals, classes, groups, alternatives and repeats");
    }
    [[noreturn]] void malformed(std::string message) const { fail(ErrorCode::bad_request, std::move(message)); }
    [[noreturn]] void refuse(std::string_view what) const {
        fail(ErrorCode::unsupported, fmt::format("a pattern with {} cannot be enforced", what));
    }

    uint32_t character() {
        const Utf8Step step = decode_utf8(text_, at_);
        if (!step.is_valid) malformed("a pattern must be UTF-8");
        at_ += static_cast<size_t>(step.length);
        return step.code_point;
    }

    Pattern choice() {
        if (++groups_ > kMaxGroups) malformed(fmt::format("groups are nested more than {} deep", kMaxGroups));
        Pattern result;
        result.kind = Pattern::Kind::choice;
        do {
            result.parts.push_back(sequence());
        } while (take("|"));
        --groups_;
        return result.parts.size() == 1 ? std::move(result.parts.front()) : result;
    }

    Pattern sequence() {
        Pattern result;
        while (!is_at_end() && !is_next('|') && !is_next(')')) result.parts.push_back(repeated());
        return result.parts.size() == 1 ? std::move(result.parts.front()) : result;
    }

    Pattern repeated() {
        Pattern part = atom();
        const bool is_anchor = part.kind == Pattern::Kind::begin || part.kind == Pattern::Kind::end;
        int count = 0;
        while (const std::optional<std::pair<uint64_t, uint64_t>> times = quantifier()) {
            if (is_anchor || ++count > 1) malformed("there is nothing to repeat here");
            Pattern result;
            result.kind = Pattern::Kind::repeat;
            result.parts.push_back(std::move(part));
            std::tie(result.min, result.max) = *times;
            part = std::move(result);
        }
        return part;
    }

    // A quantifier, lazy or not: which match is preferred does not change which texts match.
    std::optional<std::pair<uint64_t, uint64_t>> quantifier() {
        std::optional<std::pair<uint64_t, uint64_t>> times;
        if (take("*")) {
            times = {0, kUnbounded};
        } else if (take("+")) {
            times = {1, kUnbounded};
        } else if (take("?")) {
            times = {0, 1};
        } else if (is_next('{')) {
            times = braces();
        }
        if (times && is_next('+')) refuse("possessive repeats");
        if (times) take("?");
        return times;
    }

    std::pair<uint64_t, uint64_t> braces() {
        take("{");
        const uint64_t min = number();
        uint64_t max = min;
        if (take(",")) max = is_next('}') ? kUnbounded : number();
        if (!take("}")) malformed("a repeat must be {n}, {n,} or {n,m}");
        if (min > max) malformed("a repeat's least number is above its greatest");
        return {min, max};
    }

    uint64_t number() {
        const size_t begin = at_;
        uint64_t value = 0;
        for (; !is_at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
            value = value * 10 + static_cast<uint64_t>(text_[at_] - '0');
            if (value > limits_.max_repeat) {
                malformed(fmt::format("a repeat of more than {} times is too large", limits_.max_repeat));
            }
        }
        if (at_ == begin) malformed("a repeat must be {n}, {n,} or {n,m}; write \\{ for a brace");
        return value;
    }

    static Pattern characters(CodePointSet set) {
        Pattern result;
        result.kind = Pattern::Kind::characters;
        result.set = std::move(set);
        return result;
    }

    Pattern atom() {
        if (take("(")) return group();
        if (take("[")) return characters(bracketed());
        if (take(".")) return characters(line_breaks().complement());
        if (take("^") || take("$")) {
            Pattern anchor;
            anchor.kind = text_[at_ - 1] == '^' ? Pattern::Kind::begin : Pattern::Kind::end;
            return anchor;
        }
        if (is_next('*') || is_next('+') || is_next('?') || is_next('{')) malformed("there is nothing to repeat here");
        if (take("\\")) return characters(escape(false).sure);
        const uint32_t letter = character();
        return characters({{letter, letter}});
    }

    Pattern group() {
        if (take("?")) {
            if (is_next('=') || is_next('!')) refuse("look-ahead");
            if (take("P<") || take("<")) {
                if (is_next('=') || is_next('!')) refuse("look-behind");
                const size_t close = text_.find('>', at_);
                if (close == std::string_view::npos) malformed("a group's name does not end");
                at_ = close + 1;
            } else if (!take(":")) {
                refuse("flags or conditions");
            }
        }
        Pattern inner = choice();
        if (!take(")")) malformed("a group does not end");
        return inner;
    }

    CodePointSet bracketed() {
        const bool is_negated = take("^");
        std::vector<CodePointSet::Range> ranges;
        while (!is_next(']')) {
            if (is_at_end()) malformed("a class does not end");
            std::optional<uint32_t> first;
            ClassItem item = class_item(first);
            if (first && is_next('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                std::optional<uint32_t> last;
                class_item(last);
                if (!last || *last < *first) malformed("a range of a class must go from a character up to another");
                item = certain({{*first, *last}});
            }
            const auto& added = (is_negated ? item.possible : item.sure).ranges();
            ranges.insert(ranges.end(), added.begin(), added.end());
        }
        take("]");
        CodePointSet set(std::move(ranges));
        return is_negated ? set.complement() : set;
    }

    // One item of a class; `single` is set when it is one character and so may begin or end a range.
    ClassItem class_item(std::optional<uint32_t>& single) {
        ClassItem item;
        if (take("\\")) {
            item = escape(true);
            const auto& ranges = item.sure.ranges();
            const bool is_single = ranges.size() == 1 && ranges[0].first == ranges[0].second;
            if (is_single && item.sure == item.possible) single = ranges[0].first;
        } else {
            single = character();
            item = certain({{*single, *single}});
        }
        return item;
    }

    // What follows a backslash.
    ClassItem escape(bool is_in_class) {
        if (is_at_end()) malformed("a pattern must not end in a backslash");
        const char letter = text_[at_];
        const std::string_view kShorthands = "dwsDWS";
        if (kShorthands.find(letter) != std::string_view::npos) {
            ++at_;
            const auto lower = static_cast<char>(letter | 0x20);
            return letter == lower ? shorthand(lower) : negated(shorthand(lower));
        }
        if (letter >= '1' && letter <= '9') refuse("back references");
        if (letter == 'k') refuse("back references");
        if (letter == 'p' || letter == 'P') refuse("Unicode properties");
        if (!is_in_class && (letter == 'b' || letter == 'B')) refuse("word borders");
        if (!is_in_class && (letter == 'A' || letter == 'Z' || letter == 'z')) refuse("the anchor \\A, \\Z or \\z");
        const uint32_t code_point = escaped_character();
        return certain({{code_point, code_point}});
    }

    uint32_t escaped_character() {
        const uint32_t letter = character();
        switch (letter) {
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'f':
                return '\f';
            case 'v':
                return '\v';
            case 'b':  // in a class
                return '\b';
            case '0':
                if (!is_at_end() && text_[at_] >= '0' && text_[at_] <= '9') refuse("octal escapes");
                return 0;
            case 'x':
                return hex(2);
            case 'u':
                return unicode_escape();
            case 'c':
                if (is_at_end()) malformed("\\c needs a letter");
                return static_cast<unsigned char>(text_[at_++]) & 0x1F;
            default:
                break;
        }
        const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (is_letter) malformed(fmt::format("\\{} is no escape", static_cast<char>(letter)));
        return letter;
    }

    uint32_t hex(size_t digits) {
        uint32_t value = 0;
        for (size_t index = 0; index < digits; ++index) {
            const std::string_view kDigits = "0123456789abcdef";
            const size_t digit =
                is_at_end() ? std::string_view::npos : kDigits.find(static_cast<char>(text_[at_] | 0x20));
            if (digit == std::string_view::npos) malformed("an escape has too few hexadecimal digits");
            value = value * 16 + static_cast<uint32_t>(digit);
            ++at_;
        }
        return value;
    }

    uint32_t unicode_escape() {
        uint32_t value = 0;
        if (take("{")) {
            while (!take("}")) {
                value = value * 16 + hex(1);
                if (value > 0x10FFFF) malformed("an escape is beyond U+10FFFF");
            }
        } else {
            value = hex(4);
            const bool is_high = value >= 0xD800 && value <= 0xDBFF;
            if (is_high && take("\\u")) {
                const uint32_t low = hex(4);
                if (low < 0xDC00 || low > 0xDFFF) malformed("a surrogate escape stands alone");
                value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            }
        }
        if (value >= 0xD800 && value <= 0xDFFF) malformed("a surrogate escape stands alone");
        return value;
    }

    std::string_view text_;
    const ConstraintLimits& limits_;
    size_t at_ = 0;
    int groups_ = 0;
};

Pattern any_text() {
    Pattern character;
    character.kind = Pattern::Kind::characters;
    character.set = CodePointSet::all();
    Pattern text;
    text.kind = Pattern::Kind::repeat;
    text.max = kUnbounded;
    text.parts.push_back(std::move(character));
    return text;
}

bool has_anchor(const Pattern& pattern) {
    if (pattern.kind == Pattern::Kind::begin || pattern.kind == Pattern::Kind::end) return true;
    return std::any_of(pattern.parts.begin(), pattern.parts.end(), has_anchor);
}

// Drops the anchors at the ends of each alternative and lets any text stand where one is missing.
Pattern settle_anchors(Pattern pattern, PatternScope scope, std::string_view text) {
    if (pattern.kind == Pattern::Kind::choice) {
        for (Pattern& part : pattern.parts) part = settle_anchors(std::move(part), scope, text);
        return pattern;
    }
    Pattern sequence;
    if (pattern.kind == Pattern::Kind::sequence) {
        sequence = std::move(pattern);
    } else {
        sequence.parts.push_back(std::move(pattern));
    }
    std::vector<Pattern>& parts = sequence.parts;
    const bool is_begun = !parts.empty() && parts.front().kind == Pattern::Kind::begin;
    if (is_begun) parts.erase(parts.begin());
    const bool is_ended = !parts.empty() && parts.back().kind == Pattern::Kind::end;
    if (is_ended) parts.pop_back();
    const bool is_bare_choice = !is_begun && !is_ended && parts.size() == 1 && has_anchor(parts.front()) &&
                                parts.front().kind == Pattern::Kind::choice;
    if (is_bare_choice) return settle_anchors(std::move(parts.front()), scope, text);
    if (has_anchor(sequence)) {
        throw Error(ErrorCode::unsupported, "a pattern with ^ or $ in its middle cannot be enforced",
                    {{"pattern", std::string(text)}}, "put ^ and $ at the ends of the pattern or of its alternatives");
    }
    if (scope == PatternScope::anywhere && !is_begun) parts.insert(parts.begin(), any_text());
    if (scope == PatternScope::anywhere && !is_ended) parts.push_back(any_text());
    return sequence;
}

uint64_t saturating_sum(uint64_t one, uint64_t other) { return one > kUnbounded - other ? kUnbounded : one + other; }

uint64_t saturating_product(uint64_t one, uint64_t other) {
    if (one == 0 || other == 0) return 0;
    return one > kUnbounded / other ? kUnbounded : one * other;
}

}  // namespace

Pattern parse_pattern(std::string_view text, PatternScope scope, const ConstraintLimits& limits) {
    if (text.size() > limits.max_pattern_bytes) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("a pattern has {} bytes, at most {} are read", text.size(), limits.max_pattern_bytes),
                    {}, "give a shorter pattern");
    }
    return settle_anchors(PatternParser(text, limits).parse(), scope, text);
}

PatternLength pattern_length(const Pattern& pattern) {
    PatternLength length;
    switch (pattern.kind) {
        case Pattern::Kind::characters:
            return {1, 1};
        case Pattern::Kind::sequence:
            for (const Pattern& part : pattern.parts) {
                const PatternLength of_part = pattern_length(part);
                length.min = saturating_sum(length.min, of_part.min);
                length.max = saturating_sum(length.max, of_part.max);
            }
            return length;
        case Pattern::Kind::choice:
            length.min = kUnbounded;
            for (const Pattern& part : pattern.parts) {
                const PatternLength of_part = pattern_length(part);
                length.min = std::min(length.min, of_part.min);
                length.max = std::max(length.max, of_part.max);
            }
            return length;
        case Pattern::Kind::repeat: {
            const PatternLength of_part = pattern_length(pattern.parts.front());
            return {saturating_product(of_part.min, pattern.min), saturating_product(of_part.max, pattern.max)};
        }
        default:
            return length;
    }
}

bool fit_length(Pattern& pattern, uint64_t min, uint64_t max) {
    const PatternLength length = pattern_length(pattern);
    if (length.min >= min && length.max <= max) return true;
    if (length.max < min || length.min > max) return false;
    if (pattern.kind == Pattern::Kind::repeat) {
        const PatternLength of_part = pattern_length(pattern.parts.front());
        if (of_part.min != of_part.max || of_part.min == 0) return false;
        const uint64_t width = of_part.min;
        const uint64_t least = std::max(pattern.min, min / width + (min % width == 0 ? 0 : 1));
        const uint64_t most = max == kUnbounded ? pattern.max : std::min(pattern.max, max / width);
        if (least > most) return false;
        pattern.min = least;
        pattern.max = most;
        return true;
    }
    if (pattern.kind != Pattern::Kind::sequence) return false;
    Pattern* variable = nullptr;  // the only part whose length varies
    uint64_t fixed = 0;
    for (Pattern& part : pattern.parts) {
        const PatternLength of_part = pattern_length(part);
        if (of_part.min == of_part.max) {
            fixed = saturating_sum(fixed, of_part.min);
        } else if (variable) {
            return false;
        } else {
            variable = &part;
        }
    }
    if (!variable || fixed > max) return false;
    return fit_length(*variable, min - std::min(min, fixed), max == kUnbounded ? max : max - fixed);
}

NodeId pattern_node(const Pattern& pattern, TextForm form, GrammarBuilder& builder, CharacterNodes& characters) {
    std::vector<NodeId> parts;
    if (pattern.kind == Pattern::Kind::characters) return characters.of_set(pattern.set, form);
    for (const Pattern& part : pattern.parts) parts.push_back(pattern_node(part, form, builder, characters));
    switch (pattern.kind) {
        case Pattern::Kind::choice:
            return builder.choice(parts);
        case Pattern::Kind::repeat:
            return builder.repeat(parts.front(), pattern.min, pattern.max);
        default:
            return builder.sequence(parts);
    }
}

}  // namespace gemmatrace::engine
