// str() and repr() of every kind of value.
#include "text/jinja/print.h"

#include <fmt/format.h>

#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

// What Python writes itself between the parts of a value.
void mark(TextBuilder& out, std::string_view piece) { out.append(piece, Origin::template_text); }

std::string escape_of(char32_t code_point, char quote) {
    switch (code_point) {
        case U'\\':
            return "\\\\";
        case U'\n':
            return "\\n";
        case U'\r':
            return "\\r";
        case U'\t':
            return "\\t";
        default:
            break;
    }
    if (code_point == static_cast<char32_t>(quote)) return fmt::format("\\{}", quote);
    const auto number = static_cast<unsigned>(code_point);
    if (number < 0x100) return fmt::format("\\x{:02x}", number);
    if (number < 0x10000) return fmt::format("\\u{:04x}", number);
    return fmt::format("\\U{:08x}", number);
}

bool is_plain(char32_t code_point, char quote, bool is_ascii) {
    if (code_point == U'\\' || code_point == static_cast<char32_t>(quote)) return false;
    if (code_point < 0x80) return code_point >= 0x20 && code_point != 0x7f;
    return !is_ascii && is_printable(code_point);
}

void represent_text(Runtime& runtime, TextBuilder& out, const Text& text, bool is_ascii) {
    runtime.meter.work(text.size() * 4);
    const std::string_view bytes = text.view();
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    if (text.is_markup()) mark(out, "Markup(");
    mark(out, std::string_view(&quote, 1));
    each_code_point(text, [&](char32_t code_point, std::string_view piece, Origin origin) {
        if (is_plain(code_point, quote, is_ascii)) {
            out.append(piece, origin);
        } else {
            out.append(escape_of(code_point, quote), origin);
        }
    });
    mark(out, std::string_view(&quote, 1));
    if (text.is_markup()) mark(out, ")");
}

void represent_items(Runtime& runtime, TextBuilder& out, std::span<const Value> items, bool is_ascii) {
    for (size_t index = 0; index < items.size(); ++index) {
        if (index > 0) mark(out, ", ");
        append_representation(runtime, out, items[index], is_ascii);
    }
}

void represent_tuple(Runtime& runtime, TextBuilder& out, std::span<const Value> items, bool is_ascii) {
    mark(out, "(");
    represent_items(runtime, out, items, is_ascii);
    mark(out, items.size() == 1 ? ",)" : ")");
}

void represent_list(Runtime& runtime, TextBuilder& out, std::span<const Value> items, bool is_ascii) {
    mark(out, "[");
    represent_items(runtime, out, items, is_ascii);
    mark(out, "]");
}

void represent_dict(Runtime& runtime, TextBuilder& out, const Dict& dict, bool is_ascii) {
    mark(out, "{");
    bool is_first = true;
    for (const auto& [key, value] : dict.entries()) {
        if (!is_first) mark(out, ", ");
        is_first = false;
        append_representation(runtime, out, key, is_ascii);
        mark(out, ": ");
        append_representation(runtime, out, value, is_ascii);
    }
    mark(out, "}");
}

std::string represent_range(const RangeObject& range) {
    std::string text = "range(" + integer_text(range.start) + ", " + integer_text(range.stop);
    if (range.step != 1) text += ", " + integer_text(range.step);
    return text + ")";
}

void represent_object(Runtime& runtime, TextBuilder& out, const Value& value, bool is_ascii) {
    const CallDepth depth(runtime.meter);
    switch (value.kind()) {
        case Kind::list:
            return represent_list(runtime, out, value.as<SequenceObject>().items, is_ascii);
        case Kind::tuple:
            return represent_tuple(runtime, out, value.as<SequenceObject>().items, is_ascii);
        case Kind::dict:
            return represent_dict(runtime, out, value.as<DictObject>().dict, is_ascii);
        case Kind::dict_view:
            mark(out, type_name(value));
            mark(out, "(");
            represent_list(runtime, out, to_vector(runtime, value), is_ascii);
            return mark(out, ")");
        case Kind::name_space:
            mark(out, "<Namespace ");
            represent_dict(runtime, out, value.as<NamespaceObject>().attributes, is_ascii);
            return mark(out, ">");
        case Kind::range:
            return mark(out, represent_range(value.as<RangeObject>()));
        case Kind::macro:
        case Kind::loop:
            return mark(out, runtime.callbacks->describe(value));
        case Kind::function:
            return mark(out, fmt::format("<function {}>", value.as<FunctionObject>().name));
        default:
            return mark(out, fmt::format("<{} object>", type_name(value)));
    }
}

}  // namespace

void append_representation(Runtime& runtime, TextBuilder& out, const Value& value, bool is_ascii) {
    runtime.meter.step();
    switch (value.kind()) {
        case Kind::missing:
        case Kind::none:
            return mark(out, "None");
        case Kind::boolean:
            return mark(out, value.boolean() ? "True" : "False");
        case Kind::integer:
            return mark(out, integer_text(value.integer()));
        case Kind::real:
            return mark(out, real_text(value.real()));
        case Kind::text:
            return represent_text(runtime, out, value.text(), is_ascii);
        case Kind::undefined:
            return mark(out, "Undefined");
        default:
            return represent_object(runtime, out, value, is_ascii);
    }
}

void append_text(Runtime& runtime, TextBuilder& out, const Value& value) {
    if (value.is(Kind::text)) {
        runtime.meter.work(value.text().size());
        out.append(value.text());
    } else if (!value.is(Kind::undefined)) {
        append_representation(runtime, out, value);
    }
}

Text to_text(Runtime& runtime, const Value& value) {
    if (value.is(Kind::text)) return value.text();
    TextBuilder out(runtime.meter);
    append_text(runtime, out, value);
    return out.build();
}

Text represent(Runtime& runtime, const Value& value) {
    TextBuilder out(runtime.meter);
    append_representation(runtime, out, value);
    return out.build();
}

}  // namespace gemmatrace::text::jinja
