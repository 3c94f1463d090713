// The engine over traced programs: whatever runs beside a request or before it, its tokens are those it gets alone.
#include "engine/device_backend.h"

#include <gtest/gtest.h>

#include <future>
#include <random>

#include "engine/engine.h"
#include "engine/generator.h"
#include "trace/sim_device.h"

namespace gemmatrace::engine {
namespace {

constexpr int64_t kDeviceContext = 320;

std::unique_ptr<Backend> device_backend(int32_t slots) {
    DeviceSourceOptions options;
    options.checkpoint = GEMMATRACE_SOURCE_DIR "/models/demo";
    options.ranks = 2;
    options.chunk_tokens = 16;
    options.make_device = [](int32_t ranks) { return trace::make_sim_device(ranks, 1); };
    return make_device_source(std::move(options))->make(slots, kDeviceContext);
}

class Waiter : public RequestListener {
  public:
    bool on_token(const GeneratedToken& token) override {
        ids.push_back(token.id);
        logprobs.push_back(token.logprob);
        return true;
    }
    void on_finish(FinishReason, const RequestStatistics& figures) override { end_.set_value(figures); }
    void on_error(const Error& error, const RequestStatistics&) override {
        end_.set_exception(std::make_exception_ptr(error));
    }
    RequestStatistics wait() { return end_.get_future().get(); }

    std::vector<int32_t> ids;
    std::vector<float> logprobs;  // of requests that ask for them

  private:
    std::promise<RequestStatistics> end_;
};

std::vector<int32_t> tokens_alone(Backend& backend, const std::vector<int32_t>& prompt, int64_t count) {
    backend.release(0);
    GenerationRequest request;
    request.prompt_ids = prompt;
    request.max_tokens = count;
    return generate(backend, 0, request, nullptr).token_ids;
}

Request device_request(const std::vector<int32_t>& prompt, int64_t count) {
    Request request;
    request.prompt_ids = prompt;
    request.max_tokens = count;
    return request;
}

std::unique_ptr<Engine> device_engine(int32_t slots) {
    auto backend = device_backend(slots);
    EngineOptions options;
    options.cache_bytes = backend->slot_bytes(kDeviceContext) * static_cast<size_t>(slots);
    options.snapshot_bytes = size_t{16} << 20;
    return std::make_unique<Engine>(std::move(backend), options);
}

TEST(DeviceEngine, RequestsBesideEachOtherGetTheTokensTheyGetAlone) {
    const auto reference = device_backend(1);
    const auto engine = device_engine(3);
    std::mt19937 random(4);
    std::vector<int32_t> stem = {2};
    while (stem.size() < 150) stem.push_back(static_cast<int32_t>(300 + random() % 700));
    std::vector<std::vector<int32_t>> prompts;
    std::vector<std::shared_ptr<Waiter>> waiters;
    for (int index = 0; index < 10; ++index) {
        std::vector<int32_t> prompt(stem.begin(), stem.begin() + 1 + static_cast<int64_t>(random() % 140));
        for (int more = 0; more < 5; ++more) prompt.push_back(static_cast<int32_t>(300 + random() % 700));
        waiters.push_back(std::make_shared<Waiter>());
        engine->submit(device_request(prompt, 12), waiters.back());
        prompts.push_back(std::move(prompt));
    }
    int64_t cached = 0;
    for (size_t index = 0; index < prompts.size(); ++index) {
        cached += waiters[index]->wait().cached_tokens;
        EXPECT_EQ(waiters[index]->ids, tokens_alone(*reference, prompts[index], 12)) << index;
    }
    EXPECT_GT(cached, 0);
}

// A decode leaves other last bits than a prefill would, so the reply is run again.
TEST(DeviceEngine, AnotherTurnUsesWhatAPrefillLeft) {
    const auto engine = device_engine(2);
    std::vector<int32_t> history = {2};
    for (int32_t index = 1; index < 70; ++index) history.push_back(300 + index * 31 % 700);
    auto first = std::make_shared<Waiter>();
    engine->submit(device_request(history, 10), first);
    first->wait();
    history.insert(history.end(), first->ids.begin(), first->ids.end());
    history.push_back(400);
    auto second = std::make_shared<Waiter>();
    engine->submit(device_request(history, 4), second);
    EXPECT_EQ(second->wait().cached_tokens, 70);
    const auto reference = device_backend(1);
    EXPECT_EQ(second->ids, tokens_alone(*reference, history, 4));
}

// By then the rings hold the reply alone; what they held where the prompt ends was kept, and goes back beside what the
// other slot holds.
TEST(DeviceEngine, AnotherTurnAfterALongReplyUsesThePromptBeforeIt) {
    const auto fresh = device_engine(2);
    // Log probabilities show every bit of what was used again; four tokens alone might hide it.
    const auto run = [](Engine& engine, const std::vector<int32_t>& prompt, int64_t count) {
        Request request = device_request(prompt, count);
        request.top_logprobs = 0;
        auto waiter = std::make_shared<Waiter>();
        engine.submit(std::move(request), waiter);
        return waiter;
    };
    const auto alone = [&](const std::vector<int32_t>& prompt, int64_t count) {
        const auto waiter = run(*fresh, prompt, count);
        EXPECT_LE(waiter->wait().cached_tokens, 1);
        return waiter;
    };
    int32_t first_id = 310;
    for (const int64_t length : {70, 80}) {  // ends of prompts between and on borders of chunks
        const auto engine = device_engine(2);
        std::vector<int32_t> history = {2, first_id++}, other = {2, 900 + first_id};
        while (static_cast<int64_t>(history.size()) < length) {
            history.push_back(300 + static_cast<int32_t>(history.size()) * 31 % 700);
        }
        const auto first = run(*engine, history, 20);
        first->wait();
        const auto beside = run(*engine, other, 30);
        history.insert(history.end(), first->ids.begin(), first->ids.end());
        history.push_back(400);
        const auto second = run(*engine, history, 4);
        EXPECT_EQ(second->wait().cached_tokens, length - 1);
        beside->wait();
        const auto second_alone = alone(history, 4), beside_alone = alone(other, 30);
        EXPECT_EQ(second->ids, second_alone->ids);
        EXPECT_EQ(second->logprobs, second_alone->logprobs) << length;
        EXPECT_EQ(beside->logprobs, beside_alone->logprobs) << length;
    }
}

// With a bundle the slots are the bundle's, and a slot is still one of them.
TEST(DeviceSource, ASlotTakesAsMuchWithABundleAsWithout) {
    DeviceSourceOptions options;
    options.checkpoint = GEMMATRACE_SOURCE_DIR "/models/demo";
    options.ranks = 2;
    options.chunk_tokens = 16;
    DeviceSourceOptions bundled = options;
    bundled.geometry = trace::Geometry{2, 4, kDeviceContext, 16};
    EXPECT_EQ(make_device_source(bundled)->slot_bytes(kDeviceContext),
              make_device_source(options)->slot_bytes(kDeviceContext));
}

TEST(DeviceEngine, LogProbabilitiesOfThePromptAreRefused) {
    const auto engine = device_engine(1);
    Request request = device_request({2, 400}, 1);
    request.prompt_logprobs = true;
    request.top_logprobs = 0;
    try {
        engine->submit(std::move(request), std::make_shared<Waiter>());
        FAIL() << "a device gave what it has not";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
    }
}

}  // namespace
}  // namespace gemmatrace::engine
