// Look-ahead, length and attributes of loops.
#include "text/jinja/loop.h"

#include <algorithm>

#include "text/jinja/attributes.h"

namespace gemmatrace::text::jinja {

namespace {

Value cycle_method(Runtime&, const Value& self, const Arguments& arguments) {
    if (!arguments.named.empty()) fail("loop.cycle takes no keyword arguments");
    if (arguments.positional.empty()) fail("no items for cycling given");
    return arguments.positional[static_cast<size_t>(self.as<LoopObject>().items.index) % arguments.positional.size()];
}

Value changed_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
    if (!arguments.named.empty()) fail("loop.changed takes no keyword arguments");
    auto& last = self.as<LoopObject>().changed;
    const auto is_same = [&](const Value& left, const Value& right) { return equal(runtime.meter, left, right); };
    if (last &&
        std::equal(last->begin(), last->end(), arguments.positional.begin(), arguments.positional.end(), is_same)) {
        return Value(false);
    }
    last = arguments.positional;
    return Value(true);
}

}  // namespace

LoopItems::LoopItems(Interpreter& interpreter, Runtime& runtime, const LoopStatement& statement, Activation& activation,
                     const Value& sequence)
    : interpreter_(interpreter),
      runtime_(runtime),
      statement_(statement),
      activation_(activation),
      sequence_(sequence),
      cursor_(runtime, sequence) {}

bool LoopItems::draw(Value& item) {
    if (rest_at_ < rest_.size()) {
        item = std::move(rest_[rest_at_++]);
        return true;
    }
    if (statement_.test != nullptr && !is_test_entered_) {
        is_test_entered_ = true;
        interpreter_.enter_test(statement_, activation_);
    }
    while (cursor_.next(item)) {
        if (statement_.test == nullptr || interpreter_.passes_test(statement_, activation_, item)) return true;
    }
    return false;
}

bool LoopItems::next(Value& item) {
    if (after_) {
        item = std::move(*after_);
        after_.reset();
    } else if (!draw(item)) {
        return false;
    }
    ++index;
    previous = std::move(current);
    current = item;
    return true;
}

const Value* LoopItems::peek() {
    if (!after_) {
        Value item;
        if (draw(item)) after_ = std::move(item);
    }
    return after_ ? &*after_ : nullptr;
}

size_t LoopItems::length() {
    if (length_) return *length_;
    if (statement_.test == nullptr && has_length(sequence_)) {
        length_ = gemmatrace::text::jinja::length(runtime_, sequence_);
        return *length_;
    }
    std::vector<Value> rest;
    for (Value item; draw(item);) rest.push_back(item);
    rest_ = std::move(rest);
    rest_at_ = 0;
    length_ = rest_.size() + static_cast<size_t>(index + 1) + (after_ ? 1 : 0);
    return *length_;
}

Value loop_property(Runtime& runtime, const Value& loop, std::string_view name) {
    auto& object = loop.as<LoopObject>();
    LoopItems& items = object.items;
    if (name == "index0") return Value(items.index);
    if (name == "index") return Value(items.index + 1);
    if (name == "first") return Value(items.index == 0);
    if (name == "last") return Value(items.peek() == nullptr);
    if (name == "length") return Value(items.length());
    if (name == "revindex") return Value(static_cast<int64_t>(items.length()) - items.index);
    if (name == "revindex0") return Value(static_cast<int64_t>(items.length()) - items.index - 1);
    if (name == "depth") return Value(object.depth + 1);
    if (name == "depth0") return Value(object.depth);
    if (name == "previtem") return items.index > 0 ? items.previous : runtime.undefined("there is no previous item");
    if (name == "nextitem") {
        const Value* after = items.peek();
        return after != nullptr ? *after : runtime.undefined("there is no next item");
    }
    if (name == "cycle") return Value(runtime.heap.make<FunctionObject>("cycle", loop, cycle_method));
    if (name == "changed") return Value(runtime.heap.make<FunctionObject>("changed", loop, changed_method));
    return {};
}

}  // namespace gemmatrace::text::jinja
