// `gemmatrace serve`: the checkpoint behind an OpenAI-compatible endpoint.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/host_memory.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/loaded_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sizes.h"
#include "engine/generator.h"
#include "server/http/server.h"
#include "server/routes.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kServeExamples =
    "Examples:\n"
    "  gemmatrace serve models/demo                                 http://127.0.0.1:8080/v1\n"
    "  gemmatrace serve models/demo --port 9000 --api-key secret    asks every client for the key\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "       -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of France?\"}]}'\n"
    "\n"
    "Every option can be given as an environment variable: --max-queue as GEMMATRACE_MAX_QUEUE. SIGTERM or Ctrl-C "
    "lets\n"
    "running requests finish; a second one ends at once. Exit status: 0 all requests were finished, 75 some were cut.";

constexpr int kCutStatus = 75;
constexpr int64_t kCanaryTokens = 8;
constexpr auto kCanaryPeriod = std::chrono::seconds(60);
constexpr int64_t kMinContext = 2048;
constexpr size_t kUsualSnapshotBytes = size_t{512} << 20;

struct ServeOptions {
    ModelOptions model;
    std::string host = "127.0.0.1";
    int32_t port = 8080;
    bool allows_anyone = false;
    std::vector<std::string> api_keys;
    std::string api_key_file;
    bool protects_health = false;
    std::string model_name;
    int32_t slots = 8;
    std::optional<int64_t> context_tokens;
    std::optional<int64_t> cache_mib;
    std::optional<int64_t> snapshot_mib;
    bool keeps_no_prefixes = false;
    int32_t max_queue = 64;
    double request_timeout = 0.0;
    int32_t drain_seconds = 30;
    int64_t max_body_mib = 32;
    std::string access_log;
};

std::vector<std::string> read_keys(const ServeOptions& options) {
    std::vector<std::string> keys = options.api_keys;
    if (!options.api_key_file.empty()) {
        std::ifstream file(options.api_key_file);
        if (!file) {
            throw Error(ErrorCode::not_found, "the file with API keys cannot be read",
                        {{"file", options.api_key_file}});
        }
        for (std::string line; std::getline(file, line);) {
            while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
            if (!line.empty() && line.front() != '#') keys.push_back(line);
        }
        if (keys.empty()) {
            throw Error(ErrorCode::bad_request, "the file with API keys holds none", {{"file", options.api_key_file}},
                        "write one key a line");
        }
    }
    for (const std::string& key : keys) {
        if (key.empty()) throw Error(ErrorCode::bad_request, "an API key is empty", {{"field", "--api-key"}});
    }
    return keys;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

void check_exposure(const ServeOptions& options, const std::vector<std::string>& keys) {
    if (is_loopback(options.host) || !keys.empty() || options.allows_anyone) return;
    throw Error(ErrorCode::bad_request,
                fmt::format("{} can be reached by others, and no API key is asked for", options.host),
                {{"field", "--host"}}, "give --api-key, or --allow-anyone if that is what you want");
}

// Tokens of a slot and bytes of all of them: as much as the model and half of the free memory allow.
struct CachePlan {
    int64_t context_tokens = 0;
    size_t bytes = 0;
};

CachePlan plan_cache(const ServeOptions& options, const engine::BackendSource& source, int32_t slots) {
    const int64_t positions = source.most_context_tokens();
    CachePlan plan;
    const bool is_fixed = source.most_slots().has_value();  // by a bundle, and taken whole when it is loaded
    const size_t budget = options.cache_mib ? static_cast<size_t>(*options.cache_mib) << 20
                          : is_fixed        ? source.slot_bytes(positions) * static_cast<size_t>(slots)
                                            : available_memory_bytes() / 2;
    if (options.context_tokens) {
        if (*options.context_tokens < 1 || *options.context_tokens > positions) {
            throw Error(
                ErrorCode::bad_request,
                fmt::format("the model has {} positions, {} were asked for", positions, *options.context_tokens),
                {{"field", "--context"}});
        }
        plan.context_tokens = *options.context_tokens;
    } else {
        plan.context_tokens = positions;
        while (plan.context_tokens > kMinContext && source.slot_bytes(plan.context_tokens) > budget) {
            plan.context_tokens /= 2;
        }
    }
    const size_t all = source.slot_bytes(plan.context_tokens) * static_cast<size_t>(slots);
    plan.bytes = std::min(budget, all);
    return plan;
}

// What the backend itself decodes for a few tokens, before the engine gets it: the same must come through the engine.
server::Canary make_canary(engine::Backend& backend, const server::Service& service) {
    server::Canary canary;
    const std::vector<int32_t> text = service.tokenizer.encode("The capital of France is");
    if (service.bos_id) canary.prompt_ids.push_back(*service.bos_id);
    canary.prompt_ids.insert(canary.prompt_ids.end(), text.begin(), text.end());
    engine::GenerationRequest request;
    request.prompt_ids = canary.prompt_ids;
    request.max_tokens = kCanaryTokens;
    canary.expected_ids = engine::generate(backend, 0, request, nullptr).token_ids;
    backend.release(0);
    return canary;
}

server::GenerationDefaults generation_defaults(const checkpoint::GenerationConfig& config) {
    const engine::SamplingParameters sampling = sampling_parameters({}, config);
    server::GenerationDefaults defaults;
    defaults.temperature = sampling.temperature;
    defaults.top_k = sampling.top_k;
    defaults.top_p = sampling.top_p;
    defaults.min_p = sampling.min_p;
    defaults.end_ids = config.eos_token_ids;
    defaults.suppress_ids = config.suppress_tokens;
    return defaults;
}

std::string model_name(const ServeOptions& options) {
    if (!options.model_name.empty()) return options.model_name;
    std::error_code failure;
    const std::filesystem::path& checkpoint = options.model.checkpoint;
    // The name of a repository is the model's id as it is.
    if (!std::filesystem::is_directory(checkpoint, failure)) return checkpoint.string();
    const auto name = std::filesystem::weakly_canonical(checkpoint, failure).filename().string();
    return name.empty() ? "model" : name;
}

struct Served {
    server::Service service;
    server::Canary canary = {};
    CachePlan plan = {};
    int32_t slots = 0;
    size_t snapshot_bytes = 0;
};

// Two snapshots for each slot let every conversation go on from where its last prompt ended, or from not long before;
// they may take an eighth of what is free. Fewer than one for each slot are worth a word.
size_t plan_snapshots(const ServeOptions& options, const engine::Backend& backend) {
    const size_t needed = backend.snapshot_bytes() * static_cast<size_t>(backend.limits().slots);
    if (options.keeps_no_prefixes) return 0;
    const size_t bytes = options.snapshot_mib
                             ? static_cast<size_t>(*options.snapshot_mib) << 20
                             : std::max(kUsualSnapshotBytes, std::min(2 * needed, available_memory_bytes() / 8));
    if (bytes > 0 && bytes < needed) {
        write_error(fmt::format(
            "warning: {} for snapshots are less than one for each of {} slots: after a long reply a conversation "
            "may be read anew; use --snapshot-mib {} or fewer slots\n",
            size_text(bytes), backend.limits().slots, (needed >> 20) + 1));
    }
    return bytes;
}

Served load_service(const ServeOptions& options) {
    const auto& checkpoint = options.model.checkpoint;
    LoadedModel model = load_model(options.model, true);
    Served served{.service = {.model_id = model_name(options),
                              .created = std::time(nullptr),
                              .tokenizer = text::Tokenizer::load(checkpoint),
                              .special_tokens = text::special_token_variables(checkpoint)}};
    server::Service& service = served.service;
    try {
        service.chat_template = text::ChatTemplate::load(checkpoint);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
    }
    service.bos_id = model.source->config().bos_token_id;
    if (const auto id = service.tokenizer.bos_id()) service.bos_id = id;
    service.defaults = generation_defaults(model.defaults);
    service.limits.max_request_seconds = options.request_timeout;
    served.slots = std::min(options.slots, model.source->most_slots().value_or(options.slots));
    served.plan = plan_cache(options, *model.source, served.slots);
    auto backend = model.source->make(served.slots, served.plan.context_tokens);
    served.snapshot_bytes = plan_snapshots(options, *backend);
    served.canary = make_canary(*backend, service);
    engine::EngineOptions engine_options;
    engine_options.queue_requests = static_cast<size_t>(options.max_queue);
    engine_options.cache_bytes = served.plan.bytes;
    engine_options.snapshot_bytes = served.snapshot_bytes;
    engine_options.reuses_prefixes = !options.keeps_no_prefixes;
    service.engine = std::make_unique<engine::Engine>(std::move(backend), engine_options);
    return served;
}

void announce(const ServeOptions& options, const Served& served, uint16_t port, bool has_keys) {
    const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
    const std::string base = fmt::format("http://{}:{}", host, port);
    write_error(fmt::format(
        "{} on {}\n"
        "context {} tokens, {} slots; cache up to {}, snapshots up to {}\n"
        "\n"
        "  base URL   {}/v1{}\n"
        "  try        curl {}/v1/chat/completions -H 'Content-Type: application/json'{} \\\n"
        "               -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"What is the capital of France?\"}}]}}'\n"
        "  clients    OPENAI_BASE_URL={}/v1 OPENAI_API_KEY={}; model {}\n"
        "\n",
        served.service.model_id, served.service.engine->backend_description(), served.plan.context_tokens, served.slots,
        size_text(served.plan.bytes), size_text(served.snapshot_bytes), base, has_keys ? "  (with an API key)" : "",
        base, has_keys ? " -H 'Authorization: Bearer KEY'" : "", base, has_keys ? "KEY" : "none",
        served.service.model_id));
}

// Runs the canary at the start and once a minute until told to stop.
class CanaryThread {
  public:
    CanaryThread(server::Health& health, engine::Engine& engine, const server::Canary& canary)
        : thread_([this, &health, &engine, &canary] {
              auto next = std::chrono::steady_clock::now();
              while (!is_over_) {
                  if (std::chrono::steady_clock::now() >= next) {
                      health.check(engine, canary);
                      next = std::chrono::steady_clock::now() + kCanaryPeriod;
                  }
                  std::this_thread::sleep_for(std::chrono::milliseconds(50));
              }
          }) {}
    ~CanaryThread() {
        is_over_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

// Shutting down: nothing new from the first signal on, the end when all is finished, the time is up or a second signal
// comes.
class Shutdown {
  public:
    Shutdown(server::HttpServer& http, engine::Engine& engine, server::Health& health, int seconds)
        : http_(http), engine_(engine), health_(health), seconds_(seconds) {}

    void on_signal() {
        if (is_draining_) {
            is_cut_ = !engine_.is_idle();
            http_.stop();
            return;
        }
        is_draining_ = true;
        deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_);
        health_.set_draining();
        engine_.drain();
        http_.close_door();
        write_error(fmt::format("finishing what runs, at most {} s; again to end at once\n", seconds_));
        on_tick();
    }

    void on_tick() {
        if (!is_draining_) return;
        const bool is_late = std::chrono::steady_clock::now() >= deadline_;
        if (!engine_.is_idle() && !is_late) {
            was_idle_ = false;
            return;
        }
        // One more tick for answers to be sent.
        if (!was_idle_ && !is_late) {
            was_idle_ = true;
            return;
        }
        is_cut_ = !engine_.is_idle();
        http_.stop();
    }

    bool is_cut() const { return is_cut_; }

  private:
    server::HttpServer& http_;
    engine::Engine& engine_;
    server::Health& health_;
    int seconds_;
    bool is_draining_ = false;
    bool was_idle_ = false;
    bool is_cut_ = false;
    std::chrono::steady_clock::time_point deadline_;
};

int32_t in_range(int64_t value, int64_t smallest, int64_t largest, const char* option) {
    if (value >= smallest && value <= largest) return static_cast<int32_t>(value);
    throw Error(ErrorCode::bad_request, fmt::format("{} is not between {} and {}", value, smallest, largest),
                {{"field", option}});
}

int run_serve(const ServeOptions& options) {
    server::HttpOptions http_options;
    http_options.host = options.host;
    http_options.port = static_cast<uint16_t>(in_range(options.port, 0, 65535, "--port"));
    http_options.max_body_bytes = static_cast<size_t>(in_range(options.max_body_mib, 1, 1024, "--max-body-mib")) << 20;
    in_range(options.slots, 1, 256, "--slots");
    in_range(options.max_queue, 0, 1 << 20, "--max-queue");
    const std::vector<std::string> keys = read_keys(options);
    check_exposure(options, keys);
    server::AccessLog log(options.access_log);

    ServeOptions found = options;
    if (found.model_name.empty()) found.model_name = model_name(options);
    found.model.checkpoint = find_checkpoint(options.model.checkpoint, options.model.may_pull);
    Served served = load_service(found);
    server::Health health;
    server::Metrics metrics(served.service.model_id);
    server::Routes routes(served.service, {keys, !options.protects_health, true}, health, metrics, log);
    bool is_cut = false;
    {
        server::HttpServer http(http_options, routes);
        announce(options, served, http.port(), !keys.empty());
        const CanaryThread canary(health, *served.service.engine, served.canary);
        Shutdown shutdown(http, *served.service.engine, health, options.drain_seconds);
        http.run([&](int) { shutdown.on_signal(); }, [&] { shutdown.on_tick(); });
        is_cut = shutdown.is_cut();
        served.service.engine->stop();  // tells what still runs, while its connections are there
    }
    return is_cut ? kCutStatus : 0;
}

void describe_serve(Command& command, ServeOptions& options) {
    add_model_options(command, options.model);
    constexpr bool kShowsDefault = true;
    command.add("Where to listen",
                {{"--host", &options.host, "address; others than this machine need --api-key", "IP", "", kShowsDefault},
                 {"--port", &options.port, "0: any free one", "N", "", kShowsDefault},
                 {"--api-key", &options.api_keys, "a key that clients must send; may be given several times", "KEY"},
                 {"--api-key-file", &options.api_key_file, "a file with one key a line", "FILE"},
                 {"--allow-anyone", &options.allows_anyone, "other addresses without a key"},
                 {"--protect-health", &options.protects_health, "ask for the key on /health and /metrics too"},
                 {"--max-body-mib", &options.max_body_mib, "largest request", "N", "", kShowsDefault},
                 {"--access-log", &options.access_log, "append the log to FILE; off: none [standard error]", "FILE"}});
    command.add(
        "What to serve",
        {{"--model-name", &options.model_name, "the model's id for clients [the directory's name]", "NAME"},
         {"--slots", &options.slots, "requests that run together", "N", "", kShowsDefault},
         {"--context", &options.context_tokens, "tokens of prompt and reply [the model's, as memory allows]", "N"},
         {"--cache-mib", &options.cache_mib, "memory for the tokens of all requests [half of what is free]", "N"},
         {"--snapshot-mib", &options.snapshot_mib,
          "memory for snapshots of sliding layers [two for each slot, at least 512]", "N"},
         {"--no-prefix-reuse", &options.keeps_no_prefixes, "compute every prompt from its first token"},
         {"--max-queue", &options.max_queue, "requests that wait; more are told to come back", "N", "", kShowsDefault},
         {"--request-timeout", &options.request_timeout, "seconds a request may take; 0: any", "S", "", kShowsDefault},
         {"--drain-seconds", &options.drain_seconds, "time to finish what runs when told to stop", "S", "",
          kShowsDefault}});
}

}  // namespace

Command serve_command() {
    Command command = make_command("serve", "An OpenAI-compatible endpoint", kServeExamples, run_serve, describe_serve);
    command.is_service = true;
    return command;
}

}  // namespace gemmatrace::cli
