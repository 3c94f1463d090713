// JSON Schema to a grammar, in whichever form the values are written.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/pattern.h"
#include "engine/constraint/schema_keywords.h"
#include "engine/constraint/value_writer.h"

namespace gemmatrace::engine {

// Compiles one schema with everything it refers to. constraint.h says which keywords hold and how.
class SchemaCompiler {
  public:
    // The schema and the writer must outlive the compiler. Throws Error(bad_request) when the schema is too large.
    SchemaCompiler(const nlohmann::ordered_json& schema, ValueWriter& writer, Strictness strictness,
                   const ConstraintLimits& limits);

    // The node of the whole schema, with all rules defined.
    NodeId compile();

  private:
    using Json = nlohmann::ordered_json;

    NodeId value(const Json& schema, const SchemaPlace& place, size_t depth);
    NodeId constrained_value(const Json& schema, const SchemaPlace& place, size_t depth);
    NodeId alternatives(const Json& schema, const char* keyword, const SchemaPlace& place, size_t depth);
    void check_one_of(const Json& branches, const SchemaPlace& place, size_t depth);
    NodeId listed(const std::vector<Json>& values, const Json& schema, const SchemaPlace& place);
    bool is_acceptable(const Json& value, const Json& schema, const SchemaPlace& place);
    NodeId typed(const std::string& type, const Json& schema, const SchemaPlace& place, size_t depth);
    NodeId object(const Json& schema, const SchemaPlace& place, size_t depth);
    NodeId array(const Json& schema, const SchemaPlace& place, size_t depth);
    NodeId string(const Json& schema, const SchemaPlace& place);
    NodeId number(const Json& schema, bool is_integer, const SchemaPlace& place);
    NodeId member(const std::string& name, bool is_required, NodeId value, const SchemaPlace& place);

    bool charge(size_t depth, const SchemaPlace& place, size_t weight = 0);
    Json flat(const Json& schema, const SchemaPlace& place, size_t depth);
    const Json* resolve(const Json& reference, const SchemaPlace& place);
    NodeId reference(const Json& reference, const SchemaPlace& place);

    const Json& root_;
    ValueWriter& writer_;
    SchemaProblems problems_;
    const ConstraintLimits& limits_;
    size_t steps_ = 0;
    std::map<std::string, NodeId> rules_;                          // by reference
    std::vector<std::pair<NodeId, const Json*>> undefined_rules_;  // still to be compiled
    std::vector<SchemaPlace> undefined_places_;
};

}  // namespace gemmatrace::engine
