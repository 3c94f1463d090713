// Runs a tree: statements write text, expressions give values.
#pragma once

#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

// The variables of one run of a function: of the template, a macro, a recursive loop.
struct Activation : Object {
    Activation(Activation* around, int slot_count)
        : Object(Kind::missing), parent(around), slots(static_cast<size_t>(slot_count)) {}
    Activation* parent;
    std::vector<Value> slots;
    bool is_captured = false;  // a macro or loop made here may outlive the run
};

struct MacroObject : Object {
    MacroObject(const MacroFunction* code, Activation* around) : Object(Kind::macro), function(code), closure(around) {}
    const MacroFunction* function;
    Activation* closure;
};

class LoopItems;
struct LoopObject;

class Interpreter : public Callbacks {
  public:
    // variables: the values of tree.variables, missing where nothing has the name.
    Interpreter(const Tree& tree, Runtime& runtime, std::vector<Value> variables);

    // Writes the whole template to `out`.
    void run(TextBuilder& out);

    Value call_macro(const Value& macro, Arguments arguments) override;
    Value call_loop(const Value& loop, const Arguments& arguments) override;
    Value loop_attribute(const Value& loop, std::string_view name) override;
    Value macro_attribute(const Value& macro, std::string_view name) override;
    size_t loop_length(const Value& loop) override;
    std::string describe(const Value& macro_or_loop) override;

    // Whether a loop's filtering `if` lets an item through; run in the loop's own activation.
    bool passes_test(const LoopStatement& loop, Activation& activation, const Value& item);
    void enter_test(const LoopStatement& loop, Activation& activation);

  private:
    friend class Capture;
    friend class Entered;

    enum class Flow : unsigned char { onward, leave_loop, next_item };

    // --- statements (interpreter.cpp)
    Flow execute(const Body& body);
    Flow execute(const Statement& statement);
    void write(const OutputStatement& statement);
    // What a filter or call block gives: jinja2 does not turn it into text as {{ }} does.
    void write_text(const Value& value);
    Flow choose(const ConditionStatement& statement);
    Flow loop(const LoopStatement& statement);
    Value loop_recursively(const LoopStatement& statement, Activation& around, const Value& sequence, int depth);
    Flow loop_over(const LoopStatement& statement, const Value& sequence, int depth);
    Flow loop_body(const LoopStatement& statement, LoopItems& items);
    Flow assign_block(const BlockAssignmentStatement& statement);
    Flow with(const WithStatement& statement);
    void call_block(const CallBlockStatement& statement);
    Flow filter_block(const FilterBlockStatement& statement);
    void enter(const Loads& loads);
    void assign(const Expression& target, const Value& value);
    void unpack(const SequenceExpression& target, const Value& value);

    // --- expressions (evaluate.cpp)
    Value evaluate(const Expression& expression);
    Value evaluate_kind(const Expression& expression);
    Value name(const NameExpression& expression);
    Value sequence(const SequenceExpression& expression);
    Value dict(const DictExpression& expression);
    Value unary(const UnaryExpression& expression);
    Value binary(const BinaryExpression& expression);
    Value logic(const LogicExpression& expression);
    Value concat(const ConcatExpression& expression);
    Value comparison(const ComparisonExpression& expression);
    Value conditional(const ConditionalExpression& expression);
    Value attribute_of(const AttributeExpression& expression);
    Value item_of(const ItemExpression& expression);
    Value slice(const SliceExpression& expression);
    Value call_expression(const CallExpression& expression, const Value& caller);
    Value method_call(const CallExpression& expression, const AttributeExpression& callee, const Value& caller);
    Value named(const NamedOperation& expression);
    Value filtered(const NamedOperation& filter, const Value& text);
    Arguments arguments(const ArgumentList& list);
    void add_mapping(const Value& mapping, Arguments& arguments);
    const Value& undefined_of(const Expression& expression, std::string message);

    // --- macros (macro.cpp)
    Value make_macro(const MacroFunction& function);
    void bind(const MacroFunction& function, Arguments arguments, Activation& activation);
    void bind_special(const MacroFunction& function, Arguments& arguments, Activation& activation);
    Value invoke(const MacroFunction& function, Activation& activation);

    Value& slot(const SlotReference& reference);

    const Tree& tree_;
    Runtime& runtime_;
    std::vector<Value> variables_;
    Activation* activation_ = nullptr;
    TextBuilder* out_ = nullptr;
    Value block_text_;  // of the filter block under way: the operand of its innermost filter
    // One undefined a place is enough: conversations ask for absent fields over and over.
    std::unordered_map<const Expression*, std::pair<std::string_view, Value>> undefined_;
};

// Sends what is written to a text of its own while it lives.
class Capture {
  public:
    explicit Capture(Interpreter& interpreter)
        : interpreter_(interpreter), outer_(interpreter.out_), builder_(interpreter.runtime_.meter) {
        interpreter_.out_ = &builder_;
    }
    ~Capture() { interpreter_.out_ = outer_; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Text text() { return builder_.build(); }

  private:
    Interpreter& interpreter_;
    TextBuilder* outer_;
    TextBuilder builder_;
};

// Makes an activation the current one while it lives.
class Entered {
  public:
    Entered(Interpreter& interpreter, Activation& activation)
        : interpreter_(interpreter), outer_(interpreter.activation_) {
        interpreter_.activation_ = &activation;
    }
    ~Entered() { interpreter_.activation_ = outer_; }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

  private:
    Interpreter& interpreter_;
    Activation* outer_;
};

}  // namespace gemmatrace::text::jinja
