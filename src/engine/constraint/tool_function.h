// A function that the model may call, as a constraint sees it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gemmatrace::engine {

struct ToolFunction {
    std::string name;
    nlohmann::ordered_json parameters;  // a JSON schema of an object; null for a function without arguments
};

}  // namespace gemmatrace::engine
