// Filters that make text.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

Text written(std::string_view text) { return {std::string(text), Origin::template_text}; }

// str(value): a plain text even for markup.
Text plain_text(Runtime& runtime, const Value& value) { return to_text(runtime, value).as_markup(false); }

template <Text (*Change)(Runtime&, const Text&)>
Value changed_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("filter", arguments, {});
    return Value(Change(runtime, to_text(runtime, self)));
}

Value string_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("string", arguments, {});
    return Value(to_text(runtime, self));
}

Value trim_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("trim", arguments, {"chars"});
    std::optional<Text> characters;
    if (bound.has(0) && !bound[0].is(Kind::none)) characters = text_argument(bound[0], "trim");
    return Value(strip(runtime, to_text(runtime, self), Side::both, characters));
}

Value replace_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("replace", arguments, {"old", "new", "count"}, 2);
    const bool is_limited = bound.has(2) && !bound[2].is(Kind::none);
    return Value(replace(runtime, plain_text(runtime, self), plain_text(runtime, bound[0]),
                         plain_text(runtime, bound[1]), is_limited ? to_position(bound[2]) : -1)
                     .as_markup(false));
}

Value join_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("join", arguments, {"d", "attribute"});
    const Text separator = bound.has(0) ? plain_text(runtime, bound[0]) : Text();
    const AttributeReader read(runtime, bound.get(1, Value::none()), false);
    TextBuilder out(runtime.meter);
    Cursor cursor(runtime, self);
    bool is_first = true;
    for (Value item; cursor.next(item);) {
        if (!is_first) out.append(separator);
        is_first = false;
        append_text(runtime, out, read(item));
    }
    return Value(out.build());
}

// jinja2's own title: words begin after white space and any of -({[<.
Value title_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("title", arguments, {});
    const Text text = plain_text(runtime, self);
    const std::string_view bytes = text.view();
    const auto is_separator = [&](size_t at) {
        const char32_t code_point = decode_utf8(bytes, at).code_point;
        return is_space(code_point) ||
               (code_point < 0x80 && std::string_view("-({[<").find(bytes[at]) != std::string_view::npos);
    };
    TextBuilder out(runtime.meter);
    for (size_t at = 0; at < bytes.size();) {
        const bool is_gap = is_separator(at);
        size_t end = at;
        while (end < bytes.size() && is_separator(end) == is_gap) end += sequence_length(bytes[end]);
        const size_t first = sequence_length(bytes[at]);
        out.append(is_gap ? text.slice(at, first) : to_upper(runtime, text.slice(at, first)));
        const Text rest = text.slice(at + first, end - at - first);
        out.append(is_gap ? rest : to_lower(runtime, rest));
        at = end;
    }
    return Value(out.build());
}

Value center_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("center", arguments, {"width"});
    const Text text = to_text(runtime, self);
    return Value(
        center(runtime, text, bound.has(0) ? to_position(bound[0]) : 80, written(" ")).as_markup(text.is_markup()));
}

Value indent_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("indent", arguments, {"width", "first", "blank"});
    const Text& text = text_argument(self, "indent");
    const Value width = bound.get(0, Value(4));
    const Text margin = width.is(Kind::text) ? width.text() : repeat_text(runtime, written(" "), to_position(width));
    const bool has_first = bound.has(1) && truth(runtime, bound[1]);
    const bool has_blank = bound.has(2) && truth(runtime, bound[2]);
    // The added end makes a last empty line show up, as it does in jinja2.
    const std::vector<Text> lines = split_lines(runtime, concatenate(runtime, text, written("\n")), false);
    TextBuilder out(runtime.meter);
    for (size_t index = 0; index < lines.size(); ++index) {
        if (index > 0) out.append("\n", Origin::template_text);
        const bool is_indented = index == 0 ? has_first : has_blank || !lines[index].empty();
        if (is_indented) out.append(margin);
        out.append(lines[index]);
    }
    return Value(out.build().as_markup(text.is_markup()));
}

Value truncate_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
    const int64_t limit = bound.has(0) ? to_position(bound[0]) : 255;
    const Text end = bound.has(2) ? text_argument(bound[2], "truncate") : written("...");
    const bool has_leeway = bound.has(3) && !bound[3].is(Kind::none);
    const int64_t leeway = has_leeway ? to_position(bound[3]) : 5;
    const auto end_size = static_cast<int64_t>(end.code_points());
    if (limit < end_size) fail(fmt::format("expected length >= {}, got {}", end_size, limit));
    if (leeway < 0) fail(fmt::format("expected leeway >= 0, got {}", leeway));
    if (static_cast<int64_t>(length(runtime, self)) <= limit + leeway) return self;
    const Text& text = text_argument(self, "truncate");
    Text kept = text.slice(0, text.offset_of(static_cast<size_t>(limit - end_size)));
    if (!bound.has(1) || !truth(runtime, bound[1])) {
        const size_t space = kept.view().rfind(' ');
        if (space != std::string_view::npos) kept = kept.slice(0, space);
    }
    return apply_binary(runtime, BinaryOperator::add, Value(kept), Value(end));
}

Value wordcount_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("wordcount", arguments, {});
    const Text text = to_text(runtime, self);
    runtime.meter.work(text.size());
    Integer count = 0;
    bool is_inside = false;
    each_code_point(text, [&](char32_t code_point, std::string_view, Origin) {
        const bool is_letter = is_word(code_point);
        if (is_letter && !is_inside) ++count;
        is_inside = is_letter;
    });
    return Value(count);
}

Value format_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    if (!arguments.positional.empty() && !arguments.named.empty()) {
        fail("can't handle positional and keyword arguments at the same time");
    }
    Value values = runtime.heap.tuple(arguments.positional);
    if (!arguments.named.empty()) {
        auto* named = runtime.heap.make<DictObject>();
        for (const auto& [name, value] : arguments.named) named->dict.set(runtime.meter, Value(name), value);
        values = Value(named);
    }
    return Value(format_percent(runtime, to_text(runtime, self), values));
}

Value tojson_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.is_ascii = bound.has(0) && truth(runtime, bound[0]);
    style.has_sorted_keys = bound.has(3) && truth(runtime, bound[3]);
    if (bound.has(1) && !bound[1].is(Kind::none)) {
        style.indent =
            bound[1].is(Kind::text) ? bound[1].text() : repeat_text(runtime, written(" "), to_index(bound[1]));
        style.item_separator = written(",");
    }
    if (bound.has(2) && !bound[2].is(Kind::none)) {
        const std::vector<Value> separators = to_vector(runtime, bound[2]);
        if (separators.size() != 2) fail("tojson needs two separators");
        style.item_separator = text_argument(separators[0], "separators");
        style.key_separator = text_argument(separators[1], "separators");
    }
    return Value(to_json(runtime, self, style));
}

Value escape_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("escape", arguments, {});
    return Value(escape_html(runtime, self));
}

Value forceescape_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("forceescape", arguments, {});
    return Value(escape_html(runtime, Value(plain_text(runtime, self))));
}

Value safe_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("safe", arguments, {});
    return Value(to_text(runtime, self).as_markup());
}

// urllib.parse.quote: in a query everything but the unreserved is escaped, and a space becomes "+".
Text quote_url(Runtime& runtime, const Text& text, bool is_query) {
    runtime.meter.work(text.size());
    TextBuilder out(runtime.meter);
    text.each_run([&](std::string_view run, Origin origin) {
        for (const char& byte : run) {
            const auto code = static_cast<unsigned char>(byte);
            const bool is_plain = code < 0x80 && (std::isalnum(code) != 0 ||
                                                  std::string_view("_.-~").find(byte) != std::string_view::npos ||
                                                  (byte == '/' && !is_query));
            if (is_plain) {
                out.append(std::string_view(&byte, 1), origin);
            } else {
                out.append(is_query && byte == ' ' ? "+" : fmt::format("%{:02X}", code), origin);
            }
        }
    });
    return out.build();
}

Value urlencode_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("urlencode", arguments, {});
    if (self.is(Kind::text) || !is_iterable(self)) return Value(quote_url(runtime, to_text(runtime, self), false));
    Value pairs = self;
    if (self.is(Kind::dict)) pairs = Value(runtime.heap.make<DictViewObject>(&self.as<DictObject>(), DictPart::items));
    TextBuilder out(runtime.meter);
    Cursor cursor(runtime, pairs);
    for (Value pair; cursor.next(pair);) {
        const std::vector<Value> parts = to_vector(runtime, pair);
        if (parts.size() != 2) fail(fmt::format("urlencode needs pairs, not {} values", parts.size()));
        if (!out.empty()) out.append("&", Origin::template_text);
        out.append(quote_url(runtime, to_text(runtime, parts[0]), true));
        out.append("=", Origin::template_text);
        out.append(quote_url(runtime, to_text(runtime, parts[1]), true));
    }
    return Value(out.build());
}

Value xmlattr_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("xmlattr", arguments, {"autospace"});
    if (self.is(Kind::undefined)) fail(self.as<UndefinedObject>().message);
    if (!self.is(Kind::dict)) fail(fmt::format("'{}' object has no attribute 'items'", type_name(self)));
    TextBuilder out(runtime.meter);
    for (const auto& [key, value] : self.as<DictObject>().dict.entries()) {
        if (value.is(Kind::none) || value.is(Kind::undefined)) continue;
        if (text_argument(key, "xmlattr").view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
            fail(fmt::format("Invalid character in attribute name: {}", represent(runtime, key).view()));
        }
        if (!out.empty() || !bound.has(0) || truth(runtime, bound[0])) out.append(" ", Origin::template_text);
        out.append(escape_html(runtime, key));
        out.append("=\"", Origin::template_text);
        out.append(escape_html(runtime, value));
        out.append("\"", Origin::template_text);
    }
    return Value(out.build());
}

constexpr Method kOfTexts[] = {
    {"capitalize", changed_text<capitalize>},
    {"center", center_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", forceescape_filter},
    {"format", format_filter},
    {"indent", indent_filter},
    {"join", join_filter},
    {"lower", changed_text<to_lower>},
    {"replace", replace_filter},
    {"safe", safe_filter},
    {"string", string_filter},
    {"title", title_filter},
    {"tojson", tojson_filter},
    {"trim", trim_filter},
    {"truncate", truncate_filter},
    {"upper", changed_text<to_upper>},
    {"urlencode", urlencode_filter},
    {"wordcount", wordcount_filter},
    {"xmlattr", xmlattr_filter},
};

}  // namespace

const std::span<const Method> kTextFilters = kOfTexts;

}  // namespace gemmatrace::text::jinja
