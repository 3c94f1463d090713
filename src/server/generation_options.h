// The members of a request that say how tokens are chosen and where the text ends; the OpenAI dialects share them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/request_fields.h"
#include "server/service.h"

namespace gemmatrace::server {

// temperature, top_p, top_k, min_p, seed, frequency_penalty, presence_penalty, repetition_penalty (or repeat_penalty),
// logit_bias, min_tokens, ignore_eos, over the checkpoint's defaults; end and suppressed ids and the deadline from the
// service. Prompt and max_tokens are left to the caller. Throws Error(bad_request) naming the field.
engine::Request generation_options(const Service& service, const RequestFields& fields);

// `stop`: a string or a list of them.
std::vector<std::string> stop_strings(const Service& service, const RequestFields& fields,
                                      std::string_view name = "stop");

// A seed for a request without one, from the system.
uint64_t random_seed();
// Letters and digits that nobody can guess or meets twice, behind a prefix such as "chatcmpl-".
std::string random_id(std::string_view prefix);

}  // namespace gemmatrace::server
