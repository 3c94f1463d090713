// Input items of the Responses dialect to the messages of a chat template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/responses_store.h"
#include "server/responses_tools.h"

namespace gemmatrace::server {

// Stands before a thought in a reasoning item's encrypted_content, where clients that keep nothing else carry it back.
constexpr std::string_view kCarriedThought = "gemmatrace-thought:";

// `input` as a list of items: a text becomes one user message, references become the items they mean. Throws
// Error(bad_request) naming the field, Error(not_found) for a reference to what is not in the store.
nlohmann::ordered_json input_items(const nlohmann::ordered_json& input, ResponseStore& store);

// Messages as templates read them (server/prompt.h). Every message item is a message of its own, so that text and calls
// keep their order; neighbouring calls share one, their outputs stand directly behind it, and reasoning belongs to what
// follows it. `first_new`: the items before it come from the store, and errors count from it. Throws Error(bad_request)
// naming the item, Error(unsupported) for media and for items of tools that cannot run here.
nlohmann::ordered_json template_messages_of_items(const nlohmann::ordered_json& items, size_t first_new,
                                                  const ResponsesTools& tools);

}  // namespace gemmatrace::server
