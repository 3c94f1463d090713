// The items of a for loop and the special variable `loop` that tells about them.
#pragma once

#include <optional>
#include <vector>

#include "text/jinja/interpreter.h"

namespace gemmatrace::text::jinja {

// Draws a loop's items one by one, through the loop's filtering `if`, with one item of look-ahead.
class LoopItems {
  public:
    LoopItems(Interpreter& interpreter, Runtime& runtime, const LoopStatement& statement, Activation& activation,
              const Value& sequence);

    bool next(Value& item);
    // The item after the current one, or null.
    const Value* peek();
    // How many items there are; draws the rest when the sequence itself cannot tell.
    size_t length();

    int64_t index = -1;  // of the current item
    Value previous;
    Value current;

  private:
    bool draw(Value& item);

    Interpreter& interpreter_;
    Runtime& runtime_;
    const LoopStatement& statement_;
    Activation& activation_;
    Value sequence_;
    Cursor cursor_;
    bool is_test_entered_ = false;
    std::optional<Value> after_;
    std::optional<size_t> length_;
    std::vector<Value> rest_;  // drawn ahead for the length
    size_t rest_at_ = 0;
};

struct LoopObject : Object {
    LoopObject(Interpreter& interpreter, Runtime& runtime, const LoopStatement& what, Activation& own,
               const Value& sequence, int level)
        : Object(Kind::loop),
          statement(what),
          activation(own),
          items(interpreter, runtime, what, own, sequence),
          depth(level) {}

    const LoopStatement& statement;
    Activation& activation;
    LoopItems items;
    int depth;                                  // 0 for the outermost
    std::optional<std::vector<Value>> changed;  // what loop.changed() saw last
};

// loop.index and the others; missing when there is none of that name.
Value loop_property(Runtime& runtime, const Value& loop, std::string_view name);

}  // namespace gemmatrace::text::jinja
