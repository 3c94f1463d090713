// Sampling members read, checked and defaulted.
#include "server/generation_options.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "engine/sampler.h"

namespace gemmatrace::server {
namespace {

constexpr size_t kMaxBiases = 4096;
constexpr size_t kMaxStopBytes = 4096;

void read_logit_bias(const RequestFields& fields, int32_t vocab_size, engine::SamplingParameters& sampling) {
    const auto* biases = fields.object("logit_bias");
    if (biases == nullptr) return;
    if (biases->size() > kMaxBiases) fields.refuse("logit_bias", fmt::format("more than {} tokens", kMaxBiases));
    for (const auto& [name, value] : biases->items()) {
        int32_t id = -1;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
        if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size() || id < 0 || id >= vocab_size) {
            fields.refuse("logit_bias", fmt::format("'{}' is not a token id below {}", name.substr(0, 40), vocab_size));
        }
        if (!value.is_number()) fields.refuse("logit_bias", fmt::format("the bias of token {} is not a number", id));
        sampling.logit_bias.emplace_back(id, value.get<float>());
    }
}

}  // namespace

uint64_t random_seed() {
    thread_local std::random_device device;
    // 53 bits, so that every JSON reader gives the same number back.
    return ((static_cast<uint64_t>(device()) << 32) | device()) >> 11;
}

std::string random_id(std::string_view prefix) {
    return fmt::format("{}{:013x}{:013x}", prefix, random_seed() >> 1, random_seed() >> 1);
}

engine::Request generation_options(const Service& service, const RequestFields& fields) {
    const GenerationDefaults& defaults = service.defaults;
    engine::Request request;
    engine::SamplingParameters& sampling = request.sampling;
    constexpr int64_t kAnySeed = std::numeric_limits<int64_t>::max();
    sampling.temperature = fields.number("temperature", 0.0, 5.0).value_or(defaults.temperature);
    sampling.top_p = fields.number("top_p", 0.0, 1.0).value_or(defaults.top_p);
    const int64_t top_k = fields.whole("top_k", -1, std::numeric_limits<int32_t>::max()).value_or(defaults.top_k);
    sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
    sampling.min_p = fields.number("min_p", 0.0, 1.0).value_or(defaults.min_p);
    const auto seed = fields.whole("seed", std::numeric_limits<int64_t>::min(), kAnySeed);
    sampling.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();
    sampling.frequency_penalty = fields.number("frequency_penalty", -2.0, 2.0).value_or(0.0);
    sampling.presence_penalty = fields.number("presence_penalty", -2.0, 2.0).value_or(0.0);
    const auto repetition = fields.number("repetition_penalty", 1e-3, 1e3);
    sampling.repetition_penalty = repetition ? *repetition : fields.number("repeat_penalty", 1e-3, 1e3).value_or(1.0);
    read_logit_bias(fields, service.engine->limits().vocab_size, sampling);
    engine::check_sampling(sampling);
    request.min_tokens = fields.whole("min_tokens", 0, service.context_tokens()).value_or(0);
    request.ignores_end = fields.flag("ignore_eos").value_or(false);
    request.end_ids = defaults.end_ids;
    request.suppress_ids = defaults.suppress_ids;
    if (service.limits.max_request_seconds > 0.0) {
        request.deadline = std::chrono::steady_clock::now() +
                           std::chrono::milliseconds(static_cast<int64_t>(service.limits.max_request_seconds * 1e3));
    }
    return request;
}

std::vector<std::string> stop_strings(const Service& service, const RequestFields& fields, std::string_view name) {
    const auto* stop = fields.find(name);
    if (stop == nullptr) return {};
    if (!stop->is_string() && !stop->is_array()) fields.refuse(name, "a string or a list of strings is expected");
    std::vector<std::string> strings;
    const auto add = [&](const nlohmann::ordered_json& value) {
        if (!value.is_string()) fields.refuse(name, "a string or a list of strings is expected");
        strings.push_back(value.get<std::string>());
        if (strings.back().size() > kMaxStopBytes) {
            fields.refuse(name, fmt::format("a stop string is longer than {} bytes", kMaxStopBytes));
        }
    };
    if (stop->is_string()) {
        add(*stop);
    } else {
        for (const auto& value : *stop) add(value);
    }
    if (strings.size() > service.limits.max_stop_strings) {
        fields.refuse(name, fmt::format("{} strings are more than the limit of {}", strings.size(),
                                        service.limits.max_stop_strings));
    }
    return strings;
}

}  // namespace gemmatrace::server
