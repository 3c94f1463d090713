// jinja2's filters: value|name(arguments). One entry a name; the value comes as `self`.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "text/jinja/attributes.h"

namespace gemmatrace::text::jinja {

extern const std::span<const Method> kTextFilters;
extern const std::span<const Method> kNumberFilters;
extern const std::span<const Method> kSequenceFilters;
extern const std::span<const Method> kSelectionFilters;

// The filter of this name, or null when jinja2 has none.
const Method* find_filter(std::string_view name);
// A filter that jinja2 has and we refuse, because its result is random or needs tables that templates never use.
bool is_refused_filter(std::string_view name);

// Reads an attribute path such as "function.name" or 0 from an item (make_attrgetter).
class AttributeReader {
  public:
    // attribute: text, whole number or none; without_case: texts are lowered for comparison.
    AttributeReader(Runtime& runtime, const Value& attribute, bool without_case, Value otherwise = Value());
    Value operator()(const Value& item) const;

  private:
    Runtime* runtime_;
    std::vector<Value> parts_;
    bool without_case_;
    Value otherwise_;  // in place of an undefined part; missing: none
};

// The value with texts in lower case, for comparisons that ignore it.
Value without_case(Runtime& runtime, const Value& value);

// A generator whose items are all made when the first is asked for.
Value deferred(Runtime& runtime, std::function<std::vector<Value>()> make);

}  // namespace gemmatrace::text::jinja
