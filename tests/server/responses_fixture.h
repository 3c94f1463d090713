// A service whose model says what a test wrote down, and the Responses route called on it without a network.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/responses_answers.h"
#include "server/responses_request.h"

namespace gemmatrace::server::responses_testing {

using Json = nlohmann::ordered_json;

// Says the ids of a script, one a step, whatever the prompt is.
class ScriptedBackend : public engine::Backend {
  public:
    ScriptedBackend(int32_t vocab_size, std::vector<int32_t> script) : script_(std::move(script)) {
        limits_.vocab_size = vocab_size;
        limits_.context_tokens = 4096;
        limits_.slots = 1;
        limits_.chunk_tokens = 64;
    }
    const engine::BackendLimits& limits() const override { return limits_; }
    engine::BackendFacts facts() const override { return {}; }
    std::string description() const override { return "a script"; }
    int64_t length(int32_t) const override { return length_; }
    void prefill(int32_t, std::span<const int32_t> ids, bool) override {
        length_ += static_cast<int64_t>(ids.size());
        said_ = 0;
        say();
    }
    void decode(std::span<const int32_t>, std::span<const int32_t>) override {
        ++length_;
        say();
    }
    std::span<const float> logits(size_t) override { return logits_; }
    bool can_trim(int32_t, int64_t) const override { return true; }
    void trim(int32_t, int64_t length) override { length_ = length; }
    void release(int32_t) override { length_ = 0; }
    std::shared_ptr<const engine::Snapshot> save(int32_t, int64_t) const override { return nullptr; }
    void copy_prefix(int32_t, int32_t, int64_t length, const engine::Snapshot*) override { length_ = length; }
    size_t slot_bytes(int64_t) const override { return 1; }
    size_t snapshot_bytes() const override { return 1; }

  private:
    // A script that ends in -1 breaks the model there.
    void say() {
        const int32_t id = script_[std::min(said_++, script_.size() - 1)];
        if (id < 0) throw Error(ErrorCode::device, "the script breaks here");
        logits_.assign(static_cast<size_t>(limits_.vocab_size), 0.0F);
        logits_[static_cast<size_t>(id)] = 20.0F;
    }

    engine::BackendLimits limits_;
    std::vector<int32_t> script_;
    std::vector<float> logits_;
    size_t said_ = 0;
    int64_t length_ = 0;
};

// Keeps an answer, and lets the test wait for its end.
class RecordingWriter : public ResponseWriter {
  public:
    void send(HttpResponse response) override { end_with(std::move(response)); }
    void start(HttpResponse response) override {
        const std::lock_guard lock(mutex_);
        response_ = std::move(response);
    }
    void write(std::string piece) override {
        const std::lock_guard lock(mutex_);
        response_.body += piece;
    }
    void end() override {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
    }
    void on_gone(std::function<void()>) override {}

    HttpResponse wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_over_; });
        return response_;
    }

  private:
    void end_with(HttpResponse response) {
        const std::lock_guard lock(mutex_);
        response_ = std::move(response);
        is_over_ = true;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    HttpResponse response_;
    bool is_over_ = false;
};

inline text::Tokenizer demo_tokenizer() { return text::Tokenizer::load(GEMMATRACE_SOURCE_DIR "/models/demo"); }

// The demo's tokenizer and template; the model says `reply` (markers of the turn grammar are control tokens), and then
// ends its turn or, with `breaks`, fails.
inline std::unique_ptr<Service> scripted_service(const std::string& reply, bool breaks = false) {
    auto owned =
        std::make_unique<Service>(Service{.model_id = "scripted", .tokenizer = demo_tokenizer(), .special_tokens = {}});
    Service& service = *owned;
    service.chat_template = text::ChatTemplate::load(GEMMATRACE_SOURCE_DIR "/models/demo");
    service.special_tokens = text::special_token_variables(GEMMATRACE_SOURCE_DIR "/models/demo");
    service.bos_id = service.tokenizer.bos_id();
    const int32_t end = service.tokenizer.id_of("<turn|>").value();
    service.defaults.end_ids = {end};
    std::vector<int32_t> script = service.tokenizer.encode(reply);
    script.push_back(breaks ? -1 : end);
    engine::EngineOptions options;
    options.cache_bytes = size_t{1} << 20;
    options.reuses_prefixes = false;
    service.engine = std::make_unique<engine::Engine>(
        std::make_unique<ScriptedBackend>(service.tokenizer.vocab_size(), std::move(script)), options);
    return owned;
}

// POST /v1/responses. Throws what the route throws.
inline HttpResponse ask(const Service& service, const Json& request) {
    auto writer = std::make_shared<RecordingWriter>();
    HttpRequest http;
    http.id = "req_test";
    http.method = "POST";
    http.path = "/v1/responses";
    http.body = request.dump();
    answer_responses({service, std::move(http), writer, nullptr});
    return writer->wait();
}

inline Json whole_answer(const Service& service, const Json& request) {
    return Json::parse(ask(service, request).body);
}

struct SentEvent {
    std::string name;  // of the event: line
    Json data;
};

inline std::vector<SentEvent> streamed_answer(const Service& service, Json request) {
    request["stream"] = true;
    const std::string body = ask(service, request).body;
    std::vector<SentEvent> events;
    for (size_t at = 0; at < body.size();) {
        const size_t end = body.find("\n\n", at);
        const std::string block = body.substr(at, end - at);
        const size_t line = block.find('\n');
        events.push_back({block.substr(7, line - 7), Json::parse(block.substr(line + 7))});
        at = end + 2;
    }
    return events;
}

}  // namespace gemmatrace::server::responses_testing
