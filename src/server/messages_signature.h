// The signature of a thinking block, which brings back a thought that the client did not want to see.
#pragma once

#include <string>
#include <string_view>

#include "server/request_fields.h"

namespace gemmatrace::server {

// Of a block that shows its thought; or, `hides_thought`, of one that does not: then the thought is inside, so that the
// next request of a conversation with tools can give it back to the model.
std::string thinking_signature(std::string_view thought, bool hides_thought);

// The thought of a thinking block of the history: what it shows, else what a signature of ours holds, else nothing.
// Signatures of other servers are accepted. Throws Error(bad_request) when a member is no string.
std::string thought_of(const RequestFields& block);

}  // namespace gemmatrace::server
