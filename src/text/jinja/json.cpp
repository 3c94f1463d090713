// Conversion from and to JSON.
#include "text/jinja/json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/sort.h"

namespace gemmatrace::text::jinja {

namespace {

Value text_from_json(Runtime& runtime, const std::string& bytes, Origin origin) {
    if (bytes.empty()) return Value(Text());
    return Value(Text(std::make_shared<const TextBuffer>(is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes),
                                                         origin, std::vector<TextBuffer::Run>{}, &runtime.meter)));
}

class JsonWriter {
  public:
    JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style), out_(runtime.meter) {}

    Text run(const Value& value) {
        write(value);
        return out_.build();
    }

  private:
    void mark(std::string_view piece) { out_.append(piece, Origin::template_text); }

    void write(const Value& value) {
        runtime_.meter.step();
        switch (value.kind()) {
            case Kind::none:
                return mark("null");
            case Kind::boolean:
                return mark(value.boolean() ? "true" : "false");
            case Kind::integer:
                return mark(integer_text(value.integer()));
            case Kind::real:
                return mark(real(value.real()));
            case Kind::text:
                return write_text(value.text());
            case Kind::list:
            case Kind::tuple:
                return write_items(value.as<SequenceObject>().items);
            case Kind::dict:
                return write_dict(value.as<DictObject>().dict);
            default:
                fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
        }
    }

    static std::string real(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
        return real_text(value);
    }

    // A new line and its indentation, when there is any.
    void new_line() {
        if (!style_.indent) return;
        mark("\n");
        for (int level = 0; level < level_; ++level) out_.append(*style_.indent);
    }

    template <class Items, class Write>
    void write_all(std::string_view open, std::string_view close, const Items& items, Write write_one) {
        mark(open);
        if (!items.empty()) {
            const CallDepth depth(runtime_.meter);
            ++level_;
            bool is_first = true;
            for (const auto& item : items) {
                if (!is_first) out_.append(style_.item_separator);
                is_first = false;
                new_line();
                write_one(item);
            }
            --level_;
            new_line();
        }
        mark(close);
    }

    void write_items(std::span<const Value> items) {
        write_all("[", "]", items, [&](const Value& item) { write(item); });
    }

    void write_dict(const Dict& dict) {
        const auto write_entry = [&](const Dict::Entry& entry) {
            write_text(key_text(entry.first));
            out_.append(style_.key_separator);
            write(entry.second);
        };
        if (!style_.has_sorted_keys) return write_all("{", "}", dict.entries(), write_entry);
        std::vector<Dict::Entry> entries = dict.entries();
        stable_sort(entries, [&](const Dict::Entry& left, const Dict::Entry& right) {
            return less_than(runtime_, left.first, right.first);
        });
        write_all("{", "}", entries, write_entry);
    }

    Text key_text(const Value& key) {
        switch (key.kind()) {
            case Kind::text:
                return key.text();
            case Kind::none:
                return {"null", Origin::template_text};
            case Kind::boolean:
                return {key.boolean() ? "true" : "false", Origin::template_text};
            case Kind::integer:
                return {integer_text(key.integer()), Origin::template_text};
            case Kind::real:
                return {real(key.real()), Origin::template_text};
            default:
                fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
        }
    }

    void write_text(const Text& text) {
        runtime_.meter.work(text.size() * 2);
        mark("\"");
        text.each_run([&](std::string_view run, Origin origin) {
            size_t plain = 0;  // from here on nothing needs an escape
            for (size_t at = 0; at < run.size();) {
                const auto byte = static_cast<unsigned char>(run[at]);
                if (byte >= 0x20 && byte != '"' && byte != '\\' && (!style_.is_ascii || byte < 0x7f)) {
                    ++at;
                    continue;
                }
                out_.append(run.substr(plain, at - plain), origin);
                const auto step = decode_utf8(run, at);
                out_.append(escape(step.code_point), origin);
                at += static_cast<size_t>(step.length);
                plain = at;
            }
            out_.append(run.substr(plain), origin);
        });
        mark("\"");
    }

    static std::string escape(char32_t code_point) {
        switch (code_point) {
            case U'"':
                return "\\\"";
            case U'\\':
                return "\\\\";
            case U'\n':
                return "\\n";
            case U'\r':
                return "\\r";
            case U'\t':
                return "\\t";
            case U'\f':
                return "\\f";
            case U'\b':
                return "\\b";
            default:
                break;
        }
        const auto number = static_cast<unsigned>(code_point);
        if (number < 0x10000) return fmt::format("\\u{:04x}", number);
        const unsigned above = number - 0x10000;
        return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ffU));
    }

    Runtime& runtime_;
    const JsonStyle& style_;
    TextBuilder out_;
    int level_ = 0;
};

}  // namespace

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, Origin origin) {
    const CallDepth depth(runtime.meter);
    switch (json.type()) {
        case nlohmann::ordered_json::value_t::boolean:
            return Value(json.get<bool>());
        case nlohmann::ordered_json::value_t::number_integer:
            return Value(json.get<int64_t>());
        case nlohmann::ordered_json::value_t::number_unsigned:
            return Value(json.get<uint64_t>());
        case nlohmann::ordered_json::value_t::number_float:
            return Value(json.get<double>());
        case nlohmann::ordered_json::value_t::string:
            return text_from_json(runtime, json.get_ref<const std::string&>(), origin);
        case nlohmann::ordered_json::value_t::array: {
            std::vector<Value> items;
            items.reserve(json.size());
            for (const auto& element : json) items.push_back(from_json(runtime, element, origin));
            return runtime.heap.list(std::move(items));
        }
        case nlohmann::ordered_json::value_t::object: {
            auto* object = runtime.heap.make<DictObject>();
            for (const auto& [key, element] : json.items()) {
                object->dict.set(runtime.meter, text_from_json(runtime, key, origin),
                                 from_json(runtime, element, origin));
            }
            return Value(object);
        }
        default:
            return Value::none();
    }
}

Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
    return JsonWriter(runtime, style).run(value);
}

}  // namespace gemmatrace::text::jinja
