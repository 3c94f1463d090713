// Equality, hashing and the ordered dictionary.
#include "text/jinja/value.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace gemmatrace::text::jinja {

namespace {

size_t mix(size_t seed, size_t value) { return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)); }

size_t hash_integer(Integer value) {
    const auto bits = static_cast<UnsignedInteger>(value);
    return mix(static_cast<size_t>(bits), static_cast<size_t>(bits >> 64));
}

bool equal_items(Meter& meter, std::span<const Value> left, std::span<const Value> right) {
    if (left.size() != right.size()) return false;
    for (size_t index = 0; index < left.size(); ++index) {
        if (!equal(meter, left[index], right[index])) return false;
    }
    return true;
}

bool equal_dicts(Meter& meter, const Dict& left, const Dict& right) {
    if (left.size() != right.size()) return false;
    for (const auto& [key, value] : left.entries()) {
        const Value* other = right.find(meter, key);
        if (other == nullptr || !equal(meter, value, *other)) return false;
    }
    return true;
}

bool equal_ranges(const RangeObject& left, const RangeObject& right) {
    if (left.size() != right.size()) return false;
    if (left.size() == 0) return true;
    return left.start == right.start && (left.size() == 1 || left.step == right.step);
}

bool equal_numbers(const Value& left, const Value& right) {
    if (left.is_whole() && right.is_whole()) return left.integer() == right.integer();
    if (left.is(Kind::real) && right.is(Kind::real)) return left.real() == right.real();
    const double real = left.is(Kind::real) ? left.real() : right.real();
    const Integer whole = left.is(Kind::real) ? right.integer() : left.integer();
    // Every double below 2^127 that is whole has an exact Integer.
    return std::fabs(real) < 0x1p126 && std::trunc(real) == real && static_cast<Integer>(real) == whole;
}

}  // namespace

bool equal(Meter& meter, const Value& left, const Value& right) {
    meter.step();
    if (left.is_number() && right.is_number()) return equal_numbers(left, right);
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
        case Kind::missing:
        case Kind::none:
        case Kind::undefined:
            return true;
        case Kind::text:
            meter.work(left.text().size());
            return left.text() == right.text();
        default:
            break;
    }
    if (left.object() == right.object()) return true;
    const CallDepth depth(meter);
    switch (left.kind()) {
        case Kind::list:
        case Kind::tuple:
            return equal_items(meter, left.as<SequenceObject>().items, right.as<SequenceObject>().items);
        case Kind::dict:
            return equal_dicts(meter, left.as<DictObject>().dict, right.as<DictObject>().dict);
        case Kind::range:
            return equal_ranges(left.as<RangeObject>(), right.as<RangeObject>());
        default:
            return false;
    }
}

size_t hash_value(Meter& meter, const Value& value) {
    switch (value.kind()) {
        case Kind::text:
            return std::hash<std::string_view>{}(value.text().view());
        case Kind::boolean:
        case Kind::integer:
            return hash_integer(value.integer());
        case Kind::real: {
            const double real = value.real();
            if (std::fabs(real) < 0x1p126 && std::trunc(real) == real) return hash_integer(static_cast<Integer>(real));
            return std::hash<double>{}(real);
        }
        case Kind::tuple: {
            const CallDepth depth(meter);
            size_t hash = 1;
            for (const Value& item : value.as<SequenceObject>().items) {
                meter.step();
                hash = mix(hash, hash_value(meter, item));
            }
            return hash;
        }
        case Kind::list:
        case Kind::dict:
            fail(fmt::format("unhashable type: '{}'", type_name(value)));
        case Kind::missing:
        case Kind::none:
        case Kind::undefined:
            return static_cast<size_t>(value.kind());
        default:
            return std::hash<Object*>{}(value.object());
    }
}

std::optional<size_t> Dict::position(Meter& meter, const Value& key, size_t hash) const {
    if (index_.empty()) {
        for (size_t at = 0; at < entries_.size(); ++at) {
            if (equal(meter, entries_[at].first, key)) return at;
        }
        return std::nullopt;
    }
    for (auto [at, end] = index_.equal_range(hash); at != end; ++at) {
        if (equal(meter, entries_[at->second].first, key)) return at->second;
    }
    return std::nullopt;
}

void Dict::set(Meter& meter, const Value& key, Value value) {
    const size_t hash = hash_value(meter, key);
    if (const auto at = position(meter, key, hash)) {
        entries_[*at].second = std::move(value);
        return;
    }
    meter.take(sizeof(Entry) + sizeof(std::pair<size_t, size_t>));
    entries_.emplace_back(key, std::move(value));
    if (entries_.size() <= kSearched) return;
    if (!index_.empty()) {
        index_.emplace(hash, entries_.size() - 1);
        return;
    }
    for (size_t at = 0; at < entries_.size(); ++at) index_.emplace(hash_value(meter, entries_[at].first), at);
}

const Value* Dict::find(Meter& meter, const Value& key) const {
    const auto at = position(meter, key, hash_value(meter, key));
    return at ? &entries_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
    if (index_.empty()) {
        for (const auto& [name, value] : entries_) {
            if (name.is(Kind::text) && name.text().view() == key) return &value;
        }
        return nullptr;
    }
    for (auto [at, end] = index_.equal_range(std::hash<std::string_view>{}(key)); at != end; ++at) {
        const auto& [name, value] = entries_[at->second];
        if (name.is(Kind::text) && name.text().view() == key) return &value;
    }
    return nullptr;
}

Integer RangeObject::size() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

void Heap::adopt(std::unique_ptr<Object> object, size_t bytes) {
    meter_.take(bytes + kOverhead);
    objects_.push_back(std::move(object));
}

Value Heap::sequence(Kind kind, std::vector<Value> items) {
    meter_.take(items.capacity() * sizeof(Value));
    const size_t count = items.size();
    auto* storage = make<SequenceStorage>(std::move(items));
    return Value(make<SequenceObject>(kind, storage, 0, count));
}

Value Heap::part(const SequenceObject& sequence, size_t begin, size_t count) {
    const auto first = static_cast<size_t>(sequence.items.data() - sequence.storage->values.data());
    return Value(make<SequenceObject>(sequence.kind, sequence.storage, first + begin, count));
}

Value Heap::joined(const SequenceObject& left, const SequenceObject& right) {
    const size_t count = left.items.size() + right.items.size();
    SequenceStorage* storage = left.storage;
    auto first = static_cast<size_t>(left.items.data() - storage->values.data());
    const bool is_last = first + left.items.size() == storage->values.size();
    if (!is_last || storage->values.capacity() - storage->values.size() < right.items.size()) {
        std::vector<Value> longer;
        longer.reserve(count * 2);
        meter_.take(longer.capacity() * sizeof(Value));
        meter_.step(static_cast<int64_t>(left.items.size()));
        longer.assign(left.items.begin(), left.items.end());
        storage = make<SequenceStorage>(std::move(longer));
        first = 0;
    }
    meter_.step(static_cast<int64_t>(right.items.size()));
    for (const Value& item : right.items) storage->values.push_back(item);  // never reallocates: see above
    return Value(make<SequenceObject>(left.kind, storage, first, count));
}

std::string_view type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::missing:
            return "missing";
        case Kind::none:
            return "NoneType";
        case Kind::boolean:
            return "bool";
        case Kind::integer:
            return "int";
        case Kind::real:
            return "float";
        case Kind::text:
            return value.text().is_markup() ? "Markup" : "str";
        case Kind::undefined:
            return "Undefined";
        case Kind::list:
            return "list";
        case Kind::tuple:
            return "tuple";
        case Kind::dict:
            return "dict";
        case Kind::dict_view: {
            constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
            return kNames[static_cast<size_t>(value.as<DictViewObject>().part)];
        }
        case Kind::range:
            return "range";
        case Kind::iterator:
            return value.as<IteratorObject>().type_name;
        case Kind::name_space:
            return "Namespace";
        case Kind::macro:
            return "Macro";
        case Kind::function:
            return "function";
        case Kind::loop:
            return "LoopContext";
        case Kind::cycler:
            return "Cycler";
        case Kind::joiner:
            return "Joiner";
    }
    return "object";
}

}  // namespace gemmatrace::text::jinja
