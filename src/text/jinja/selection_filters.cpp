// map, select and reject, what they share with other filters, and the look-up of filters by name.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/jinja/tests.h"

namespace gemmatrace::text::jinja {

namespace {

using Transform = std::function<bool(const Value& item, Value& result)>;  // false: the item is left out

// Draws from a sequence as it is asked, so that an unused or half used generator does only the work it is asked for.
class StreamIterator : public IteratorObject {
  public:
    StreamIterator(Runtime& runtime, Value source, std::function<Transform()> prepare)
        : IteratorObject("generator"), runtime_(runtime), source_(std::move(source)), prepare_(std::move(prepare)) {}

    bool next(Value& value) override {
        if (!is_started_) {
            is_started_ = true;
            if (truth(runtime_, source_)) {
                transform_ = prepare_();
                cursor_.emplace(runtime_, source_);
            }
        }
        for (Value item; cursor_ && cursor_->next(item);) {
            if (transform_(item, value)) return true;
        }
        cursor_.reset();
        return false;
    }

  private:
    Runtime& runtime_;
    Value source_;
    std::function<Transform()> prepare_;
    Transform transform_;
    std::optional<Cursor> cursor_;
    bool is_started_ = false;
};

class DeferredIterator : public IteratorObject {
  public:
    explicit DeferredIterator(std::function<std::vector<Value>()> make)
        : IteratorObject("generator"), make_(std::move(make)) {}

    bool next(Value& value) override {
        if (make_) {
            items_ = make_();
            make_ = nullptr;
        }
        if (at_ >= items_.size()) return false;
        value = items_[at_++];
        return true;
    }

  private:
    std::function<std::vector<Value>()> make_;
    std::vector<Value> items_;
    size_t at_ = 0;
};

// The first positional argument names a filter or test, the others are its arguments.
Arguments arguments_after(const Arguments& arguments, size_t count) {
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
    rest.named = arguments.named;
    return rest;
}

[[noreturn]] void fail_name(Runtime& runtime, const char* what, const Value& name) {
    if (name.is(Kind::undefined)) {
        fail(fmt::format("No {} named Undefined. ({}; did you forget to quote the callable name?)", what,
                         name.as<UndefinedObject>().message));
    }
    fail(fmt::format("No {} named {}.", what, represent(runtime, name).view()));
}

Transform map_by_attribute(Runtime& runtime, Arguments arguments) {
    const Value attribute = arguments.take("attribute");
    Value otherwise = arguments.take("default");
    if (otherwise.is(Kind::none)) otherwise = Value();
    if (!arguments.named.empty()) {
        fail(fmt::format("Unexpected keyword argument '{}'", arguments.named.front().first.view()));
    }
    return [read = AttributeReader(runtime, attribute, false, otherwise)](const Value& item, Value& result) {
        result = read(item);
        return true;
    };
}

Transform map_by_filter(Runtime& runtime, const Arguments& arguments) {
    if (arguments.positional.empty()) fail("map requires a filter argument");
    const Value name = arguments.positional.front();
    const Method* filter = name.is(Kind::text) ? find_filter(name.text().view()) : nullptr;
    return [&runtime, name, filter, rest = arguments_after(arguments, 1)](const Value& item, Value& result) {
        if (filter == nullptr) fail_name(runtime, "filter", name);
        result = filter->native(runtime, item, rest);
        return true;
    };
}

Value map_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const bool is_attribute = arguments.positional.empty() &&
                              std::any_of(arguments.named.begin(), arguments.named.end(),
                                          [](const auto& named) { return named.first.view() == "attribute"; });
    return Value(runtime.heap.make<StreamIterator>(runtime, self, [&runtime, arguments, is_attribute] {
        return is_attribute ? map_by_attribute(runtime, arguments) : map_by_filter(runtime, arguments);
    }));
}

// What select and its kin ask of each item: a test by name, or its truth.
Transform selection(Runtime& runtime, const Arguments& arguments, bool wanted, bool by_attribute) {
    const size_t offset = by_attribute ? 1 : 0;
    if (arguments.positional.size() < offset) fail("Missing parameter for attribute name");
    const AttributeReader read(runtime, by_attribute ? arguments.positional[0] : Value::none(), false);
    if (arguments.positional.size() <= offset) {
        return [&runtime, read, wanted](const Value& item, Value& result) {
            result = item;
            return truth(runtime, read(item)) == wanted;
        };
    }
    const Value name = arguments.positional[offset];
    const Method* test = name.is(Kind::text) ? find_test(name.text().view()) : nullptr;
    return [&runtime, read, wanted, name, test, rest = arguments_after(arguments, offset + 1)](const Value& item,
                                                                                               Value& result) {
        if (test == nullptr) fail_name(runtime, "test", name);
        result = item;
        return truth(runtime, test->native(runtime, read(item), rest)) == wanted;
    };
}

template <bool wanted, bool by_attribute>
Value select_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    return Value(runtime.heap.make<StreamIterator>(
        runtime, self, [&runtime, arguments] { return selection(runtime, arguments, wanted, by_attribute); }));
}

constexpr Method kOfSelections[] = {
    {"map", map_filter},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<false, true>},
    {"select", select_filter<true, false>},
    {"selectattr", select_filter<true, true>},
};

constexpr std::string_view kRefused[] = {"pprint", "random", "striptags", "urlize", "wordwrap"};

}  // namespace

const std::span<const Method> kSelectionFilters = kOfSelections;

const Method* find_filter(std::string_view name) {
    for (const auto& table : {kTextFilters, kSequenceFilters, kSelectionFilters, kNumberFilters}) {
        const auto found =
            std::find_if(table.begin(), table.end(), [&](const Method& filter) { return filter.name == name; });
        if (found != table.end()) return &*found;
    }
    return nullptr;
}

bool is_refused_filter(std::string_view name) {
    return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
}

Value deferred(Runtime& runtime, std::function<std::vector<Value>()> make) {
    return Value(runtime.heap.make<DeferredIterator>(std::move(make)));
}

AttributeReader::AttributeReader(Runtime& runtime, const Value& attribute, bool without_case, Value otherwise)
    : runtime_(&runtime), without_case_(without_case), otherwise_(std::move(otherwise)) {
    if (attribute.is(Kind::none)) return;
    if (!attribute.is(Kind::text)) {
        parts_.push_back(attribute);
        return;
    }
    for (const Text& part : split(runtime, attribute.text(), Text(".", Origin::template_text), -1)) {
        const bool is_number = !part.empty() && part.view().find_first_not_of("0123456789") == std::string_view::npos;
        parts_.push_back(is_number ? Value(*parse_integer(part)) : Value(part));
    }
}

Value AttributeReader::operator()(const Value& item_read) const {
    Value value = item_read;
    for (const Value& part : parts_) {
        value = item(*runtime_, value, part);
        if (value.is(Kind::undefined) && !otherwise_.is_missing()) value = otherwise_;
    }
    return without_case_ ? without_case(*runtime_, value) : value;
}

Value without_case(Runtime& runtime, const Value& value) {
    return value.is(Kind::text) ? Value(to_lower(runtime, value.text())) : value;
}

}  // namespace gemmatrace::text::jinja
