// "%-5s|%03d" % values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

class PercentFormatter {
  public:
    PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
        : runtime_(runtime), format_(format), bytes_(format.view()), values_(values), out_(runtime.meter) {
        // A value with items by key may stay unused: Python takes it for the mapping of %(name)s.
        is_mapping_ =
            values.is(Kind::dict) || values.is(Kind::list) || values.is(Kind::range) || values.is(Kind::undefined);
    }

    Text run() {
        runtime_.meter.work(bytes_.size());
        while (at_ < bytes_.size()) {
            const size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
            out_.append(format_.slice(at_, percent - at_));
            at_ = percent;
            if (at_ < bytes_.size()) conversion();
        }
        if (values_.is(Kind::tuple) ? used_ < values_.as<SequenceObject>().items.size() : used_ == 0 && !is_mapping_) {
            fail("not all arguments converted during string formatting");
        }
        return out_.build().as_markup(format_.is_markup());
    }

  private:
    char peek() const {
        if (at_ >= bytes_.size()) fail("incomplete format");
        return bytes_[at_];
    }

    Value next_value() {
        if (!values_.is(Kind::tuple)) {
            if (used_++ > 0) fail("not enough arguments for format string");
            return values_;
        }
        const auto& items = values_.as<SequenceObject>().items;
        if (used_ >= items.size()) fail("not enough arguments for format string");
        return items[used_++];
    }

    // %(name)s: the value by its name.
    std::optional<Value> named_value() {
        if (peek() != '(') return std::nullopt;
        const size_t begin = ++at_;
        for (int depth = 1; depth > 0; ++at_) {
            if (at_ >= bytes_.size()) fail("incomplete format key");
            if (bytes_[at_] == '(') ++depth;
            if (bytes_[at_] == ')') --depth;
        }
        if (!values_.is(Kind::dict)) fail("format requires a mapping");
        used_ = 1;
        is_mapping_ = true;
        const std::string_view name = bytes_.substr(begin, at_ - 1 - begin);
        const Value* found = values_.as<DictObject>().dict.find(name);
        if (found == nullptr) fail(fmt::format("the format needs a value named '{}'", name));
        return *found;
    }

    void flags(Layout& layout) {
        while (true) {
            switch (peek()) {
                case '-':
                    layout.align = '<';
                    break;
                case '+':
                    layout.sign = '+';
                    break;
                case ' ':
                    if (layout.sign == '-') layout.sign = ' ';
                    break;
                case '#':
                    layout.is_alternate = true;
                    break;
                case '0':
                    layout.is_zero_filled = true;
                    break;
                default:
                    return;
            }
            ++at_;
        }
    }

    Integer number(const char* what) {
        if (peek() == '*') {
            ++at_;
            const Value value = next_value();
            if (!value.is_whole()) fail("* wants int");
            return value.integer();
        }
        Integer value = 0;
        for (; at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; ++at_) {
            value = value * 10 + (bytes_[at_] - '0');
            if (value > INT32_MAX) fail(fmt::format("{} too big", what));
        }
        return value;
    }

    void conversion() {
        ++at_;
        Layout layout;
        std::optional<Value> named = named_value();
        flags(layout);
        layout.width = number("width");
        if (layout.width < 0) {
            layout.align = '<';
            layout.width = -layout.width;
        }
        if (peek() == '.') {
            ++at_;
            layout.precision = static_cast<int>(std::clamp<Integer>(number("precision"), 0, INT32_MAX));
        }
        while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
        layout.type = bytes_[at_];
        if (layout.type == '%') {
            out_.append(format_.slice(at_++, 1));
            return;
        }
        const size_t type_at = at_;
        const Value value = named ? *named : next_value();
        out_.append(converted(value, layout, type_at));
        ++at_;
    }

    Text converted(const Value& value, Layout& layout, size_t type_at) {
        if (layout.align == '<') layout.is_zero_filled = false;
        switch (layout.type) {
            case 's': {
                Text text = format_.is_markup() ? escape_html(runtime_, value) : to_text(runtime_, value);
                return padded(text, layout);
            }
            case 'r':
                return padded(represent(runtime_, value), layout);
            case 'a': {
                TextBuilder out(runtime_.meter);
                append_representation(runtime_, out, value, true);
                return padded(out.build(), layout);
            }
            case 'c':
                return padded(character(value), layout);
            case 'i':
            case 'u':
            case 'd': {
                layout.type = 'd';
                if (value.is(Kind::real)) return layout_integer(runtime_, truncate_real(value.real()), layout);
                [[fallthrough]];
            }
            case 'x':
            case 'X':
            case 'o':
                if (value.is_whole()) return layout_integer(runtime_, value.integer(), layout);
                fail(fmt::format("%{} format: a number is required, not {}", layout.type, type_name(value)));
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
                if (value.is_number()) return layout_real(runtime_, value.real(), layout);
                fail(fmt::format("must be real number, not {}", type_name(value)));
            default:
                fail(fmt::format("unsupported format character '{}' at index {}", bytes_.substr(type_at, 1), type_at));
        }
    }

    Text padded(const Text& text, Layout layout) {
        if (layout.align == 0) layout.align = '>';
        return layout_text(runtime_, text, layout);
    }

    Text character(const Value& value) {
        if (value.is(Kind::text) && length(runtime_, value) == 1) return value.text();
        if (!value.is_whole()) fail("%c requires int or char");
        const Integer code_point = value.integer();
        if (code_point < 0 || code_point > 0x10ffff) fail("%c arg not in range(0x110000)");
        std::string bytes;
        append_utf8(bytes, static_cast<char32_t>(code_point));
        return Text(std::move(bytes), Origin::content);  // a number of the request must not spell a marker
    }

    Runtime& runtime_;
    const Text& format_;
    std::string_view bytes_;
    const Value& values_;
    TextBuilder out_;
    size_t at_ = 0;
    size_t used_ = 0;
    bool is_mapping_ = false;
};

}  // namespace

Text format_percent(Runtime& runtime, const Text& format, const Value& values) {
    return PercentFormatter(runtime, format, values).run();
}

}  // namespace gemmatrace::text::jinja
