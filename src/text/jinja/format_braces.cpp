// "{} {name!r:>8}".format(…) and format(value, specification).
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

bool is_align(char character) { return character == '<' || character == '>' || character == '^' || character == '='; }

bool is_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Integer read_number(std::string_view text, size_t& at) {
    Integer value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        value = value * 10 + (text[at] - '0');
        if (value > INT32_MAX) fail("Too many decimal digits in format string");
    }
    return value;
}

// [[fill]align][sign][#][0][width][grouping][.precision][type]
Layout parse_layout(const Text& specification) {
    const std::string_view text = specification.view();
    Layout layout;
    size_t at = 0;
    const size_t first = text.empty() ? 0 : sequence_length(text[0]);
    const bool has_fill = first < text.size() && is_align(text[first]);
    if (has_fill) {
        layout.fill = specification.slice(0, first);
        layout.align = text[first];
        at = first + 1;
    } else if (!text.empty() && is_align(text[0])) {
        layout.align = text[0];
        at = 1;
    }
    const auto take = [&](std::string_view wanted) {
        if (at >= text.size() || wanted.find(text[at]) == std::string_view::npos) return char{0};
        return text[at++];
    };
    if (const char sign = take("+- ")) layout.sign = sign;
    layout.is_alternate = take("#") != 0;
    if (!has_fill && take("0") != 0) {
        layout.is_zero_filled = layout.align == 0;
        layout.fill = Text("0", Origin::template_text);
    }
    layout.width = read_number(text, at);
    layout.grouping = take(",_");
    if (take(".") != 0) {
        const size_t begin = at;
        layout.precision = static_cast<int>(read_number(text, at));
        if (at == begin) fail("Format specifier missing precision");
    }
    if (at < text.size()) layout.type = text[at++];
    if (at != text.size()) fail("Invalid format specifier");
    return layout;
}

[[noreturn]] void fail_type(const Layout& layout, const Value& value) {
    fail(fmt::format("Unknown format code '{}' for object of type '{}'", layout.type, type_name(value)));
}

Text format_text(Runtime& runtime, const Value& value, const Layout& layout) {
    if (layout.type != 0 && layout.type != 's') fail_type(layout, value);
    if (layout.align == '=') fail("'=' alignment not allowed in string format specifier");
    const bool is_numeric = layout.sign != '-' || layout.is_alternate || layout.grouping != 0;
    if (is_numeric) fail("Invalid format specifier for a string");
    return layout_text(runtime, value.text(), layout);
}

Text format_integer(Runtime& runtime, const Value& value, Layout layout) {
    switch (layout.type) {
        case 0:
        case 'n':
            layout.type = 'd';
            break;
        case 'b':
        case 'd':
        case 'o':
        case 'x':
        case 'X':
            break;
        case 'c': {
            std::string bytes;
            append_utf8(bytes, static_cast<char32_t>(std::clamp<Integer>(value.integer(), 0, 0x10ffff)));
            return layout_text(runtime, Text(std::move(bytes), Origin::content), layout);
        }
        default:
            if (std::string_view("eEfFgG%").find(layout.type) == std::string_view::npos) fail_type(layout, value);
            return layout_real(runtime, value.real(), layout);
    }
    if (layout.precision >= 0) fail("Precision not allowed in integer format specifier");
    return layout_integer(runtime, value.integer(), layout);
}

class BraceFormatter {
  public:
    BraceFormatter(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), arguments_(arguments) {}

    Text run(const Text& format, int depth) {
        if (depth < 0) fail("Max string recursion exceeded");
        const std::string_view bytes = format.view();
        runtime_.meter.work(bytes.size());
        TextBuilder out(runtime_.meter);
        for (size_t at = 0; at < bytes.size();) {
            const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
            out.append(format.slice(at, brace - at));
            at = brace;
            if (at >= bytes.size()) break;
            if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
                out.append(format.slice(at, 1));
                at += 2;
                continue;
            }
            if (bytes[at] == '}') fail("Single '}' encountered in format string");
            const size_t end = field_end(bytes, at);
            out.append(field(format.slice(at + 1, end - at - 1), depth));
            at = end + 1;
        }
        return out.build();
    }

  private:
    static size_t field_end(std::string_view bytes, size_t at) {
        int depth = 0;
        for (; at < bytes.size(); ++at) {
            if (bytes[at] == '{') ++depth;
            if (bytes[at] == '}' && --depth == 0) return at;
        }
        fail("expected '}' before end of string");
    }

    // name!conversion:specification
    Text field(const Text& inner, int depth) {
        const std::string_view bytes = inner.view();
        size_t name_end = 0;
        bool is_bracketed = false;
        for (; name_end < bytes.size(); ++name_end) {
            const char byte = bytes[name_end];
            if (byte == '[') is_bracketed = true;
            if (byte == ']') is_bracketed = false;
            if (!is_bracketed && (byte == '!' || byte == ':')) break;
            if (byte == '{') fail("unexpected '{' in field name");
        }
        Value value = lookup(inner.slice(0, name_end));
        size_t at = name_end;
        if (at < bytes.size() && bytes[at] == '!') {
            if (at + 1 >= bytes.size()) fail("end of string while looking for conversion specifier");
            value = Value(convert(value, bytes[at + 1]));
            at += 2;
            if (at < bytes.size() && bytes[at] != ':') fail("expected ':' after conversion specifier");
        }
        const Text specification = at < bytes.size() ? run(inner.slice(at + 1), depth - 1) : Text();
        return format_value(runtime_, value, specification);
    }

    Text convert(const Value& value, char conversion) {
        if (conversion == 's') return to_text(runtime_, value).as_markup(false);
        if (conversion != 'r' && conversion != 'a') fail(fmt::format("Unknown conversion specifier {}", conversion));
        TextBuilder out(runtime_.meter);
        append_representation(runtime_, out, value, conversion == 'a');
        return out.build();
    }

    Value lookup(const Text& name) {
        const std::string_view bytes = name.view();
        const size_t end = std::min(bytes.find_first_of(".["), bytes.size());
        Value value = argument(bytes.substr(0, end), bytes.empty());
        for (size_t at = end; at < bytes.size();) {
            if (bytes[at] == '.') {
                const size_t stop = std::min(bytes.find_first_of(".[", at + 1), bytes.size());
                if (stop == at + 1) fail("Empty attribute in format string");
                value = attribute(runtime_, value, name.slice(at + 1, stop - at - 1));
                at = stop;
                continue;
            }
            if (bytes[at] != '[') fail("Only '.' or '[' may follow ']' in format field specifier");
            const size_t stop = bytes.find(']', at);
            if (stop == std::string_view::npos) fail("Missing ']' in format string");
            if (stop == at + 1) fail("Empty attribute in format string");
            const Text key = name.slice(at + 1, stop - at - 1);
            value = item(runtime_, value, is_digits(key.view()) ? Value(*parse_integer(key)) : Value(key));
            at = stop + 1;
        }
        return value;
    }

    Value argument(std::string_view name, bool is_automatic) {
        if (!is_automatic && !is_digits(name)) {
            for (const auto& [given, value] : arguments_.named) {
                if (given.view() == name) return value;
            }
            fail(fmt::format("the format needs a value named '{}'", name));
        }
        if (numbering_ != 0 && numbering_ != (is_automatic ? 'a' : 'm')) {
            fail("cannot switch between manual field specification and automatic field numbering");
        }
        numbering_ = is_automatic ? 'a' : 'm';
        size_t number = 0;
        size_t position = is_automatic ? next_++ : static_cast<size_t>(read_number(name, number));
        if (position >= arguments_.positional.size()) {
            fail(fmt::format("Replacement index {} out of range for positional args tuple", position));
        }
        return arguments_.positional[position];
    }

    Runtime& runtime_;
    const Arguments& arguments_;
    size_t next_ = 0;
    char numbering_ = 0;
};

}  // namespace

Text format_value(Runtime& runtime, const Value& value, const Text& specification) {
    if (specification.empty()) return to_text(runtime, value).as_markup(false);
    const Layout layout = parse_layout(specification);
    switch (value.kind()) {
        case Kind::text:
            return format_text(runtime, value, layout);
        case Kind::boolean:
        case Kind::integer:
            return format_integer(runtime, value, layout);
        case Kind::real:
            if (layout.type != 0 && std::string_view("eEfFgGn%").find(layout.type) == std::string_view::npos) {
                fail_type(layout, value);
            }
            return layout_real(runtime, value.real(), layout);
        default:
            fail(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
    }
}

Text format_braces(Runtime& runtime, const Text& format, const Arguments& arguments) {
    return BraceFormatter(runtime, arguments).run(format, 1);
}

}  // namespace gemmatrace::text::jinja
