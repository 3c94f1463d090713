// POST /v1/responses, read: the conversation, the tools, and the settings that the answer shows again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/generation.h"
#include "server/responses_store.h"
#include "server/responses_tools.h"
#include "server/service.h"

namespace gemmatrace::server {

struct ResponsesRequest {
    GenerationJob job;  // its prompt is filled in
    bool streams = false;
    bool is_stored = true;
    bool shows_logprobs = false;
    bool carries_thoughts = false;    // reasoning items hold their thought in encrypted_content too
    ResponsesTools tools;             // that the reply may call
    nlohmann::ordered_json items;     // the whole conversation: what previous_response_id stands for, and the input
    nlohmann::ordered_json settings;  // members of the response object that are known before the reply
};

// Throws Error(bad_request), Error(unsupported), Error(too_long), Error(not_found) naming the field at fault.
ResponsesRequest parse_responses_request(const Service& service, ResponseStore& store,
                                         const nlohmann::ordered_json& body);

}  // namespace gemmatrace::server
