// A parsed template: expressions and statements, owned by one tree, with every name resolved to a slot.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/attributes.h"
#include "text/jinja/operators.h"

namespace gemmatrace::text::jinja {

// Where a variable lives: how many functions (macros, recursive loops) outwards, and which slot there.
struct SlotReference {
    int hops = 0;
    int slot = -1;
};

// What a scope does with a slot when it is entered.
struct SlotLoad {
    enum class Action : unsigned char { nothing, clear, alias, resolve };
    int slot = -1;
    Action action = Action::nothing;
    SlotReference source;  // alias: copied from here
    int variable = -1;     // resolve: index of the name among Tree::variables
};

struct Node {
    explicit Node(int where) : line(where) {}
    virtual ~Node() = default;
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    int line;
};

enum class ExpressionKind : unsigned char {
    constant,
    name,
    namespace_attribute,  // ns.x as the target of an assignment
    tuple,
    list,
    dict,
    unary,
    binary,
    logic,
    concat,
    comparison,
    conditional,
    attribute,
    item,
    slice,
    call,
    filter,
    test,
};

struct Expression : Node {
    Expression(ExpressionKind what, int where) : Node(where), kind(what) {}
    ExpressionKind kind;
    int depth = 1;  // of nesting below; bounded by the parser
};

struct ConstantExpression : Expression {
    ConstantExpression(Value what, int where) : Expression(ExpressionKind::constant, where), value(std::move(what)) {}
    Value value;
};

enum class NameUse : unsigned char { load, store, parameter };

struct NameExpression : Expression {
    NameExpression(std::string text, int where) : Expression(ExpressionKind::name, where), name(std::move(text)) {}
    std::string name;
    NameUse use = NameUse::load;
    SlotReference reference;
};

struct NamespaceAttributeExpression : Expression {
    NamespaceAttributeExpression(std::string of, std::string what, int where)
        : Expression(ExpressionKind::namespace_attribute, where), name(std::move(of)), attribute(std::move(what)) {}
    std::string name;
    std::string attribute;
    SlotReference reference;
};

// A tuple or a list.
struct SequenceExpression : Expression {
    SequenceExpression(ExpressionKind what, int where) : Expression(what, where) {}
    std::vector<Expression*> items;
};

struct DictExpression : Expression {
    explicit DictExpression(int where) : Expression(ExpressionKind::dict, where) {}
    std::vector<std::pair<Expression*, Expression*>> entries;
};

enum class UnaryOperator : unsigned char { negate, affirm, invert };

struct UnaryExpression : Expression {
    UnaryExpression(UnaryOperator what, int where) : Expression(ExpressionKind::unary, where), operation(what) {}
    UnaryOperator operation;
    Expression* operand = nullptr;
};

struct BinaryExpression : Expression {
    BinaryExpression(BinaryOperator what, int where) : Expression(ExpressionKind::binary, where), operation(what) {}
    BinaryOperator operation;
    Expression* left = nullptr;
    Expression* right = nullptr;
};

// `and` or `or`: gives back one of its operands.
struct LogicExpression : Expression {
    LogicExpression(bool conjunction, int where) : Expression(ExpressionKind::logic, where), is_and(conjunction) {}
    bool is_and;
    Expression* left = nullptr;
    Expression* right = nullptr;
};

struct ConcatExpression : Expression {
    explicit ConcatExpression(int where) : Expression(ExpressionKind::concat, where) {}
    std::vector<Expression*> parts;
};

struct ComparisonExpression : Expression {
    explicit ComparisonExpression(int where) : Expression(ExpressionKind::comparison, where) {}
    Expression* first = nullptr;
    std::vector<std::pair<CompareOperator, Expression*>> rest;
};

struct ConditionalExpression : Expression {
    explicit ConditionalExpression(int where) : Expression(ExpressionKind::conditional, where) {}
    Expression* test = nullptr;
    Expression* then = nullptr;
    Expression* otherwise = nullptr;  // may be null: undefined
};

struct AttributeExpression : Expression {
    AttributeExpression(Text what, int where) : Expression(ExpressionKind::attribute, where), name(std::move(what)) {}
    Expression* object = nullptr;
    Text name;
};

struct ItemExpression : Expression {
    explicit ItemExpression(int where) : Expression(ExpressionKind::item, where) {}
    Expression* object = nullptr;
    Expression* key = nullptr;
};

// object[start:stop:step]; parts may be null.
struct SliceExpression : Expression {
    explicit SliceExpression(int where) : Expression(ExpressionKind::slice, where) {}
    Expression* object = nullptr;  // null for a slice among several subscripts, which nothing accepts
    Expression* start = nullptr;
    Expression* stop = nullptr;
    Expression* step = nullptr;
};

struct ArgumentList {
    std::vector<Expression*> positional;
    std::vector<std::pair<Text, Expression*>> named;
    Expression* more_positional = nullptr;  // *args
    Expression* more_named = nullptr;       // **kwargs
};

struct CallExpression : Expression {
    explicit CallExpression(int where) : Expression(ExpressionKind::call, where) {}
    Expression* callee = nullptr;
    ArgumentList arguments;
};

// value|name(…) or value is name(…); `method` is null when there is none of that name, an error once it is run.
struct NamedOperation : Expression {
    NamedOperation(ExpressionKind what, std::string text, int where) : Expression(what, where), name(std::move(text)) {}
    std::string name;
    const Method* method = nullptr;
    Expression* operand = nullptr;  // null: the text of a filter block
    ArgumentList arguments;
};

enum class StatementKind : unsigned char {
    output,
    condition,
    loop,
    assignment,
    block_assignment,
    with,
    macro,
    call_block,
    filter_block,
    loop_break,
    loop_continue,
};

struct Statement : Node {
    Statement(StatementKind what, int where) : Node(where), kind(what) {}
    StatementKind kind;
};

using Body = std::vector<Statement*>;
using Loads = std::vector<SlotLoad>;

struct OutputStatement : Statement {
    explicit OutputStatement(int where) : Statement(StatementKind::output, where) {}
    std::vector<Expression*> parts;
};

struct ConditionStatement : Statement {
    struct Branch {
        Expression* test;  // null: else
        Body body;
    };
    explicit ConditionStatement(int where) : Statement(StatementKind::condition, where) {}
    std::vector<Branch> branches;
};

struct LoopStatement : Statement {
    explicit LoopStatement(int where) : Statement(StatementKind::loop, where) {}
    Expression* target = nullptr;
    Expression* sequence = nullptr;
    Expression* test = nullptr;         // may be null
    Expression* test_target = nullptr;  // the target once more: the test looks ahead with variables of its own
    bool is_recursive = false;
    Body body;
    Body otherwise;
    int loop_slot = -1;  // of the variable `loop`; -1 when the body does not use it
    int slot_count = 0;  // of the function that a recursive loop is
    Loads body_loads, test_loads, otherwise_loads;
};

struct AssignmentStatement : Statement {
    explicit AssignmentStatement(int where) : Statement(StatementKind::assignment, where) {}
    Expression* target = nullptr;
    Expression* value = nullptr;
};

struct BlockAssignmentStatement : Statement {
    explicit BlockAssignmentStatement(int where) : Statement(StatementKind::block_assignment, where) {}
    Expression* target = nullptr;
    NamedOperation* filter = nullptr;  // may be null
    Body body;
    Loads loads;
};

struct WithStatement : Statement {
    explicit WithStatement(int where) : Statement(StatementKind::with, where) {}
    std::vector<Expression*> targets;
    std::vector<Expression*> values;
    Body body;
    Loads loads;
};

// What macros and call blocks share: a function that makes text.
struct MacroFunction {
    std::string name;  // empty: the anonymous caller of a call block
    std::vector<NameExpression*> parameters;
    std::vector<Expression*> defaults;  // of the last parameters
    Body body;
    int caller_slot = -1;  // -1 where the body does not use the special name
    int kwargs_slot = -1;
    int varargs_slot = -1;
    int slot_count = 0;
    Loads loads;
};

struct MacroStatement : Statement {
    explicit MacroStatement(int where) : Statement(StatementKind::macro, where) {}
    MacroFunction function;
    NameExpression* target = nullptr;
};

struct CallBlockStatement : Statement {
    explicit CallBlockStatement(int where) : Statement(StatementKind::call_block, where) {}
    MacroFunction function;
    CallExpression* call = nullptr;  // null: a generation block, which calls its body
};

struct FilterBlockStatement : Statement {
    explicit FilterBlockStatement(int where) : Statement(StatementKind::filter_block, where) {}
    NamedOperation* filter = nullptr;
    Body body;
    Loads loads;
};

struct Tree {
    template <class Type, class... Arguments>
    Type* make(Arguments&&... arguments) {
        auto owned = std::make_unique<Type>(std::forward<Arguments>(arguments)...);
        Type* node = owned.get();
        nodes.push_back(std::move(owned));
        return node;
    }

    std::vector<std::unique_ptr<Node>> nodes;
    Body body;
    Loads loads;
    int slot_count = 0;
    std::vector<std::string> variables;  // names looked up among the request's variables and our globals
};

// Most nesting of expressions and of statements; Python's own compiler stops before.
constexpr int kMaxNesting = 200;

}  // namespace gemmatrace::text::jinja
