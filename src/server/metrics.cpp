// The names that dashboards know, with our prefix.
#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>

namespace gemmatrace::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kSeconds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
const Buckets kTokens = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144};

std::string full_name(const char* name) { return fmt::format("gemmatrace_{}", name); }

}  // namespace

struct Metrics::State {
    explicit State(const std::string& model) : labels({{"model_name", model}}) {}

    prometheus::Counter& counter(const char* name, const char* help, std::map<std::string, std::string> more = {}) {
        more.insert(labels.begin(), labels.end());
        return prometheus::BuildCounter().Name(full_name(name)).Help(help).Register(registry).Add(more);
    }
    prometheus::Gauge& gauge(const char* name, const char* help) {
        return prometheus::BuildGauge().Name(full_name(name)).Help(help).Register(registry).Add(labels);
    }
    prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
        return prometheus::BuildHistogram().Name(full_name(name)).Help(help).Register(registry).Add(labels, buckets);
    }
    static void raise_to(prometheus::Counter& counter, double value) {
        if (value > counter.Value()) counter.Increment(value - counter.Value());
    }

    std::map<std::string, std::string> labels;
    prometheus::Registry registry;
    std::mutex mutex;
    prometheus::Gauge& running = gauge("num_requests_running", "Requests that have a slot.");
    prometheus::Gauge& waiting = gauge("num_requests_waiting", "Requests in the queue.");
    prometheus::Gauge& cache_usage = gauge("kv_cache_usage_perc", "Used share of the cache's memory, 1 is all of it.");
    prometheus::Gauge& busy_slots = gauge("n_busy_slots_per_decode", "Slots of a decode step, on average.");
    prometheus::Counter& queries = counter("prefix_cache_queries", "Prompt tokens looked up in the cache.");
    prometheus::Counter& hits = counter("prefix_cache_hits", "Prompt tokens found in the cache.");
    prometheus::Counter& cached = counter("prompt_tokens_cached_total", "Prompt tokens that were not computed again.");
    prometheus::Counter& prompt = counter("prompt_tokens_total", "Prompt tokens of all requests.");
    prometheus::Counter& generated = counter("generation_tokens_total", "Generated tokens.");
    prometheus::Counter& preemptions = counter("num_preemptions_total", "Requests sent back to the queue for memory.");
    prometheus::Counter& busy = counter("engine_busy_seconds_total", "Time inside the backend.");
    prometheus::Histogram& first_token =
        histogram("time_to_first_token_seconds", "From the request to its first token.", kSeconds);
    prometheus::Histogram& between_tokens =
        histogram("inter_token_latency_seconds", "Between two tokens, the average of a request.", kSeconds);
    prometheus::Histogram& whole = histogram("e2e_request_latency_seconds", "From the request to its end.", kSeconds);
    prometheus::Histogram& queue = histogram("request_queue_time_seconds", "In the queue.", kSeconds);
    prometheus::Histogram& prefill = histogram("request_prefill_time_seconds", "Computing the prompt.", kSeconds);
    prometheus::Histogram& decode = histogram("request_decode_time_seconds", "Computing the reply.", kSeconds);
    prometheus::Histogram& prompt_sizes = histogram("request_prompt_tokens", "Prompt tokens of a request.", kTokens);
    prometheus::Histogram& reply_sizes =
        histogram("request_generation_tokens", "Generated tokens of a request.", kTokens);
};

Metrics::Metrics(const std::string& model) : state_(std::make_unique<State>(model)) {}
Metrics::~Metrics() = default;

void Metrics::count(const RequestOutcome& outcome) {
    State& state = *state_;
    state
        .counter("request_success_total", "Requests that ended, by the reason.",
                 {{"finished_reason", outcome.finish_reason}})
        .Increment();
    if (outcome.finish_reason == "error") return;
    const double first = outcome.queue_seconds + outcome.prefill_seconds;
    state.first_token.Observe(first);
    state.whole.Observe(first + outcome.decode_seconds);
    state.queue.Observe(outcome.queue_seconds);
    state.prefill.Observe(outcome.prefill_seconds);
    state.decode.Observe(outcome.decode_seconds);
    state.prompt_sizes.Observe(static_cast<double>(outcome.prompt_tokens));
    state.reply_sizes.Observe(static_cast<double>(outcome.completion_tokens));
    if (outcome.completion_tokens > 1) {
        state.between_tokens.Observe(outcome.decode_seconds / static_cast<double>(outcome.completion_tokens - 1));
    }
}

void Metrics::count_response(const std::string& route, int status) {
    state_
        ->counter("http_responses_total", "Answers by route and status.",
                  {{"route", route}, {"status", std::to_string(status)}})
        .Increment();
}

std::string Metrics::text(const engine::EngineStatistics& engine) {
    State& state = *state_;
    const std::lock_guard lock(state.mutex);
    state.running.Set(engine.running);
    state.waiting.Set(engine.waiting);
    const auto budget = static_cast<double>(engine.cache_bytes);
    state.cache_usage.Set(budget > 0.0 ? static_cast<double>(engine.cache_bytes_used) / budget : 0.0);
    state.busy_slots.Set(engine.steps > 0 ? static_cast<double>(engine.step_slots) / static_cast<double>(engine.steps)
                                          : 0);
    State::raise_to(state.queries, static_cast<double>(engine.prompt_tokens));
    State::raise_to(state.hits, static_cast<double>(engine.cached_tokens));
    State::raise_to(state.cached, static_cast<double>(engine.cached_tokens));
    State::raise_to(state.prompt, static_cast<double>(engine.prompt_tokens));
    State::raise_to(state.generated, static_cast<double>(engine.generated_tokens));
    State::raise_to(state.preemptions, static_cast<double>(engine.preemptions));
    State::raise_to(state.busy, engine.busy_seconds);
    return prometheus::TextSerializer().Serialize(state.registry.Collect());
}

}  // namespace gemmatrace::server
