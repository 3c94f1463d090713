// range, dict, namespace, cycler, joiner and Hugging Face's two additions.
#include "text/jinja/globals.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr Integer kMaxRange = 100000;  // as in jinja2's sandbox

Value range_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    const Binder bound("range", arguments, {"", "", ""}, 1);
    const Integer first = to_index(bound[0]);
    const Integer start = bound.has(1) ? first : 0;
    const Integer stop = bound.has(1) ? to_index(bound[1]) : first;
    const Integer step = bound.has(2) ? to_index(bound[2]) : 1;
    if (step == 0) fail("range() arg 3 must not be zero");
    constexpr Integer kFarthest = Integer{1} << 100;
    for (const Integer edge : {start, stop, step}) {
        if (edge > kFarthest || edge < -kFarthest) fail("range() arguments are too large");
    }
    auto* range = runtime.heap.make<RangeObject>(start, stop, step);
    if (range->size() > kMaxRange) {
        fail(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                         static_cast<int>(kMaxRange)));
    }
    return Value(range);
}

// dict(mapping or pairs, **named).
void fill(Runtime& runtime, Dict& dict, const Arguments& arguments, std::string_view function) {
    if (arguments.positional.size() > 1) {
        fail(fmt::format("{} expected at most 1 argument, got {}", function, arguments.positional.size()));
    }
    if (!arguments.positional.empty()) {
        const Value& source = arguments.positional.front();
        if (source.is(Kind::undefined)) fail(source.as<UndefinedObject>().message);
        if (source.is(Kind::dict)) {
            for (const auto& [key, value] : source.as<DictObject>().dict.entries()) {
                runtime.meter.step();
                dict.set(runtime.meter, key, value);
            }
        } else {
            Cursor cursor(runtime, source);
            for (Value pair; cursor.next(pair);) {
                std::vector<Value> parts = to_vector(runtime, pair);
                if (parts.size() != 2) {
                    fail(fmt::format("dictionary update sequence element has length {}; 2 is required", parts.size()));
                }
                dict.set(runtime.meter, parts[0], std::move(parts[1]));
            }
        }
    }
    for (const auto& [name, value] : arguments.named) dict.set(runtime.meter, Value(name), value);
}

Value dict_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    auto* made = runtime.heap.make<DictObject>();
    fill(runtime, made->dict, arguments, "dict");
    return Value(made);
}

Value namespace_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    auto* made = runtime.heap.make<NamespaceObject>();
    fill(runtime, made->attributes, arguments, "namespace");
    return Value(made);
}

Value cycler_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    if (!arguments.named.empty()) fail("cycler() takes no keyword arguments");
    if (arguments.positional.empty()) fail("at least one item has to be provided");
    return Value(runtime.heap.make<CyclerObject>(arguments.positional));
}

Value joiner_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    const Binder bound("joiner", arguments, {"sep"});
    return Value(runtime.heap.make<JoinerObject>(bound.get(0, literal(", "))));
}

Value lipsum_function(Runtime&, const Value&, const Arguments&) {
    fail("lipsum makes random text, which chat templates cannot use");
}

Value raise_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    const Binder bound("raise_exception", arguments, {"message"}, 1);
    fail(std::string(to_text(runtime, bound[0]).view()));
}

Value strftime_function(Runtime& runtime, const Value&, const Arguments& arguments) {
    const Binder bound("strftime_now", arguments, {"format"}, 1);
    const Text& format = text_argument(bound[0], "strftime_now");
    std::string text = format_time(runtime.now, std::string(format.view()));
    runtime.meter.check_text_size(text.size());
    return Value(Text(std::move(text), format.empty() ? Origin::template_text : format.origin_at(0)));
}

constexpr Method kGlobals[] = {
    {"cycler", cycler_function},       {"dict", dict_function},
    {"joiner", joiner_function},       {"lipsum", lipsum_function},
    {"namespace", namespace_function}, {"raise_exception", raise_function},
    {"range", range_function},         {"strftime_now", strftime_function},
};

}  // namespace

Value find_global(Runtime& runtime, std::string_view name) {
    for (const Method& global : kGlobals) {
        if (global.name == name) return Value(runtime.heap.make<FunctionObject>(global.name, Value(), global.native));
    }
    return {};
}

}  // namespace gemmatrace::text::jinja
