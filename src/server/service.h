// What is served: the model's text side, the engine that runs it, and the limits of one request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/reply_filter.h"
#include "server/responses_store.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gemmatrace::server {

// Defaults of a request, from generation_config.json.
struct GenerationDefaults {
    double temperature = 0.0;
    int32_t top_k = 0;
    double top_p = 1.0;
    double min_p = 0.0;
    std::vector<int32_t> end_ids;
    std::vector<int32_t> suppress_ids;
};

struct ServiceLimits {
    int32_t max_choices = 16;  // n, and prompts of one completion request
    int32_t max_top_logprobs = 20;
    size_t max_stop_strings = 16;
    double max_request_seconds = 0.0;  // 0: no deadline
};

struct Service {
    std::string model_id;
    std::vector<std::string> model_aliases = {};  // accepted as `model` too
    int64_t created = 0;                          // seconds since 1970
    text::Tokenizer tokenizer;
    std::optional<text::ChatTemplate> chat_template = {};
    nlohmann::ordered_json special_tokens = {};  // bos_token and the like, for the template
    std::optional<int32_t> bos_id = {};
    GenerationDefaults defaults = {};
    ServiceLimits limits = {};
    std::unique_ptr<ResponseStore> responses =
        std::make_unique<ResponseStore>();  // outlives the engine, which fills it
    std::unique_ptr<engine::Engine> engine = {};
    std::unique_ptr<ConstraintStore> constraints = std::make_unique<ConstraintStore>();

    int64_t context_tokens() const { return engine->limits().context_tokens; }
    // Throws Error(not_found) with code model_not_found unless `model` is the one that is served.
    void check_model(const std::string& model) const;
};

}  // namespace gemmatrace::server
