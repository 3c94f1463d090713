// One sequence to generate, and what the engine tells of it while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/finish_reason.h"
#include "engine/sampling_parameters.h"
#include "engine/token_filter.h"

namespace gemmatrace::engine {

struct Request {
    std::vector<int32_t> prompt_ids;
    int64_t max_tokens = 256;  // 0: only the prompt is run
    int64_t min_tokens = 0;    // end tokens are not chosen before so many
    SamplingParameters sampling;
    std::vector<int32_t> end_ids;         // generation ends with one of these
    std::vector<int32_t> suppress_ids;    // never chosen, in greedy too
    bool ignores_end = false;             // end tokens are ordinary tokens
    std::optional<int32_t> top_logprobs;  // log-probabilities of each token and of the K most likely
    bool prompt_logprobs = false;         // of the prompt's tokens too; such a request reuses no prefix
    std::shared_ptr<TokenFilter> filter;  // what may be said; null: everything
    std::optional<std::chrono::steady_clock::time_point> deadline;
};

struct TokenLogprob {
    int32_t id = 0;
    float logprob = 0.0F;
};

struct GeneratedToken {
    int32_t id = 0;
    bool is_end = false;            // an end token: not part of the text
    float logprob = 0.0F;           // with top_logprobs: of the capped distribution, before temperature and filters
    std::vector<TokenLogprob> top;  // best first, lowest id first among equals
};

struct RequestStatistics {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;     // of the prompt, taken from an earlier request
    int64_t generated_tokens = 0;  // the end token included
    double queue_seconds = 0.0;
    double prefill_seconds = 0.0;  // from the slot to the first token
    double decode_seconds = 0.0;   // from the first token to the end
};

// Called on the engine's thread: must be quick, must not throw and must not call the engine.
class RequestListener {
  public:
    virtual ~RequestListener() = default;
    // The request has a slot, before anything else is told: `cached_tokens` of its prompt need not be computed.
    virtual void on_placed(int64_t cached_tokens) { (void)cached_tokens; }
    // The prompt's tokens, once, when Request::prompt_logprobs: the first has no logprob and no alternatives.
    virtual void on_prompt(const std::vector<GeneratedToken>&) {}
    // Answers whether to go on; false ends the request with FinishReason::stop (a stop string was met).
    virtual bool on_token(const GeneratedToken& token) = 0;
    // Exactly one of these comes, and nothing after it.
    virtual void on_finish(FinishReason reason, const RequestStatistics& statistics) = 0;
    virtual void on_error(const Error& error, const RequestStatistics& statistics) = 0;
};

}  // namespace gemmatrace::engine
