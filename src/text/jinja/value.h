// The values a template computes with: Python's kinds, ordered dictionaries, and the objects of one render.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace gemmatrace::text::jinja {

// Wide enough for every integer that JSON brings; Python's are unbounded, ours end in an error.
__extension__ using Integer = __int128;
__extension__ using UnsignedInteger = unsigned __int128;

enum class Kind : unsigned char {
    missing,  // no value at all: an unset slot or an argument that was not given
    none,
    boolean,
    integer,
    real,
    text,
    undefined,
    list,
    tuple,
    dict,
    dict_view,
    range,
    iterator,
    name_space,
    macro,
    function,
    loop,
    cycler,
    joiner,
};

// What lives as long as the render and is shared by reference.
struct Object {
    explicit Object(Kind what) : kind(what) {}
    virtual ~Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    const Kind kind;
};

class Value {
  public:
    Value() = default;
    explicit Value(bool value) : data_(value) {}
    template <class Number>
    requires std::integral<Number> &&(!std::same_as<Number, bool>)explicit Value(Number value)
        : data_(static_cast<Integer>(value)) {}
    explicit Value(Integer value) : data_(value) {}
    explicit Value(double value) : data_(value) {}
    explicit Value(Text value) : data_(std::move(value)) {}
    explicit Value(Object* object) : data_(object) {}
    Value(const char*) = delete;  // would become a bool
    static Value none() { return Value(None{}); }

    Kind kind() const {
        return data_.index() < kObjectIndex ? static_cast<Kind>(data_.index()) : std::get<Object*>(data_)->kind;
    }
    bool is(Kind kind_asked) const { return kind() == kind_asked; }
    bool is_missing() const { return data_.index() == 0; }
    // bool and int: Python's bool is an int.
    bool is_whole() const { return is(Kind::integer) || is(Kind::boolean); }
    bool is_number() const { return is_whole() || is(Kind::real); }

    bool boolean() const { return std::get<bool>(data_); }
    // Of a whole number.
    Integer integer() const { return is(Kind::boolean) ? Integer{boolean()} : std::get<Integer>(data_); }
    // Of any number.
    double real() const { return is(Kind::real) ? std::get<double>(data_) : static_cast<double>(integer()); }
    const Text& text() const { return std::get<Text>(data_); }
    Object* object() const { return std::get<Object*>(data_); }
    template <class Type>
    Type& as() const {
        return static_cast<Type&>(*object());
    }

  private:
    struct None {};
    using Data = std::variant<std::monostate, None, bool, Integer, double, Text, Object*>;
    static constexpr size_t kObjectIndex = 6;  // the scalars stand in the order of Kind

    explicit Value(None none) : data_(none) {}

    Data data_;
};

// Python's == and hash(); hash throws for values that cannot be keys ("unhashable type: 'list'").
bool equal(Meter& meter, const Value& left, const Value& right);
size_t hash_value(Meter& meter, const Value& value);

// A dictionary in order of insertion. Small ones are searched; an index of hashes is made when they grow.
class Dict {
  public:
    using Entry = std::pair<Value, Value>;

    // Sets key to value; an equal key keeps its place and its own text, as in Python.
    void set(Meter& meter, const Value& key, Value value);
    // The value of a key, or null; an unhashable key throws.
    const Value* find(Meter& meter, const Value& key) const;
    const Value* find(std::string_view key) const;
    const std::vector<Entry>& entries() const { return entries_; }
    size_t size() const { return entries_.size(); }

  private:
    static constexpr size_t kSearched = 8;

    std::optional<size_t> position(Meter& meter, const Value& key, size_t hash) const;

    std::vector<Entry> entries_;
    std::unordered_multimap<size_t, size_t> index_;  // hash to position; empty while there are few entries
};

// A name, attribute or item that is not there: prints as nothing, is false, and fails with its message when used.
struct UndefinedObject : Object {
    explicit UndefinedObject(std::string text) : Object(Kind::undefined), message(std::move(text)) {}
    std::string message;
};

// The values that lists share. It grows at its end only and never moves them.
struct SequenceStorage : Object {
    explicit SequenceStorage(std::vector<Value> list) : Object(Kind::missing), values(std::move(list)) {}
    std::vector<Value> values;
};

// A list or tuple. Templates cannot change one, so slices and longer lists share the values of the list they come from.
struct SequenceObject : Object {
    SequenceObject(Kind what, SequenceStorage* from, size_t begin, size_t count)
        : Object(what), storage(from), items(std::span<const Value>(from->values).subspan(begin, count)) {}
    SequenceStorage* storage;
    std::span<const Value> items;
    bool is_group = false;  // a tuple of |groupby: has the attributes `grouper` and `list`
};

struct DictObject : Object {
    DictObject() : Object(Kind::dict) {}
    Dict dict;
};

enum class DictPart : unsigned char { keys, values, items };

struct DictViewObject : Object {
    DictViewObject(const DictObject* of, DictPart which) : Object(Kind::dict_view), source(of), part(which) {}
    const DictObject* source;
    DictPart part;
};

struct RangeObject : Object {
    RangeObject(Integer first, Integer end, Integer by) : Object(Kind::range), start(first), stop(end), step(by) {}
    Integer size() const;
    Integer at(Integer index) const { return start + index * step; }
    Integer start, stop, step;
};

// A generator: values made when asked for, each once.
struct IteratorObject : Object {
    explicit IteratorObject(const char* python_type) : Object(Kind::iterator), type_name(python_type) {}
    // The next value; false at the end.
    virtual bool next(Value& value) = 0;
    const char* type_name;
};

struct NamespaceObject : Object {
    NamespaceObject() : Object(Kind::name_space) {}
    Dict attributes;
};

struct CyclerObject : Object {
    explicit CyclerObject(std::vector<Value> values) : Object(Kind::cycler), items(std::move(values)) {}
    std::vector<Value> items;
    size_t position = 0;
};

struct JoinerObject : Object {
    explicit JoinerObject(Value text) : Object(Kind::joiner), separator(std::move(text)) {}
    Value separator;
    bool is_used = false;
};

// Owns the objects of a render; nothing is freed before its end, so cycles and deep nesting cost nothing to release.
class Heap {
  public:
    explicit Heap(Meter& meter) : meter_(meter) {}

    template <class Type, class... Arguments>
    Type* make(Arguments&&... arguments) {
        meter_.take(sizeof(Type) + kOverhead);
        auto owned = std::make_unique<Type>(std::forward<Arguments>(arguments)...);
        Type* object = owned.get();
        objects_.push_back(std::move(owned));
        return object;
    }
    void adopt(std::unique_ptr<Object> object, size_t bytes);
    Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
    Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
    Value sequence(Kind kind, std::vector<Value> items);
    // The items [begin, begin + count) of a sequence, without a copy.
    Value part(const SequenceObject& sequence, size_t begin, size_t count);
    // left + right, of left's kind. Appending to what was appended to last costs only the new items.
    Value joined(const SequenceObject& left, const SequenceObject& right);

  private:
    static constexpr size_t kOverhead = 32;  // of the allocator and our list

    Meter& meter_;
    std::vector<std::unique_ptr<Object>> objects_;
};

// Python's name of the value's type: "str", "NoneType", …
std::string_view type_name(const Value& value);

// A text of the template's own making that no meter counts: names, small constants.
inline Value literal(std::string text) { return Value(Text(std::move(text), Origin::template_text)); }

}  // namespace gemmatrace::text::jinja
