// POST /v1/completions: raw text in, text out, with the log-probabilities that evaluations read.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/routes.h"

namespace gemmatrace::server {

// prompt: a text, a list of texts, token ids, or a list of lists of them; each prompt gives n choices, in order.
// `suffix` and best_of above n are refused.
void answer_completions(const RouteContext& context, const nlohmann::ordered_json& body);

}  // namespace gemmatrace::server
