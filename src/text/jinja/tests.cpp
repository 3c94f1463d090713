// The tests behind `is`.
#include "text/jinja/tests.h"

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

template <bool (*Predicate)(const Value&)>
Value test_of(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("test", arguments, {});
    return Value(Predicate(self));
}

template <Kind kind>
bool is_kind(const Value& value) {
    return value.is(kind);
}

bool is_defined(const Value& value) { return !value.is(Kind::undefined); }
bool is_true(const Value& value) { return value.is(Kind::boolean) && value.boolean(); }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.boolean(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_escaped(const Value& value) { return value.is(Kind::text) && value.text().is_markup(); }
bool is_iterable_test(const Value& value) { return is_iterable(value) || value.is(Kind::loop); }

bool is_sequence(const Value& value) {
    return has_length(value) && !value.is(Kind::dict_view) && !value.is(Kind::loop);
}

bool is_callable(const Value& value) {
    switch (value.kind()) {
        case Kind::function:
        case Kind::macro:
        case Kind::loop:
        case Kind::joiner:
        case Kind::undefined:
            return true;
        default:
            return false;
    }
}

template <CompareOperator what>
Value compare_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("comparison", arguments, {""}, 1);
    return Value(compare(runtime, what, self, bound[0]));
}

Value in_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("in", arguments, {"seq"}, 1);
    return Value(contains(runtime, bound[0], self));
}

// value % divisor == remainder, with whatever % means for the value.
bool leaves(Runtime& runtime, const Value& value, const Value& divisor, int remainder) {
    return equal(runtime.meter, apply_binary(runtime, BinaryOperator::modulo, value, divisor), Value(remainder));
}

template <int remainder>
Value parity_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("odd", arguments, {});
    return Value(leaves(runtime, self, Value(2), remainder));
}

Value divisibleby_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("divisibleby", arguments, {"num"}, 1);
    return Value(leaves(runtime, self, bound[0], 0));
}

template <bool wants_upper>
Value case_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("lower", arguments, {});
    return Value(has_case(runtime, to_text(runtime, self), wants_upper));
}

Value sameas_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("sameas", arguments, {"other"}, 1);
    const Value& other = bound[0];
    if (self.kind() != other.kind()) return Value(false);
    if (self.kind() <= Kind::text) return Value(equal(runtime.meter, self, other));
    return Value(self.object() == other.object());
}

template <const Method* (*Find)(std::string_view)>
Value name_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder none("filter", arguments, {});
    hash_value(runtime.meter, self);  // fails for what cannot be a name at all
    return Value(self.is(Kind::text) && Find(self.text().view()) != nullptr);
}

constexpr Method kTests[] = {
    {"!=", compare_test<CompareOperator::not_equal>},
    {"<", compare_test<CompareOperator::less>},
    {"<=", compare_test<CompareOperator::less_equal>},
    {"==", compare_test<CompareOperator::equal>},
    {">", compare_test<CompareOperator::greater>},
    {">=", compare_test<CompareOperator::greater_equal>},
    {"boolean", test_of<is_kind<Kind::boolean>>},
    {"callable", test_of<is_callable>},
    {"defined", test_of<is_defined>},
    {"divisibleby", divisibleby_test},
    {"eq", compare_test<CompareOperator::equal>},
    {"equalto", compare_test<CompareOperator::equal>},
    {"escaped", test_of<is_escaped>},
    {"even", parity_test<0>},
    {"false", test_of<is_false>},
    {"filter", name_test<find_filter>},
    {"float", test_of<is_kind<Kind::real>>},
    {"ge", compare_test<CompareOperator::greater_equal>},
    {"greaterthan", compare_test<CompareOperator::greater>},
    {"gt", compare_test<CompareOperator::greater>},
    {"in", in_test},
    {"integer", test_of<is_kind<Kind::integer>>},
    {"iterable", test_of<is_iterable_test>},
    {"le", compare_test<CompareOperator::less_equal>},
    {"lessthan", compare_test<CompareOperator::less>},
    {"lower", case_test<false>},
    {"lt", compare_test<CompareOperator::less>},
    {"mapping", test_of<is_kind<Kind::dict>>},
    {"ne", compare_test<CompareOperator::not_equal>},
    {"none", test_of<is_kind<Kind::none>>},
    {"number", test_of<is_number>},
    {"odd", parity_test<1>},
    {"sameas", sameas_test},
    {"sequence", test_of<is_sequence>},
    {"string", test_of<is_kind<Kind::text>>},
    {"test", name_test<find_test>},
    {"true", test_of<is_true>},
    {"undefined", test_of<is_kind<Kind::undefined>>},
    {"upper", case_test<true>},
};

}  // namespace

const Method* find_test(std::string_view name) {
    const auto* found =
        std::find_if(std::begin(kTests), std::end(kTests), [&](const Method& test) { return test.name == name; });
    return found == std::end(kTests) ? nullptr : found;
}

}  // namespace gemmatrace::text::jinja
