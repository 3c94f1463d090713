// The methods of str.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

// Positional-only parameters have no name.
constexpr std::string_view kUnnamed;

Value boxed(Runtime& runtime, const std::vector<Text>& texts, const Text& like) {
    std::vector<Value> items;
    items.reserve(texts.size());
    for (const Text& text : texts) items.emplace_back(text.as_markup(like.is_markup()));
    return runtime.heap.list(std::move(items));
}

// A method (text) -> text without arguments.
template <Text (*Change)(Runtime&, const Text&)>
Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("str method", arguments, {});
    return Value(Change(runtime, self.text()));
}

template <Side side>
Value strip_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("strip", arguments, {kUnnamed});
    std::optional<Text> characters;
    if (bound.has(0) && !bound[0].is(Kind::none)) characters = text_argument(bound[0], "strip");
    return Value(strip(runtime, self.text(), side, characters));
}

template <std::vector<Text> (*Split)(Runtime&, const Text&, const std::optional<Text>&, int64_t)>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("split", arguments, {"sep", "maxsplit"});
    std::optional<Text> separator;
    if (bound.has(0) && !bound[0].is(Kind::none)) separator = text_argument(bound[0], "split");
    const int64_t limit = bound.has(1) ? to_position(bound[1]) : -1;
    return boxed(runtime, Split(runtime, self.text(), separator, limit), self.text());
}

Value splitlines_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("splitlines", arguments, {"keepends"});
    return boxed(runtime, split_lines(runtime, self.text(), bound.has(0) && truth(runtime, bound[0])), self.text());
}

// The part of the text between the optional positions `start` and `end` of find, count, startswith …
struct Window {
    Text text;
    size_t first;         // code points before it
    bool is_empty_range;  // start lies behind end: nothing is found, not even the empty text
};

Window window(Runtime& runtime, const Text& text, const Binder& bound) {
    if (!bound.has(1) && !bound.has(2)) return {text, 0, false};
    const auto size = static_cast<int64_t>(length(runtime, Value(text)));
    const auto place = [&](size_t index, int64_t otherwise) {
        if (!bound.has(index) || bound[index].is(Kind::none)) return otherwise;
        const int64_t at = to_position(bound[index]);
        return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    const int64_t start = place(1, 0);
    const int64_t end = std::min(place(2, size), size);
    if (start > end) return {Text(), 0, true};
    const size_t begin = text.offset_of(static_cast<size_t>(start));
    const size_t stop = text.offset_of(static_cast<size_t>(end));
    return {text.slice(begin, stop - begin), static_cast<size_t>(start), false};
}

template <bool is_last>
Integer find_position(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("find", arguments, {kUnnamed, kUnnamed, kUnnamed}, 1);
    const std::string_view wanted = text_argument(bound[0], "find").view();
    const Window part = window(runtime, self.text(), bound);
    if (part.is_empty_range) return -1;
    const size_t at = is_last ? find_last(runtime, part.text, wanted) : find_first(runtime, part.text, wanted);
    if (at == std::string_view::npos) return -1;
    return static_cast<Integer>(part.first + part.text.slice(0, at).code_points());
}

template <bool is_last>
Value find_method_of(Runtime& runtime, const Value& self, const Arguments& arguments) {
    return Value(find_position<is_last>(runtime, self, arguments));
}

template <bool is_last>
Value index_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Integer at = find_position<is_last>(runtime, self, arguments);
    if (at < 0) fail("substring not found");
    return Value(at);
}

Value count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("count", arguments, {kUnnamed, kUnnamed, kUnnamed}, 1);
    const std::string_view wanted = text_argument(bound[0], "count").view();
    const Window part = window(runtime, self.text(), bound);
    if (part.is_empty_range) return Value(0);
    if (wanted.empty()) return Value(part.text.code_points() + 1);
    Integer count = 0;
    for (size_t at = 0; (at = find_first(runtime, part.text, wanted, at)) != std::string_view::npos;
         at += wanted.size()) {
        ++count;
    }
    return Value(count);
}

template <bool is_start>
Value edge_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    constexpr std::string_view kName = is_start ? "startswith" : "endswith";
    const Binder bound(kName, arguments, {kUnnamed, kUnnamed, kUnnamed}, 1);
    const Window part = window(runtime, self.text(), bound);
    const auto matches = [&](const Value& wanted) {
        const std::string_view edge = text_argument(wanted, kName).view();
        if (part.is_empty_range) return false;
        return is_start ? part.text.view().starts_with(edge) : part.text.view().ends_with(edge);
    };
    if (!bound[0].is(Kind::tuple)) return Value(matches(bound[0]));
    const auto& choices = bound[0].as<SequenceObject>().items;
    return Value(std::any_of(choices.begin(), choices.end(), matches));
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("replace", arguments, {kUnnamed, kUnnamed, kUnnamed}, 2);
    const Text& text = self.text();
    const Text& old = text_argument(bound[0], "replace");
    Text fresh = text_argument(bound[1], "replace");
    if (text.is_markup()) fresh = escape_html(runtime, Value(fresh));
    const int64_t limit = bound.has(2) ? to_position(bound[2]) : -1;
    return Value(replace(runtime, text, old, fresh, limit).as_markup(text.is_markup()));
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("join", arguments, {kUnnamed}, 1);
    const Text& separator = self.text();
    TextBuilder out(runtime.meter);
    Cursor cursor(runtime, bound[0]);
    size_t count = 0;
    for (Value item; cursor.next(item); ++count) {
        if (count > 0) out.append(separator);
        if (separator.is_markup()) {
            out.append(escape_html(runtime, item));
        } else if (item.is(Kind::text)) {
            out.append(item.text());
        } else {
            fail(fmt::format("sequence item {}: expected str instance, {} found", count, type_name(item)));
        }
    }
    return Value(out.build().as_markup(separator.is_markup()));
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    return Value(format_braces(runtime, self.text(), arguments));
}

Value format_map_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("format_map", arguments, {kUnnamed}, 1);
    if (!bound[0].is(Kind::dict)) fail("format_map() needs a mapping");
    Arguments fields;
    for (const auto& [key, value] : bound[0].as<DictObject>().dict.entries()) {
        if (key.is(Kind::text)) fields.named.emplace_back(key.text(), value);
    }
    return Value(format_braces(runtime, self.text(), fields));
}

template <bool is_prefix>
Value remove_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound(is_prefix ? "removeprefix" : "removesuffix", arguments, {kUnnamed}, 1);
    const Text& text = self.text();
    const std::string_view edge = text_argument(bound[0], "removeprefix").view();
    runtime.meter.work(edge.size());
    if (is_prefix && text.view().starts_with(edge)) return Value(text.slice(edge.size()));
    if (!is_prefix && text.view().ends_with(edge)) return Value(text.slice(0, text.size() - edge.size()));
    return self;
}

template <bool is_last>
Value partition_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("partition", arguments, {kUnnamed}, 1);
    const Text& text = self.text();
    const Text& separator = text_argument(bound[0], "partition");
    if (separator.empty()) fail("empty separator");
    const size_t at =
        is_last ? find_last(runtime, text, separator.view()) : find_first(runtime, text, separator.view());
    if (at == std::string_view::npos) {
        if (is_last) return runtime.heap.tuple({Value(Text()), Value(Text()), self});
        return runtime.heap.tuple({self, Value(Text()), Value(Text())});
    }
    return runtime.heap.tuple({Value(text.slice(0, at)),
                               Value(text.slice(at, separator.size()).as_markup(text.is_markup())),
                               Value(text.slice(at + separator.size()))});
}

Text fill_argument(const Binder& bound) {
    return bound.has(1) ? text_argument(bound[1], "fill") : Text(" ", Origin::template_text);
}

// '<' left, '>' right, '^' centred.
template <char where>
Value justify_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("just", arguments, {kUnnamed, kUnnamed}, 1);
    const Text& text = self.text();
    const Integer width = to_position(bound[0]);
    const auto missing = static_cast<size_t>(std::max<Integer>(width - static_cast<Integer>(length(runtime, self)), 0));
    const Text fill = fill_argument(bound);
    const Text padded = where == '^'
                            ? center(runtime, text, width, fill)
                            : pad(runtime, text, width, fill, where == '>' ? missing : 0, where == '<' ? missing : 0);
    return Value(padded.as_markup(text.is_markup()));
}

Value zfill_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("zfill", arguments, {kUnnamed}, 1);
    const Text& text = self.text();
    const bool has_sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
    const Text sign = text.slice(0, has_sign ? 1 : 0);
    const Integer width = to_position(bound[0]) - (has_sign ? 1 : 0);
    const Text digits = text.slice(sign.size());
    const auto missing = static_cast<size_t>(std::max<Integer>(width - static_cast<Integer>(digits.code_points()), 0));
    const Text zeros = pad(runtime, digits, width, Text("0", Origin::template_text), missing, 0);
    return Value(concatenate(runtime, sign, zeros).as_markup(text.is_markup()));
}

Value expandtabs_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("expandtabs", arguments, {"tabsize"});
    const int64_t size = bound.has(0) ? to_position(bound[0]) : 8;
    TextBuilder out(runtime.meter);
    int64_t column = 0;
    each_code_point(self.text(), [&](char32_t code_point, std::string_view piece, Origin origin) {
        runtime.meter.step();
        if (code_point == U'\t') {
            const int64_t spaces = size > 0 ? size - column % size : 0;
            out.append(repeat_text(runtime, Text(" ", origin), spaces));
            column += spaces;
            return;
        }
        column = code_point == U'\n' || code_point == U'\r' ? 0 : column + 1;
        out.append(piece, origin);
    });
    return Value(out.build().as_markup(self.text().is_markup()));
}

// isalpha and its kin: the text is not empty and every character passes.
template <bool (*Test)(char32_t)>
Value every_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("str test", arguments, {});
    runtime.meter.work(self.text().size());
    bool is_every = !self.text().empty();
    each_code_point(self.text(),
                    [&](char32_t code_point, std::string_view, Origin) { is_every = is_every && Test(code_point); });
    return Value(is_every);
}

Value isascii_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("isascii", arguments, {});
    runtime.meter.work(self.text().size());
    const std::string_view bytes = self.text().view();
    return Value(
        std::all_of(bytes.begin(), bytes.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; }));
}

Value isprintable_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    if (self.text().empty()) return Value(true);
    return every_method<is_printable>(runtime, self, arguments);
}

Value isidentifier_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("isidentifier", arguments, {});
    runtime.meter.work(self.text().size());
    bool is_good = !self.text().empty();
    bool is_first = true;
    each_code_point(self.text(), [&](char32_t code_point, std::string_view, Origin) {
        is_good = is_good && (is_first ? code_point == U'_' || is_alpha(code_point) : is_word(code_point));
        is_first = false;
    });
    return Value(is_good);
}

template <bool wants_upper>
Value case_test_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("islower", arguments, {});
    return Value(has_case(runtime, self.text(), wants_upper));
}

Value istitle_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("istitle", arguments, {});
    runtime.meter.work(self.text().size());
    bool is_good = true;
    bool has_cased = false;
    bool is_inside = false;
    each_code_point(self.text(), [&](char32_t code_point, std::string_view, Origin) {
        if (is_upper(code_point) || is_title(code_point)) {
            is_good = is_good && !is_inside;
            is_inside = has_cased = true;
        } else if (is_lower(code_point)) {
            is_good = is_good && is_inside;
            is_inside = has_cased = true;
        } else {
            is_inside = false;
        }
    });
    return Value(is_good && has_cased);
}

Value not_available(Runtime&, const Value&, const Arguments&) {
    fail("the str methods encode, maketrans and translate are not available in chat templates");
}

constexpr Method kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<to_fold>},
    {"center", justify_method<'^'>},
    {"count", count_method},
    {"encode", not_available},
    {"endswith", edge_method<false>},
    {"expandtabs", expandtabs_method},
    {"find", find_method_of<false>},
    {"format", format_method},
    {"format_map", format_map_method},
    {"index", index_method<false>},
    {"isalnum", every_method<is_alnum>},
    {"isalpha", every_method<is_alpha>},
    {"isascii", isascii_method},
    {"isdecimal", every_method<is_decimal>},
    {"isdigit", every_method<is_digit>},
    {"isidentifier", isidentifier_method},
    {"islower", case_test_method<false>},
    {"isnumeric", every_method<is_numeric>},
    {"isprintable", isprintable_method},
    {"isspace", every_method<is_space>},
    {"istitle", istitle_method},
    {"isupper", case_test_method<true>},
    {"join", join_method},
    {"ljust", justify_method<'<'>},
    {"lower", changed<to_lower>},
    {"lstrip", strip_method<Side::left>},
    {"maketrans", not_available},
    {"partition", partition_method<false>},
    {"removeprefix", remove_method<true>},
    {"removesuffix", remove_method<false>},
    {"replace", replace_method},
    {"rfind", find_method_of<true>},
    {"rindex", index_method<true>},
    {"rjust", justify_method<'>'>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<split_right>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<split>},
    {"splitlines", splitlines_method},
    {"startswith", edge_method<true>},
    {"strip", strip_method<Side::both>},
    {"swapcase", changed<swap_case>},
    {"title", changed<to_title>},
    {"translate", not_available},
    {"upper", changed<to_upper>},
    {"zfill", zfill_method},
};

}  // namespace

const std::span<const Method> kTextMethods = kMethods;

bool has_case(Runtime& runtime, const Text& text, bool wants_upper) {
    runtime.meter.work(text.size());
    bool is_good = true;
    bool has_cased = false;
    each_code_point(text, [&](char32_t code_point, std::string_view, Origin) {
        if (wants_upper ? is_lower(code_point) : is_upper(code_point)) is_good = false;
        if (is_title(code_point)) is_good = false;
        if (wants_upper ? is_upper(code_point) : is_lower(code_point)) has_cased = true;
    });
    return is_good && has_cased;
}

}  // namespace gemmatrace::text::jinja
