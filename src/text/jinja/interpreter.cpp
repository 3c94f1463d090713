// Statements: output, branches, loops, assignments and blocks.
#include "text/jinja/interpreter.h"

#include <fmt/format.h>

#include "text/jinja/loop.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

Interpreter::Interpreter(const Tree& tree, Runtime& runtime, std::vector<Value> variables)
    : tree_(tree), runtime_(runtime), variables_(std::move(variables)) {}

void Interpreter::run(TextBuilder& out) {
    auto* activation = runtime_.heap.make<Activation>(nullptr, tree_.slot_count);
    const Entered entered(*this, *activation);
    out_ = &out;
    enter(tree_.loads);
    execute(tree_.body);
    out_ = nullptr;
}

Value& Interpreter::slot(const SlotReference& reference) {
    Activation* activation = activation_;
    for (int hop = 0; hop < reference.hops; ++hop) activation = activation->parent;
    return activation->slots[static_cast<size_t>(reference.slot)];
}

void Interpreter::enter(const Loads& loads) {
    for (const SlotLoad& load : loads) {
        Value& target = activation_->slots[static_cast<size_t>(load.slot)];
        switch (load.action) {
            case SlotLoad::Action::nothing:
                break;
            case SlotLoad::Action::clear:
                target = Value();
                break;
            case SlotLoad::Action::alias:
                target = slot(load.source);
                break;
            case SlotLoad::Action::resolve:
                target = variables_[static_cast<size_t>(load.variable)];
                break;
        }
    }
}

Interpreter::Flow Interpreter::execute(const Body& body) {
    for (const Statement* statement : body) {
        const Flow flow = execute(*statement);
        if (flow != Flow::onward) return flow;
    }
    return Flow::onward;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
    const NodeDepth depth(runtime_.meter);
    runtime_.meter.step();
    runtime_.line = statement.line;
    switch (statement.kind) {
        case StatementKind::output:
            write(static_cast<const OutputStatement&>(statement));
            break;
        case StatementKind::condition:
            return choose(static_cast<const ConditionStatement&>(statement));
        case StatementKind::loop:
            return loop(static_cast<const LoopStatement&>(statement));
        case StatementKind::assignment: {
            const auto& assignment = static_cast<const AssignmentStatement&>(statement);
            const Value value = evaluate(*assignment.value);
            runtime_.line = statement.line;
            assign(*assignment.target, value);
            break;
        }
        case StatementKind::block_assignment:
            return assign_block(static_cast<const BlockAssignmentStatement&>(statement));
        case StatementKind::with:
            return with(static_cast<const WithStatement&>(statement));
        case StatementKind::macro: {
            const auto& macro = static_cast<const MacroStatement&>(statement);
            slot(macro.target->reference) = make_macro(macro.function);
            break;
        }
        case StatementKind::call_block:
            call_block(static_cast<const CallBlockStatement&>(statement));
            break;
        case StatementKind::filter_block:
            return filter_block(static_cast<const FilterBlockStatement&>(statement));
        case StatementKind::loop_break:
            return Flow::leave_loop;
        case StatementKind::loop_continue:
            return Flow::next_item;
    }
    return Flow::onward;
}

void Interpreter::write(const OutputStatement& statement) {
    for (const Expression* part : statement.parts) {
        if (part->kind == ExpressionKind::constant) {
            append_text(runtime_, *out_, static_cast<const ConstantExpression*>(part)->value);
            continue;
        }
        const Value value = evaluate(*part);
        runtime_.line = part->line;
        append_text(runtime_, *out_, value);
    }
}

void Interpreter::write_text(const Value& value) {
    if (!value.is(Kind::text)) fail(fmt::format("a block must give text, not a value of type '{}'", type_name(value)));
    append_text(runtime_, *out_, value);
}

Interpreter::Flow Interpreter::choose(const ConditionStatement& statement) {
    for (const auto& branch : statement.branches) {
        if (branch.test == nullptr || truth(runtime_, evaluate(*branch.test))) return execute(branch.body);
    }
    return Flow::onward;
}

Interpreter::Flow Interpreter::loop(const LoopStatement& statement) {
    const Value sequence = evaluate(*statement.sequence);
    runtime_.line = statement.line;
    if (!statement.is_recursive) return loop_over(statement, sequence, 0);
    append_text(runtime_, *out_, loop_recursively(statement, *activation_, sequence, 0));
    return Flow::onward;
}

Value Interpreter::loop_recursively(const LoopStatement& statement, Activation& around, const Value& sequence,
                                    int depth) {
    const CallDepth guard(runtime_.meter);
    around.is_captured = true;
    auto* own = runtime_.heap.make<Activation>(&around, statement.slot_count);
    const Entered entered(*this, *own);
    Capture capture(*this);
    loop_over(statement, sequence, depth);
    return Value(capture.text());
}

Interpreter::Flow Interpreter::loop_over(const LoopStatement& statement, const Value& sequence, int depth) {
    if (statement.loop_slot < 0) {
        LoopItems items(*this, runtime_, statement, *activation_, sequence);
        return loop_body(statement, items);
    }
    activation_->is_captured = true;
    auto* object = runtime_.heap.make<LoopObject>(*this, runtime_, statement, *activation_, sequence, depth);
    activation_->slots[static_cast<size_t>(statement.loop_slot)] = Value(object);
    return loop_body(statement, object->items);
}

Interpreter::Flow Interpreter::loop_body(const LoopStatement& statement, LoopItems& items) {
    bool has_completed = false;  // an item: one that ends in break or continue does not keep `else` away, as in jinja2
    for (Value item; items.next(item);) {
        runtime_.line = statement.line;
        assign(*statement.target, item);
        enter(statement.body_loads);
        const Flow flow = execute(statement.body);
        if (flow == Flow::leave_loop) break;
        if (flow == Flow::onward) has_completed = true;
    }
    if (has_completed || statement.otherwise.empty()) return Flow::onward;
    enter(statement.otherwise_loads);
    return execute(statement.otherwise);
}

void Interpreter::enter_test(const LoopStatement& loop, Activation& activation) {
    const Entered entered(*this, activation);
    enter(loop.test_loads);
}

bool Interpreter::passes_test(const LoopStatement& loop, Activation& activation, const Value& item) {
    const Entered entered(*this, activation);
    assign(*loop.test_target, item);
    return truth(runtime_, evaluate(*loop.test));
}

Interpreter::Flow Interpreter::assign_block(const BlockAssignmentStatement& statement) {
    enter(statement.loads);
    Capture capture(*this);
    const Flow flow = execute(statement.body);
    if (flow != Flow::onward) return flow;  // a break inside: what was captured is dropped
    Value text(capture.text());
    if (statement.filter != nullptr) text = filtered(*statement.filter, text);
    runtime_.line = statement.line;
    assign(*statement.target, text);
    return Flow::onward;
}

Interpreter::Flow Interpreter::with(const WithStatement& statement) {
    enter(statement.loads);
    for (size_t index = 0; index < statement.targets.size(); ++index) {
        assign(*statement.targets[index], evaluate(*statement.values[index]));
    }
    return execute(statement.body);
}

Interpreter::Flow Interpreter::filter_block(const FilterBlockStatement& statement) {
    enter(statement.loads);
    Text text;
    {
        Capture capture(*this);
        const Flow flow = execute(statement.body);
        if (flow != Flow::onward) return flow;
        text = capture.text();
    }
    write_text(filtered(*statement.filter, Value(text)));
    return Flow::onward;
}

void Interpreter::assign(const Expression& target, const Value& value) {
    switch (target.kind) {
        case ExpressionKind::name:
            slot(static_cast<const NameExpression&>(target).reference) = value;
            return;
        case ExpressionKind::tuple:
            return unpack(static_cast<const SequenceExpression&>(target), value);
        default:
            break;
    }
    const auto& field = static_cast<const NamespaceAttributeExpression&>(target);
    const Value& space = slot(field.reference);
    if (!space.is(Kind::name_space)) fail("cannot assign attribute on non-namespace object");
    space.as<NamespaceObject>().attributes.set(runtime_.meter, literal(field.attribute), value);
}

void Interpreter::unpack(const SequenceExpression& target, const Value& value) {
    if (!is_iterable(value)) fail(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
    Cursor cursor(runtime_, value);
    std::vector<Value> items;
    Value item;
    while (items.size() < target.items.size() && cursor.next(item)) items.push_back(item);
    if (items.size() < target.items.size()) {
        fail(fmt::format("not enough values to unpack (expected {}, got {})", target.items.size(), items.size()));
    }
    if (cursor.next(item)) fail(fmt::format("too many values to unpack (expected {})", target.items.size()));
    for (size_t index = 0; index < items.size(); ++index) assign(*target.items[index], items[index]);
}

}  // namespace gemmatrace::text::jinja
