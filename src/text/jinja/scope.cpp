// Scopes as jinja2's compiler sees them: a pass that declares a scope's names, then one that resolves what is inside.
#include "text/jinja/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "text/jinja/filters.h"
#include "text/jinja/lexer.h"
#include "text/jinja/walk.h"

namespace gemmatrace::text::jinja {

namespace {

// A function of its own slots: the template, a macro, a recursive loop.
struct Function {
    int level = 0;  // functions around it
    int slot_count = 0;
};

struct Place {
    int level;
    int slot;
};

// The names of one scope. A name keeps its slot in the scope across the branches of a condition.
class Scope {
  public:
    Scope(Function& function, Scope* parent)
        : function_(&function), parent_(parent), slots_(std::make_shared<Slots>()) {}

    std::optional<Place> find(const std::string& name) const {
        if (const auto found = known_.find(name); found != known_.end()) return Place{function_->level, found->second};
        return parent_ == nullptr ? std::nullopt : parent_->find(name);
    }

    // A name is read: unless something around declares it, it is looked up among the variables on entry.
    void load(const std::string& name) {
        if (!find(name)) define(name, {-1, SlotLoad::Action::resolve, {}, -1});
    }

    // A name is assigned: it starts as what a scope around calls so, or as nothing.
    void store(const std::string& name) {
        stored_.insert(name);
        if (known_.contains(name)) return;
        if (const auto outer = outer_place(name)) {
            define(name, {-1, SlotLoad::Action::alias, reference(*outer), -1});
        } else {
            define(name, {-1, SlotLoad::Action::clear, {}, -1});
        }
    }

    // A parameter or loop variable, which has its value before the scope is entered.
    int declare(const std::string& name) {
        stored_.insert(name);
        return define(name, {-1, SlotLoad::Action::nothing, {}, -1});
    }

    // Takes in what the branches of a condition declared: a name that some branch assigns starts as it is outside.
    void merge(const std::vector<Scope>& branches) {
        std::set<std::string> stored;
        for (const Scope& branch : branches) {
            for (const std::string& name : branch.stored_) {
                if (!stored_.contains(name)) stored.insert(name);
            }
        }
        for (const Scope& branch : branches) {
            for (const auto& [name, slot] : branch.known_) known_[name] = slot;
            for (const auto& [slot, load] : branch.loads_) loads_[slot] = load;
            stored_.insert(branch.stored_.begin(), branch.stored_.end());
        }
        for (const std::string& name : stored) {
            const auto outer = outer_place(name);
            const auto action = outer ? SlotLoad::Action::alias : SlotLoad::Action::resolve;
            define(name, {-1, action, outer ? reference(*outer) : SlotReference{}, -1});
        }
    }

    SlotReference reference(const Place& place) const { return {function_->level - place.level, place.slot}; }

    Loads loads(Tree& tree) const {
        Loads list;
        for (const auto& [slot, load] : loads_) {
            if (load.action == SlotLoad::Action::nothing) continue;
            list.push_back(load);
            if (load.action == SlotLoad::Action::resolve) list.back().variable = variable_index(tree, name_of(slot));
        }
        return list;
    }

    Function& function() const { return *function_; }

  private:
    using Slots = std::map<std::string, int>;

    std::optional<Place> outer_place(const std::string& name) const {
        return parent_ == nullptr ? std::nullopt : parent_->find(name);
    }

    int define(const std::string& name, SlotLoad load) {
        const auto [entry, is_new] = slots_->try_emplace(name, function_->slot_count);
        if (is_new) ++function_->slot_count;
        load.slot = entry->second;
        known_[name] = load.slot;
        loads_[load.slot] = load;
        return load.slot;
    }

    const std::string& name_of(int slot) const {
        const auto found =
            std::find_if(slots_->begin(), slots_->end(), [&](const auto& entry) { return entry.second == slot; });
        require(found != slots_->end(), "a load belongs to a name");
        return found->first;
    }

    static int variable_index(Tree& tree, const std::string& name) {
        const auto found = std::find(tree.variables.begin(), tree.variables.end(), name);
        if (found != tree.variables.end()) return static_cast<int>(found - tree.variables.begin());
        tree.variables.push_back(name);
        return static_cast<int>(tree.variables.size()) - 1;
    }

    Function* function_;
    Scope* parent_;
    std::shared_ptr<Slots> slots_;
    Slots known_;
    std::map<int, SlotLoad> loads_;
    std::set<std::string> stored_;
};

// First pass over a scope: declares the names of its statements without going into the scopes inside.
class Declarer {
  public:
    explicit Declarer(Scope& scope) : scope_(&scope) {}

    void expression(const Expression* node) {
        if (node == nullptr) return;
        if (node->kind == ExpressionKind::name) {
            const auto* name = static_cast<const NameExpression*>(node);
            if (name->use == NameUse::load) scope_->load(name->name);
            if (name->use == NameUse::store) scope_->store(name->name);
            if (name->use == NameUse::parameter) scope_->declare(name->name);
        } else if (node->kind == ExpressionKind::namespace_attribute) {
            scope_->load(static_cast<const NamespaceAttributeExpression*>(node)->name);
        } else {
            each_child(*node, [&](const Expression* child) { expression(child); });
        }
    }

    void body(const Body& statements) {
        for (const Statement* node : statements) statement(node);
    }

    // The targets of a loop are given before its body runs.
    void loop_target(const Expression* target) {
        if (target->kind == ExpressionKind::name) scope_->declare(static_cast<const NameExpression*>(target)->name);
        if (target->kind == ExpressionKind::tuple) {
            for (const Expression* item : static_cast<const SequenceExpression*>(target)->items) loop_target(item);
        }
    }

    void function(const MacroFunction& macro) {
        for (const NameExpression* parameter : macro.parameters) expression(parameter);
        for (const Expression* value : macro.defaults) expression(value);
        body(macro.body);
    }

  private:
    void statement(const Statement* node) {
        switch (node->kind) {
            case StatementKind::output:
                for (const Expression* part : static_cast<const OutputStatement*>(node)->parts) expression(part);
                return;
            case StatementKind::condition:
                return condition(*static_cast<const ConditionStatement*>(node));
            case StatementKind::loop:
                return expression(static_cast<const LoopStatement*>(node)->sequence);
            case StatementKind::assignment:
                expression(static_cast<const AssignmentStatement*>(node)->value);
                return expression(static_cast<const AssignmentStatement*>(node)->target);
            case StatementKind::block_assignment:
                return expression(static_cast<const BlockAssignmentStatement*>(node)->target);
            case StatementKind::with:
                for (const Expression* value : static_cast<const WithStatement*>(node)->values) expression(value);
                return;
            case StatementKind::macro:
                return scope_->store(static_cast<const MacroStatement*>(node)->function.name);
            case StatementKind::call_block:
                return expression(static_cast<const CallBlockStatement*>(node)->call);
            case StatementKind::filter_block:
                return expression(static_cast<const FilterBlockStatement*>(node)->filter);
            case StatementKind::loop_break:
            case StatementKind::loop_continue:
                return;
        }
    }

    // jinja2 nests "elif": the first test is read in the scope itself, the later ones within their branch.
    void condition(const ConditionStatement& node) {
        expression(node.branches.front().test);
        Scope* const outside = scope_;
        std::vector<Scope> branches;
        branches.reserve(3);
        const auto branch = [&](const auto& declare_all) {
            branches.push_back(*outside);
            scope_ = &branches.back();
            declare_all();
            scope_ = outside;
        };
        branch([&] { body(node.branches.front().body); });
        branch([&] {
            for (size_t index = 1; index < node.branches.size(); ++index) {
                if (node.branches[index].test != nullptr) alternative(node.branches[index]);
            }
        });
        branch([&] {
            if (node.branches.size() > 1 && node.branches.back().test == nullptr) body(node.branches.back().body);
        });
        outside->merge(branches);
    }

    void alternative(const ConditionStatement::Branch& node) {
        expression(node.test);
        Scope* const outside = scope_;
        std::vector<Scope> branches{*outside};
        scope_ = &branches.back();
        body(node.body);
        scope_ = outside;
        outside->merge(branches);
    }

    Scope* scope_;
};

// Second pass: writes the slots into the tree and makes the scopes inside.
class Resolver {
  public:
    explicit Resolver(Tree& tree) : tree_(tree) {}

    void run() {
        Function function;
        Scope scope(function, nullptr);
        Declarer(scope).body(tree_.body);
        body(tree_.body, scope, false);
        tree_.loads = scope.loads(tree_);
        tree_.slot_count = function.slot_count;
    }

  private:
    // is_soft: under a condition, where jinja2 lets unknown filters and tests wait until they are run.
    void expression(Expression* node, Scope& scope, bool is_soft) {
        if (node == nullptr) return;
        switch (node->kind) {
            case ExpressionKind::name: {
                auto* name = static_cast<NameExpression*>(node);
                name->reference = place(name->name, scope);
                return;
            }
            case ExpressionKind::namespace_attribute: {
                auto* target = static_cast<NamespaceAttributeExpression*>(node);
                target->reference = place(target->name, scope);
                return;
            }
            case ExpressionKind::filter:
            case ExpressionKind::test:
                check_method(*static_cast<NamedOperation*>(node), is_soft);
                break;
            case ExpressionKind::conditional:
                is_soft = true;
                break;
            default:
                break;
        }
        each_child(*node, [&](Expression* child) { expression(child, scope, is_soft); });
    }

    // A name that the first pass did not see (arguments of a set block's filter) is declared late.
    static SlotReference place(const std::string& name, Scope& scope) {
        scope.load(name);
        return scope.reference(*scope.find(name));
    }

    static void check_method(const NamedOperation& node, bool is_soft) {
        const bool is_filter = node.kind == ExpressionKind::filter;
        if (is_filter && is_refused_filter(node.name)) {
            throw Error(ErrorCode::unsupported,
                        fmt::format("the filter '{}' is not supported in chat templates", node.name),
                        {{"line", std::to_string(node.line)}}, "Write the template without this filter.");
        }
        if (node.method != nullptr || is_soft) return;
        fail_syntax(fmt::format("No {} named '{}'.", is_filter ? "filter" : "test", node.name), node.line);
    }

    void body(const Body& statements, Scope& scope, bool is_soft) {
        for (Statement* node : statements) statement(node, scope, is_soft);
    }

    void statement(Statement* node, Scope& scope, bool is_soft) {
        switch (node->kind) {
            case StatementKind::output:
                for (Expression* part : static_cast<OutputStatement*>(node)->parts) expression(part, scope, is_soft);
                return;
            case StatementKind::condition:
                for (const auto& branch : static_cast<ConditionStatement*>(node)->branches) {
                    expression(branch.test, scope, true);
                    body(branch.body, scope, true);
                }
                return;
            case StatementKind::loop:
                return loop(*static_cast<LoopStatement*>(node), scope, is_soft);
            case StatementKind::assignment: {
                auto* assignment = static_cast<AssignmentStatement*>(node);
                expression(assignment->value, scope, is_soft);
                return expression(assignment->target, scope, is_soft);
            }
            case StatementKind::block_assignment:
                return block_assignment(*static_cast<BlockAssignmentStatement*>(node), scope);
            case StatementKind::with:
                return with(*static_cast<WithStatement*>(node), scope, is_soft);
            case StatementKind::macro: {
                auto* macro = static_cast<MacroStatement*>(node);
                expression(macro->target, scope, is_soft);
                return function(macro->function, scope, macro->line);
            }
            case StatementKind::call_block: {
                auto* block = static_cast<CallBlockStatement*>(node);
                function(block->function, scope, block->line);
                return expression(block->call, scope, is_soft);
            }
            case StatementKind::filter_block:
                return filter_block(*static_cast<FilterBlockStatement*>(node), scope);
            case StatementKind::loop_break:
            case StatementKind::loop_continue:
                return;
        }
    }

    void loop(LoopStatement& node, Scope& scope, bool is_soft) {
        if (stores_loop(node)) fail_syntax("Can't assign to special loop variable in for-loop target", node.line);
        expression(node.sequence, scope, is_soft);
        Function own{scope.function().level + 1, 0};
        Function& function = node.is_recursive ? own : scope.function();
        Scope inner(function, &scope);
        if (node.is_recursive || reads_free(node.body, "loop")) node.loop_slot = inner.declare("loop");
        Declarer(inner).loop_target(node.target);
        Declarer(inner).body(node.body);
        expression(node.target, inner, false);
        if (node.test != nullptr) test(node, function, scope);
        body(node.body, inner, false);
        node.body_loads = inner.loads(tree_);
        Scope otherwise(function, &scope);
        Declarer(otherwise).body(node.otherwise);
        body(node.otherwise, otherwise, false);
        node.otherwise_loads = otherwise.loads(tree_);
        node.slot_count = own.slot_count;
    }

    // The filtering `if` of a loop sees the loop's targets and, besides them, the scope around the loop.
    void test(LoopStatement& node, Function& function, Scope& scope) {
        Scope tested(function, &scope);
        Declarer(tested).loop_target(node.test_target);
        Declarer(tested).expression(node.test);
        expression(node.test_target, tested, false);
        expression(node.test, tested, false);
        node.test_loads = tested.loads(tree_);
    }

    void block_assignment(BlockAssignmentStatement& node, Scope& scope) {
        Scope inner(scope.function(), &scope);
        Declarer(inner).body(node.body);
        body(node.body, inner, false);
        expression(node.target, scope, false);
        expression(node.filter, inner, false);
        node.loads = inner.loads(tree_);
    }

    void with(WithStatement& node, Scope& scope, bool is_soft) {
        Scope inner(scope.function(), &scope);
        Declarer declarer(inner);
        for (const Expression* target : node.targets) declarer.expression(target);
        declarer.body(node.body);
        for (size_t index = 0; index < node.targets.size(); ++index) {
            expression(node.targets[index], inner, false);
            expression(node.values[index], scope, is_soft);
        }
        body(node.body, inner, false);
        node.loads = inner.loads(tree_);
    }

    void filter_block(FilterBlockStatement& node, Scope& scope) {
        Scope inner(scope.function(), &scope);
        Declarer declarer(inner);
        declarer.body(node.body);
        declarer.expression(node.filter);
        body(node.body, inner, false);
        expression(node.filter, inner, false);
        node.loads = inner.loads(tree_);
    }

    void function(MacroFunction& macro, Scope& scope, int line) {
        Function own{scope.function().level + 1, 0};
        Scope inner(own, &scope);
        Declarer(inner).function(macro);
        const auto has_parameter = [&](std::string_view name) {
            return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                               [&](const NameExpression* parameter) { return parameter->name == name; });
        };
        const FreeNames free = free_names(macro.body, {"caller", "kwargs", "varargs"});
        if (free.contains("caller")) {
            if (!has_parameter("caller")) {
                macro.caller_slot = inner.declare("caller");
            } else if (!has_default(macro, "caller")) {
                fail_syntax(
                    "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
                    "default.",
                    line);
            }
        }
        if (free.contains("kwargs") && !has_parameter("kwargs")) macro.kwargs_slot = inner.declare("kwargs");
        if (free.contains("varargs") && !has_parameter("varargs")) macro.varargs_slot = inner.declare("varargs");
        for (NameExpression* parameter : macro.parameters) expression(parameter, inner, false);
        for (Expression* value : macro.defaults) expression(value, inner, false);
        body(macro.body, inner, false);
        macro.loads = inner.loads(tree_);
        macro.slot_count = own.slot_count;
    }

    static bool has_default(const MacroFunction& macro, std::string_view name) {
        const size_t first = macro.parameters.size() - macro.defaults.size();
        return std::any_of(macro.parameters.begin() + static_cast<std::ptrdiff_t>(first), macro.parameters.end(),
                           [&](const NameExpression* parameter) { return parameter->name == name; });
    }

    Tree& tree_;
};

}  // namespace

void resolve_names(Tree& tree) { Resolver(tree).run(); }

}  // namespace gemmatrace::text::jinja
