// For tests of the Messages dialect: a service around the demo's tokenizer and template whose engine runs nothing, and
// a writer that keeps what it is told.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "server/http_message.h"
#include "server/service.h"

namespace gemmatrace::server::messages_testing {

using Json = nlohmann::ordered_json;

constexpr int64_t kMessagesContext = 2000;

inline Json json(std::string_view text) { return parse_json(text, "the test", ErrorCode::bad_request); }

// Has limits and nothing else.
class IdleBackend : public engine::Backend {
  public:
    IdleBackend() {
        limits_.vocab_size = 1280;
        limits_.context_tokens = kMessagesContext;
        limits_.slots = 1;
        limits_.chunk_tokens = 32;
    }
    const engine::BackendLimits& limits() const override { return limits_; }
    engine::BackendFacts facts() const override { return {}; }
    std::string description() const override { return "idle"; }
    int64_t length(int32_t) const override { return 0; }
    void prefill(int32_t, std::span<const int32_t>, bool) override { throw unasked(); }
    void decode(std::span<const int32_t>, std::span<const int32_t>) override { throw unasked(); }
    std::span<const float> logits(size_t) override { throw unasked(); }
    bool can_trim(int32_t, int64_t) const override { return false; }
    void trim(int32_t, int64_t) override {}
    void release(int32_t) override {}
    std::shared_ptr<const engine::Snapshot> save(int32_t, int64_t) const override { throw unasked(); }
    void copy_prefix(int32_t, int32_t, int64_t, const engine::Snapshot*) override { throw unasked(); }
    size_t slot_bytes(int64_t) const override { return 1; }
    size_t snapshot_bytes() const override { return 1; }

  private:
    static std::logic_error unasked() { return std::logic_error("this test runs no model"); }
    engine::BackendLimits limits_;
};

inline const Service& demo_service() {
    static const Service service = [] {
        const std::filesystem::path folder = GEMMATRACE_SOURCE_DIR "/models/demo";
        Service made{.model_id = "demo",
                     .tokenizer = text::Tokenizer::load(folder),
                     .chat_template = text::ChatTemplate::load(folder),
                     .special_tokens = text::special_token_variables(folder)};
        engine::EngineOptions options;
        options.cache_bytes = 1;
        made.engine = std::make_unique<engine::Engine>(std::make_unique<IdleBackend>(), options);
        return made;
    }();
    return service;
}

// One event of a stream.
struct SentEvent {
    std::string name;
    Json data;
};

class KeepingWriter : public ResponseWriter {
  public:
    void send(HttpResponse sent) override {
        response = std::move(sent);
        ++ends;
    }
    void start(HttpResponse started) override {
        response = std::move(started);
        ++starts;
    }
    void write(std::string piece) override { response.body += piece; }
    void end() override { ++ends; }
    void on_gone(std::function<void()>) override {}

    Json document() const { return json(response.body); }
    std::vector<SentEvent> events() const {
        std::vector<SentEvent> found;
        constexpr std::string_view kData = "\ndata: ";
        for (size_t at = 0; at < response.body.size();) {
            const size_t end = response.body.find("\n\n", at);
            const std::string text = response.body.substr(at, end - at);
            const size_t line = text.find(kData);
            if (!text.starts_with("event: ") || line == std::string::npos)
                throw std::runtime_error("no event: " + text);
            found.push_back({text.substr(7, line - 7), json(text.substr(line + kData.size()))});
            at = end + 2;
        }
        return found;
    }

    HttpResponse response;
    int starts = 0;
    int ends = 0;
};

}  // namespace gemmatrace::server::messages_testing
