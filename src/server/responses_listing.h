// The input of a stored response as a list that clients read page by page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gemmatrace::server {

// {"object": "list", "data", "first_id", "last_id", "has_more"} of a response's whole input, which includes what
// previous_response_id stood for. Every item has a type and an id, its own or one that stays the same; texts are lists
// of parts. `query`: limit (1 to 100, otherwise 20), order (desc, or asc), after (an item's id). Throws
// Error(bad_request) naming the parameter.
nlohmann::ordered_json listed_items(const nlohmann::ordered_json& items, std::string_view response_id,
                                    std::string_view query);

}  // namespace gemmatrace::server
