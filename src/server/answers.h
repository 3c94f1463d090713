// What each route of the API does with a request. All throw the errors that the client is told.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/routes.h"

namespace gemmatrace::server {

void answer_chat(const RouteContext& context, const nlohmann::ordered_json& body);
// The chat page.
void answer_page(const RouteContext& context);
void answer_models(const RouteContext& context);
void answer_model(const RouteContext& context, std::string_view id);
// {"content" or "prompt": text, "add_special": false, "with_pieces": false} or {"messages": [...]} to {"tokens",
// "count", "max_model_len"}.
void answer_tokenize(const RouteContext& context);
// {"tokens": [...]} to {"content", "prompt"}: the same text under both names that servers use.
void answer_detokenize(const RouteContext& context);

}  // namespace gemmatrace::server
