// The loop from prompt to reply: prefill once, then choose and run one token after the other.
#include "engine/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "engine/sampler.h"
#include "engine/top_logits.h"

namespace gemmatrace::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Room reserved for results before the first token; longer answers grow it a few times.
constexpr int64_t kReservedTokens = 4096;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check_request(const Backend& backend, int32_t slot, const GenerationRequest& request) {
    if (request.prompt_ids.empty()) {
        throw Error(ErrorCode::bad_request, "the prompt is empty", {{"field", "prompt"}},
                    "give at least one token; a text prompt gets its BOS token by itself");
    }
    if (request.max_tokens < 0) {
        throw Error(ErrorCode::bad_request, fmt::format("max_tokens must be 0 or more, not {}", request.max_tokens),
                    {{"field", "max_tokens"}});
    }
    if (request.top_logits < 0) {
        throw Error(ErrorCode::bad_request, fmt::format("top_logits must be 0 or more, not {}", request.top_logits),
                    {{"field", "top_logits"}});
    }
    const int32_t vocab_size = backend.limits().vocab_size;
    for (size_t position = 0; position < request.prompt_ids.size(); ++position) {
        const int32_t id = request.prompt_ids[position];
        if (id >= 0 && id < vocab_size) continue;
        throw Error(ErrorCode::bad_request,
                    fmt::format("token id {} at position {} of the prompt is outside the vocabulary of {} ids", id,
                                position, vocab_size),
                    {{"field", "prompt"}}, fmt::format("use ids from 0 to {}", vocab_size - 1));
    }
    check_context(backend.length(slot) + static_cast<int64_t>(request.prompt_ids.size()), request.max_tokens,
                  backend.limits().context_tokens);
}

// Whether it ran to its end, where a row of results is left, and was not stopped between chunks.
bool run_prompt(Backend& backend, int32_t slot, const GenerationRequest& request) {
    const auto chunk = static_cast<size_t>(backend.limits().chunk_tokens);
    std::span<const int32_t> left = request.prompt_ids;
    while (true) {
        const size_t count = std::min(chunk, left.size());
        backend.prefill(slot, left.first(count), false);
        left = left.subspan(count);
        if (left.empty()) return true;
        if (request.should_stop && request.should_stop()) return false;
    }
}

}  // namespace

void check_context(int64_t prompt_tokens, int64_t max_tokens, int64_t context_tokens) {
    if (prompt_tokens <= context_tokens && max_tokens <= context_tokens - prompt_tokens) return;
    throw Error(ErrorCode::too_long,
                // Clients know it by these first words, which make them shorten a conversation.
                fmt::format("this model's maximum context length is {} tokens: {} prompt tokens and {} to generate do "
                            "not fit",
                            context_tokens, prompt_tokens, max_tokens),
                {{"prompt_tokens", std::to_string(prompt_tokens)},
                 {"max_tokens", std::to_string(max_tokens)},
                 {"context_tokens", std::to_string(context_tokens)}},
                "shorten the prompt or ask for fewer tokens");
}

GenerationResult generate(Backend& backend, int32_t slot, const GenerationRequest& request,
                          const std::function<bool(int32_t)>& on_token) {
    check_request(backend, slot, request);
    const BackendLimits& limits = backend.limits();
    Sampler sampler(request.sampling, limits.final_softcap, limits.precision, request.suppress_ids);
    GenerationResult result;
    if (request.max_tokens == 0) return result;
    result.token_ids.reserve(static_cast<size_t>(std::min(request.max_tokens, kReservedTokens)));

    const auto prefill_start = Clock::now();
    const bool has_prompt = run_prompt(backend, slot, request);
    result.prefill_seconds = seconds_since(prefill_start);
    if (!has_prompt) {
        result.finish_reason = FinishReason::cancelled;
        return result;
    }

    const auto decode_start = Clock::now();
    const std::array<int32_t, 1> slots{slot};
    while (true) {
        const std::optional<int32_t> best = sampler.choose_best(backend.best_id(0), {});
        const int32_t id = best ? *best : sampler.choose(backend.logits(0));
        if (request.top_logits > 0) result.top_logits.push_back(best_logits(backend.logits(0), request.top_logits));
        if (std::ranges::find(request.stop_ids, id) != request.stop_ids.end()) {
            result.finish_reason = FinishReason::stop;
            result.stop_id = id;
            break;
        }
        result.token_ids.push_back(id);
        const bool goes_on = (!on_token || on_token(id)) && !(request.should_stop && request.should_stop());
        if (!goes_on) {
            result.finish_reason = FinishReason::cancelled;
            break;
        }
        if (static_cast<int64_t>(result.token_ids.size()) == request.max_tokens) break;
        const std::array<int32_t, 1> ids{id};
        backend.decode(slots, ids);
    }
    result.decode_seconds = seconds_since(decode_start);
    return result;
}

}  // namespace gemmatrace::engine
