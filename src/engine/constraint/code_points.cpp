// Set arithmetic, and the division of a range of code points into ranges of UTF-8 bytes.
#include "engine/constraint/code_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace gemmatrace::engine {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;
constexpr uint32_t kLastCodePoint = 0x10FFFF;
// The last code point that UTF-8 writes in one, two and three bytes.
constexpr uint32_t kLengthBorders[] = {0x7F, 0x7FF, 0xFFFF};

std::string utf8_of(uint32_t code_point) {
    std::string text;
    append_utf8(text, code_point);
    return text;
}

// The short escape of a character in a JSON string, or its \u form.
std::string json_escape(uint32_t code_point) {
    switch (code_point) {
        case '"':
            return "\\\"";
        case '\\':
            return "\\\\";
        case '\b':
            return "\\b";
        case '\f':
            return "\\f";
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        default:
            return fmt::format("\\u{:04x}", code_point);
    }
}

const CodePointSet& json_escaped_set() {
    static const CodePointSet kEscaped{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    return kEscaped;
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<Range> ranges) : ranges_(ranges) { normalize(); }

CodePointSet::CodePointSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { normalize(); }

void CodePointSet::add(uint32_t first, uint32_t last) {
    ranges_.emplace_back(first, last);
    normalize();
}

void CodePointSet::add(const CodePointSet& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    normalize();
}

void CodePointSet::normalize() {
    std::vector<Range> split;
    for (const auto& [first, last] : ranges_) {
        const uint32_t end_before = std::min(last, kFirstSurrogate - 1);
        const uint32_t begin_behind = std::max(first, kLastSurrogate + 1);
        if (first <= end_before) split.emplace_back(first, end_before);
        if (begin_behind <= last) split.emplace_back(begin_behind, last);
    }
    std::sort(split.begin(), split.end());
    ranges_.clear();
    for (const Range& range : split) {
        if (!ranges_.empty() && range.first <= ranges_.back().second + 1) {
            ranges_.back().second = std::max(ranges_.back().second, range.second);
        } else {
            ranges_.push_back(range);
        }
    }
}

CodePointSet CodePointSet::complement() const {
    CodePointSet result;
    uint32_t next = 0;
    for (const auto& [first, last] : ranges_) {
        if (first > next) result.ranges_.emplace_back(next, first - 1);
        next = last + 1;
    }
    if (next <= kLastCodePoint) result.ranges_.emplace_back(next, kLastCodePoint);
    result.normalize();
    return result;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
    CodePointSet rest = complement();
    rest.add(other);
    return rest.complement();
}

bool CodePointSet::contains(uint32_t code_point) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [code_point](const Range& range) {
        return range.first <= code_point && code_point <= range.second;
    });
}

NodeId CharacterNodes::of_set(const CodePointSet& set, TextForm form) {
    const auto known = known_.find({set, form});
    if (known != known_.end()) return known->second;
    const NodeId node = form == TextForm::plain ? plain(set) : json_string(set);
    return known_[{set, form}] = node;
}

NodeId CharacterNodes::plain(const CodePointSet& set) {
    std::vector<NodeId> options;
    for (const auto& [first, last] : set.ranges()) add_range(first, last, options);
    return builder_.choice(options);
}

// A range whose ends differ in a leading byte is cut until the trailing bytes of each piece run over all 64 values or
// are those of one common beginning; then a piece is a sequence of byte ranges.
void CharacterNodes::add_range(uint32_t first, uint32_t last, std::vector<NodeId>& options) {
    const auto cut_behind = [&](uint32_t border) {
        add_range(first, border, options);
        add_range(border + 1, last, options);
    };
    for (const uint32_t border : kLengthBorders) {
        if (first <= border && border < last) return cut_behind(border);
    }
    const std::string low = utf8_of(first);
    const std::string high = utf8_of(last);
    for (size_t trailing = low.size() - 1; trailing > 0; --trailing) {
        const uint32_t mask = (uint32_t{1} << (6 * trailing)) - 1;
        if ((first & ~mask) == (last & ~mask)) continue;
        if ((first & mask) != 0) return cut_behind(first | mask);
        if ((last & mask) != mask) return cut_behind((last & ~mask) - 1);
    }
    std::vector<NodeId> parts;
    for (size_t index = 0; index < low.size(); ++index) {
        parts.push_back(builder_.byte_range(static_cast<uint8_t>(low[index]), static_cast<uint8_t>(high[index])));
    }
    options.push_back(builder_.sequence(parts));
}

NodeId CharacterNodes::json_string(const CodePointSet& set) {
    std::vector<NodeId> options{of_set(set.without(json_escaped_set()), TextForm::plain)};
    for (const auto& [first, last] : json_escaped_set().ranges()) {
        for (uint32_t code_point = first; code_point <= last; ++code_point) {
            if (set.contains(code_point)) options.push_back(builder_.literal(json_escape(code_point)));
        }
    }
    return builder_.choice(options);
}

NodeId CharacterNodes::any_in_json_string() {
    if (any_in_json_string_ != kNoNode) return any_in_json_string_;
    const auto letters = [this](std::string_view text) {
        ByteSet set;
        for (const char letter : text) set.set(static_cast<uint8_t>(letter));
        return builder_.bytes(set);
    };
    const NodeId hex = letters("0123456789abcdefABCDEF");
    const NodeId d = letters("dD");
    // A code unit is a character unless it begins with D8 to DF; those come as a high and a low one.
    const NodeId unit = builder_.choice({builder_.sequence({letters("0123456789abcefABCEF"), hex, hex, hex}),
                                         builder_.sequence({d, letters("01234567"), hex, hex})});
    const NodeId high = builder_.sequence({d, letters("89abAB"), hex, hex});
    const NodeId low = builder_.sequence({d, letters("cdefCDEF"), hex, hex});
    const NodeId pair = builder_.sequence({high, builder_.literal("\\u"), low});
    const NodeId unicode = builder_.sequence({letters("u"), builder_.choice({unit, pair})});
    const NodeId escape = builder_.sequence({letters("\\"), builder_.choice({letters("\"\\/bfnrt"), unicode})});
    const CodePointSet unescaped = CodePointSet::all().without(json_escaped_set());
    return any_in_json_string_ = builder_.choice({of_set(unescaped, TextForm::plain), escape});
}

}  // namespace gemmatrace::engine
