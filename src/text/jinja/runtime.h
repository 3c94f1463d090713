// What every operation of a render shares: its meter, its heap, the current line, and how calls and loops work.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/value.h"

namespace gemmatrace::text::jinja {

struct Runtime;

// The arguments of one call, already evaluated. Names are texts because **kwargs may bring them from the request.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<Text, Value>> named;

    // Takes a named argument out; missing when it was not given.
    Value take(std::string_view name);
};

using Native = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

// A function of ours, or a method bound to its value.
struct FunctionObject : Object {
    FunctionObject(std::string_view what, Value bound, Native code)
        : Object(Kind::function), name(what), self(std::move(bound)), native(code) {}
    std::string_view name;
    Value self;
    Native native;
};

// The parts of a render that only the interpreter can do.
class Callbacks {
  public:
    virtual ~Callbacks() = default;
    virtual Value call_macro(const Value& macro, Arguments arguments) = 0;
    virtual Value call_loop(const Value& loop, const Arguments& arguments) = 0;
    // loop.index and the like; missing when there is no such attribute.
    virtual Value loop_attribute(const Value& loop, std::string_view name) = 0;
    virtual Value macro_attribute(const Value& macro, std::string_view name) = 0;
    virtual size_t loop_length(const Value& loop) = 0;
    virtual std::string describe(const Value& macro_or_loop) = 0;
};

struct Runtime {
    Runtime(const TemplateLimits& limits, const LocalTime& time) : meter(limits), heap(meter), now(time) {}

    Meter meter;
    Heap heap;
    LocalTime now;
    int line = 0;  // of the operation under way, for errors
    Callbacks* callbacks = nullptr;

    Value undefined(std::string message) { return Value(heap.make<UndefinedObject>(std::move(message))); }
};

// Matches arguments to a function's parameters, as Python does. The first `required` must be given.
class Binder {
  public:
    Binder(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters,
           size_t required = 0);

    // The argument of the parameter at `index`; missing when it was not given.
    const Value& operator[](size_t index) const { return *values_[index]; }
    bool has(size_t index) const { return !values_[index]->is_missing(); }
    const Value& get(size_t index, const Value& otherwise) const { return has(index) ? *values_[index] : otherwise; }

  private:
    static constexpr size_t kMaxParameters = 6;
    const Value* values_[kMaxParameters];
};

// Walks anything that Python can iterate over; throws "'int' object is not iterable" for the rest.
class Cursor {
  public:
    Cursor(Runtime& runtime, Value value);
    bool next(Value& item);

  private:
    bool next_of_text(Value& item);
    bool next_of_dict(const Dict& dict, DictPart part, Value& item);

    Runtime* runtime_;
    Value value_;
    size_t at_ = 0;
};

// Whether iter(value) works.
bool is_iterable(const Value& value);
// list(value).
std::vector<Value> to_vector(Runtime& runtime, const Value& value);
// Calls any value; throws "'str' object is not callable" for the rest.
Value call(Runtime& runtime, const Value& callee, Arguments arguments);

// Python's bool(), len() and operator.index().
bool truth(Runtime& runtime, const Value& value);
bool has_length(const Value& value);
size_t length(Runtime& runtime, const Value& value);
Integer to_index(const Value& value);
// An index clamped to what positions can be.
int64_t to_position(const Value& value);

}  // namespace gemmatrace::text::jinja
