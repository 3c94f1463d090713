// Chooses the next token from one row of logits: greedily, or drawn as Transformers' sampling filters would.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/capped_logits.h"
#include "engine/sampling_parameters.h"
#include "model/precision.h"

namespace gemmatrace::engine {

// Checks the ranges a request may ask for. Throws Error(bad_request) naming the field.
void check_sampling(const SamplingParameters& parameters);

// One per sequence. Draws are counted: the n-th draw depends on the seed, on n and on the logits alone, so a request
// with a seed can be repeated. Buffers are kept between calls; nothing is allocated per token after the first.
class Sampler {
  public:
    // softcap and precision: the model's, because filters and draws work on the capped logits as the reference has
    // them. suppress_ids never win, in greedy too; ids outside the vocabulary are ignored.
    Sampler(const SamplingParameters& parameters, std::optional<double> softcap, model::Precision precision,
            std::vector<int32_t> suppress_ids);

    // Tokens of the prompt, which a repetition penalty counts. Before the first choice.
    void observe_prompt(std::span<const int32_t> ids);

    // What may be chosen this time, beside suppress_ids.
    struct Choice {
        std::span<const uint64_t> allowed = {};      // one bit an id; empty: every id
        std::span<const int32_t> also_allowed = {};  // these too, when `allowed` is not empty
        std::span<const int32_t> suppressed = {};    // these not
    };

    // The next id. logits: [vocab_size], before the cap. Penalties, bias and what is not allowed come first, on capped
    // logits. temperature 0: model::greedy_token. Otherwise, in the order of
    // Transformers 5.13 (generation/logits_process.py): suppressed ids out, divide by temperature, top_k (ties of the
    // k-th stay), top_p (lowest id first among ties), min_p, softmax, one draw. Throws Error(internal) if a logit is
    // NaN or none is left to choose.
    int32_t choose(std::span<const float> logits, const Choice& choice);
    int32_t choose(std::span<const float> logits) { return choose(logits, Choice{}); }
    // The same without the logits, where `best`, the greedy choice with nothing suppressed, decides; else nothing.
    std::optional<int32_t> choose_best(std::optional<int32_t> best, const Choice& choice) const;

  private:
    struct Candidate {
        float score;  // capped, divided by the temperature; after weigh() its unnormalised probability
        int32_t id;
    };

    bool needs_changes(const Choice& choice) const;
    std::span<const float> changed(std::span<const float> logits, const Choice& choice);
    int32_t draw(std::span<const float> logits);
    float score(float logit) const;
    float smallest_logit_scoring_as(float logit) const;
    float kth_largest(std::span<const float> logits, int32_t k);
    void gather(std::span<const float> logits);
    double weigh();
    double keep_top_p(double total_weight);
    double keep_min_p();
    bool is_suppressed(int32_t id) const;

    SamplingParameters parameters_;
    std::optional<double> softcap_;  // of the logits that a draw is made from: none once they were capped
    model::Precision precision_;
    CappedLogits capped_;
    bool has_penalties_;
    std::vector<int32_t> suppress_ids_;            // ascending
    std::unordered_map<int32_t, int32_t> counts_;  // of generated tokens; 0 for those of the prompt only
    std::vector<float> changed_;
    std::vector<std::pair<int32_t, float>> kept_;
    uint64_t draws_ = 0;
    std::vector<float> largest_;  // min-heap of the k largest logits
    std::vector<Candidate> candidates_;
};

}  // namespace gemmatrace::engine
