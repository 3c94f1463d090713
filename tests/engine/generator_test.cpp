// Generation ends where it must, leaves the slot as it says, and never depends on how the prompt came into the slot.
#include "engine/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "engine/cpu_backend.h"

namespace gemmatrace::engine {
namespace {

class GeneratorTest : public testing::Test {
  protected:
    static std::unique_ptr<Backend> backend_of(int64_t context_tokens) {
        auto runner = std::make_unique<cpu::Runner>(GEMMATRACE_SOURCE_DIR "/models/demo", options());
        return make_cpu_backend(std::move(runner), 1, context_tokens, options().chunk_tokens);
    }

    static cpu::RunnerOptions options() {
        cpu::RunnerOptions options;
        options.threads = 1;
        options.chunk_tokens = 8;  // several chunks even in a short prompt
        return options;
    }

    GenerationRequest request(int64_t max_tokens = 6) const {
        GenerationRequest request;
        for (int32_t id = 0; id < 20; ++id) request.prompt_ids.push_back(id == 0 ? 2 : 300 + 7 * id);
        request.max_tokens = max_tokens;
        return request;
    }

    GenerationResult run(const GenerationRequest& request) {
        backend_->trim(0, 0);
        return generate(*backend_, 0, request, nullptr);
    }

    std::unique_ptr<Backend> backend_ = backend_of(64);
};

TEST_F(GeneratorTest, exactly_max_tokens_come_and_the_last_one_is_not_run) {
    const auto result = generate(*backend_, 0, request(6), nullptr);
    EXPECT_EQ(result.token_ids.size(), 6U);
    EXPECT_EQ(result.finish_reason, FinishReason::length);
    EXPECT_EQ(backend_->length(0), 20 + 5);
}

TEST_F(GeneratorTest, no_tokens_are_an_answer_too_and_run_nothing) {
    const auto result = generate(*backend_, 0, request(0), nullptr);
    EXPECT_TRUE(result.token_ids.empty());
    EXPECT_EQ(result.finish_reason, FinishReason::length);
    EXPECT_EQ(backend_->length(0), 0);
}

TEST_F(GeneratorTest, a_stop_id_ends_before_it_is_added) {
    const auto whole = run(request(6)).token_ids;
    for (const int32_t stop : whole) {
        GenerationRequest stopped = request(6);
        stopped.stop_ids = {-5, stop};
        stopped.top_logits = 2;
        const auto result = run(stopped);
        const auto expected_end = std::ranges::find(whole, stop);
        EXPECT_EQ(result.token_ids, std::vector<int32_t>(whole.begin(), expected_end));
        EXPECT_EQ(result.finish_reason, FinishReason::stop);
        EXPECT_EQ(result.stop_id, stop);
        EXPECT_EQ(result.top_logits.size(), result.token_ids.size() + 1);
        EXPECT_EQ(result.top_logits.back()[0].first, stop);
    }
}

TEST_F(GeneratorTest, suppressed_ids_never_come_and_never_stop) {
    const auto whole = run(request(6)).token_ids;
    GenerationRequest suppressing = request(6);
    suppressing.suppress_ids = {whole[0]};
    suppressing.stop_ids = {whole[0]};
    const auto result = run(suppressing);
    EXPECT_EQ(std::ranges::count(result.token_ids, whole[0]), 0);
    EXPECT_FALSE(result.stop_id == whole[0]);
}

TEST_F(GeneratorTest, a_prompt_in_two_parts_is_the_same_prompt) {
    const auto whole = run(request(6)).token_ids;
    for (const int64_t first : {1, 7, 8, 19}) {
        backend_->trim(0, 0);
        GenerationRequest rest = request(6);
        const std::vector<int32_t> head(rest.prompt_ids.begin(), rest.prompt_ids.begin() + first);
        rest.prompt_ids.erase(rest.prompt_ids.begin(), rest.prompt_ids.begin() + first);
        for (const int32_t id : head) backend_->prefill(0, {&id, 1}, false);
        EXPECT_EQ(generate(*backend_, 0, rest, nullptr).token_ids, whole) << first;
    }
}

TEST_F(GeneratorTest, on_token_sees_every_id_and_can_end_it) {
    std::vector<int32_t> seen;
    const auto result = generate(*backend_, 0, request(6), [&](int32_t id) {
        seen.push_back(id);
        return seen.size() < 3;
    });
    EXPECT_EQ(seen.size(), 3U);
    EXPECT_EQ(result.token_ids, seen);
    EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
}

TEST_F(GeneratorTest, should_stop_ends_a_long_prompt_between_chunks) {
    GenerationRequest stopped = request(6);
    stopped.should_stop = [this] { return backend_->length(0) > 0; };
    const auto result = generate(*backend_, 0, stopped, nullptr);
    EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
    EXPECT_TRUE(result.token_ids.empty());
    EXPECT_LT(backend_->length(0), 20);
}

TEST_F(GeneratorTest, F005_what_does_not_fit_is_refused_with_both_numbers_and_nothing_is_run) {
    backend_ = backend_of(24);
    try {
        generate(*backend_, 0, request(5), nullptr);
        FAIL() << "25 tokens fitted into 24";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::too_long);
        EXPECT_NE(error.message().find("20"), std::string::npos);
        EXPECT_NE(error.message().find("24"), std::string::npos);
    }
    EXPECT_EQ(backend_->length(0), 0);
    EXPECT_EQ(generate(*backend_, 0, request(4), nullptr).token_ids.size(), 4U);
}

TEST_F(GeneratorTest, wrong_requests_are_refused) {
    const auto code_of = [&](GenerationRequest request) {
        try {
            run(request);
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::internal;
    };
    GenerationRequest empty = request();
    empty.prompt_ids.clear();
    EXPECT_EQ(code_of(empty), ErrorCode::bad_request);
    for (const int32_t id : {-1, backend_->limits().vocab_size}) {
        GenerationRequest outside = request();
        outside.prompt_ids[3] = id;
        EXPECT_EQ(code_of(outside), ErrorCode::bad_request);
    }
    EXPECT_EQ(code_of(request(-1)), ErrorCode::bad_request);
    GenerationRequest negative = request();
    negative.top_logits = -1;
    EXPECT_EQ(code_of(negative), ErrorCode::bad_request);
    GenerationRequest cold = request();
    cold.sampling.temperature = -1.0;
    EXPECT_EQ(code_of(cold), ErrorCode::bad_request);
}

TEST_F(GeneratorTest, a_seed_repeats_a_sampled_answer) {
    GenerationRequest hot = request(12);
    hot.sampling = {.temperature = 2.0, .seed = 5};
    const auto first = run(hot).token_ids;
    EXPECT_EQ(run(hot).token_ids, first);
    hot.sampling.seed = 6;
    EXPECT_NE(run(hot).token_ids, first);
}

}  // namespace
}  // namespace gemmatrace::engine
