// Which names a body uses.
#include "text/jinja/walk.h"

namespace gemmatrace::text::jinja {

namespace {

// Visits every name at any depth, in the order of the source.
template <class Visit>
class NameWalk {
  public:
    explicit NameWalk(Visit visit) : visit_(visit) {}

    void expression(const Expression* node) {
        if (node == nullptr) return;
        if (node->kind == ExpressionKind::name) visit_(*static_cast<const NameExpression*>(node));
        each_child(*node, [&](const Expression* child) { expression(child); });
    }

    void body(const Body& statements) {
        for (const Statement* node : statements) statement(node);
    }

    void loop(const LoopStatement& node) {
        expression(node.target);
        expression(node.sequence);
        body(node.body);
        body(node.otherwise);
        expression(node.test);
    }

  private:
    void function(const MacroFunction& node) {
        for (const NameExpression* parameter : node.parameters) expression(parameter);
        for (const Expression* value : node.defaults) expression(value);
        body(node.body);
    }

    void statement(const Statement* node) {
        switch (node->kind) {
            case StatementKind::output:
                for (const Expression* part : static_cast<const OutputStatement*>(node)->parts) expression(part);
                return;
            case StatementKind::condition:
                for (const auto& branch : static_cast<const ConditionStatement*>(node)->branches) {
                    expression(branch.test);
                    body(branch.body);
                }
                return;
            case StatementKind::loop:
                return loop(*static_cast<const LoopStatement*>(node));
            case StatementKind::assignment:
                expression(static_cast<const AssignmentStatement*>(node)->target);
                return expression(static_cast<const AssignmentStatement*>(node)->value);
            case StatementKind::block_assignment: {
                const auto* assignment = static_cast<const BlockAssignmentStatement*>(node);
                expression(assignment->target);
                expression(assignment->filter);
                return body(assignment->body);
            }
            case StatementKind::with: {
                const auto* with = static_cast<const WithStatement*>(node);
                for (const Expression* target : with->targets) expression(target);
                for (const Expression* value : with->values) expression(value);
                return body(with->body);
            }
            case StatementKind::macro:
                return function(static_cast<const MacroStatement*>(node)->function);
            case StatementKind::call_block:
                expression(static_cast<const CallBlockStatement*>(node)->call);
                return function(static_cast<const CallBlockStatement*>(node)->function);
            case StatementKind::filter_block:
                body(static_cast<const FilterBlockStatement*>(node)->body);
                return expression(static_cast<const FilterBlockStatement*>(node)->filter);
            case StatementKind::loop_break:
            case StatementKind::loop_continue:
                return;
        }
    }

    Visit visit_;
};

}  // namespace

FreeNames free_names(const Body& body, std::initializer_list<std::string_view> names) {
    FreeNames wanted(names.begin(), names.end());
    FreeNames found;
    NameWalk walk([&](const NameExpression& name) {
        if (name.use == NameUse::load && wanted.contains(name.name)) {
            found.insert(name.name);
        } else {
            wanted.erase(name.name);
        }
    });
    walk.body(body);
    return found;
}

bool stores_loop(const LoopStatement& loop) {
    bool is_stored = false;
    NameWalk walk([&](const NameExpression& name) { is_stored |= name.use == NameUse::store && name.name == "loop"; });
    walk.loop(loop);
    return is_stored;
}

}  // namespace gemmatrace::text::jinja
