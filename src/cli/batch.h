// The --lines mode of the text commands: one JSON value a line in, one JSON object a line out.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

namespace gemmatrace::cli {

// Answers each line of standard input with body(line) or, when that fails, with {"error":{"code":…,"message":…}}: one
// bad line does not spoil a batch of thousands. Ends early when nobody reads the output any more.
void run_batch(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json& line)>& body);

}  // namespace gemmatrace::cli
