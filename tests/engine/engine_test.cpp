// Whatever runs beside a request, before it or instead of it: its tokens are those it gets alone.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "engine/cpu_backend.h"
#include "engine/generator.h"

namespace gemmatrace::engine {
namespace {

constexpr int64_t kContext = 2048;
constexpr int32_t kChunk = 32;

cpu::RunnerOptions demo_options(int threads = 1) {
    cpu::RunnerOptions options;
    options.threads = threads;
    options.chunk_tokens = kChunk;
    return options;
}

std::unique_ptr<cpu::Runner> demo_runner(int threads = 1) {
    return std::make_unique<cpu::Runner>(GEMMATRACE_SOURCE_DIR "/models/demo", demo_options(threads));
}

// Keeps what the engine tells, and lets the test wait for the end.
class Recorder : public RequestListener {
  public:
    void on_placed(int64_t cached) override {
        EXPECT_FALSE(cached_when_placed) << "told twice";
        EXPECT_TRUE(tokens.empty());
        cached_when_placed = cached;
    }
    void on_prompt(const std::vector<GeneratedToken>& echoed) override { prompt = echoed; }
    bool on_token(const GeneratedToken& token) override {
        const std::lock_guard lock(mutex_);
        tokens.push_back(token);
        if (!token.is_end) ids.push_back(token.id);
        changed_.notify_all();
        return ids.size() < stop_after;
    }
    void on_finish(FinishReason why, const RequestStatistics& figures) override { end(why, std::nullopt, figures); }
    void on_error(const Error& what, const RequestStatistics& figures) override {
        end(FinishReason::cancelled, what, figures);
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ends > 0; });
    }
    bool has_ended() {
        const std::lock_guard lock(mutex_);
        return ends > 0;
    }
    void wait_for_tokens(size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends > 0 || ids.size() >= count; });
    }

    std::optional<int64_t> cached_when_placed;
    std::vector<GeneratedToken> prompt;
    std::vector<GeneratedToken> tokens;
    std::vector<int32_t> ids;
    size_t stop_after = SIZE_MAX;
    FinishReason reason = FinishReason::cancelled;
    std::optional<Error> error;
    RequestStatistics statistics;
    std::chrono::steady_clock::time_point ended_at;
    int ends = 0;

  private:
    void end(FinishReason why, std::optional<Error> what, const RequestStatistics& figures) {
        const std::lock_guard lock(mutex_);
        reason = why;
        error = std::move(what);
        statistics = figures;
        ended_at = std::chrono::steady_clock::now();
        ++ends;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
};

EngineOptions roomy(const Backend& backend) {
    EngineOptions options;
    options.queue_requests = 1000;
    options.cache_bytes = backend.slot_bytes(kContext) * 4;
    options.snapshot_bytes = size_t{64} << 20;
    return options;
}

std::unique_ptr<Engine> demo_engine(int32_t slots = 4, bool reuses_prefixes = true, size_t cache_bytes = 0,
                                    int threads = 1) {
    auto backend = make_cpu_backend(demo_runner(threads), slots, kContext, kChunk);
    EngineOptions options = roomy(*backend);
    options.reuses_prefixes = reuses_prefixes;
    if (cache_bytes > 0) options.cache_bytes = cache_bytes;
    return std::make_unique<Engine>(std::move(backend), options);
}

std::vector<int32_t> random_ids(std::mt19937& random, size_t count) {
    std::vector<int32_t> ids = {2};
    while (ids.size() < count) ids.push_back(static_cast<int32_t>(300 + random() % 700));
    return ids;
}

Request request_for(std::vector<int32_t> prompt, int64_t max_tokens) {
    Request request;
    request.prompt_ids = std::move(prompt);
    request.max_tokens = max_tokens;
    return request;
}

// A backend of its own, with one slot.
std::unique_ptr<Backend> lone_backend() { return make_cpu_backend(demo_runner(), 1, kContext, kChunk); }

std::vector<int32_t> alone(Backend& backend, const Request& request) {
    backend.release(0);
    GenerationRequest same;
    same.prompt_ids = request.prompt_ids;
    same.max_tokens = request.max_tokens;
    same.sampling = request.sampling;
    same.stop_ids = request.end_ids;
    return generate(backend, 0, same, nullptr).token_ids;
}

std::shared_ptr<Recorder> run(Engine& engine, Request request) {
    auto recorder = std::make_shared<Recorder>();
    engine.submit(std::move(request), recorder);
    recorder->wait();
    return recorder;
}

// Requests that share prefixes of many lengths, sampled and greedy, longer than the window, some cancelled on their
// way.
struct Mixture {
    explicit Mixture(unsigned seed, size_t count) {
        std::mt19937 random(seed);
        std::vector<std::vector<int32_t>> stems;
        for (int stem = 0; stem < 3; ++stem) stems.push_back(random_ids(random, 400));
        for (size_t index = 0; index < count; ++index) {
            std::vector<int32_t> prompt = stems[random() % stems.size()];
            prompt.resize(1 + random() % 300);
            const auto tail = random_ids(random, random() % 40);
            prompt.insert(prompt.end(), tail.begin(), tail.end());
            Request request = request_for(std::move(prompt), static_cast<int64_t>(1 + random() % 40));
            if (random() % 2 == 0) {
                request.sampling.temperature = 1.0;
                request.sampling.top_k = 40;
                request.sampling.seed = random();
            }
            requests.push_back(std::move(request));
            cancel_after.push_back(random() % 5 == 0 ? random() % 10 : SIZE_MAX);
        }
    }
    std::vector<Request> requests;
    std::vector<size_t> cancel_after;
};

void expect_as_alone(Engine& engine, const Mixture& mixture) {
    const auto reference = lone_backend();
    std::vector<std::shared_ptr<Recorder>> recorders;
    std::vector<RequestId> ids;
    for (const Request& request : mixture.requests) {
        recorders.push_back(std::make_shared<Recorder>());
        ids.push_back(engine.submit(request, recorders.back()));
    }
    for (size_t index = 0; index < ids.size(); ++index) {
        if (mixture.cancel_after[index] == SIZE_MAX) continue;
        recorders[index]->wait_for_tokens(mixture.cancel_after[index]);
        engine.cancel(ids[index]);
    }
    for (size_t index = 0; index < ids.size(); ++index) {
        Recorder& recorder = *recorders[index];
        recorder.wait();
        EXPECT_FALSE(recorder.error) << recorder.error->what();
        std::vector<int32_t> expected = alone(*reference, mixture.requests[index]);
        if (recorder.reason == FinishReason::cancelled) {
            ASSERT_LE(recorder.ids.size(), expected.size());
            expected.resize(recorder.ids.size());
        }
        EXPECT_EQ(recorder.ids, expected) << "request " << index;
    }
    for (const auto& recorder : recorders) EXPECT_EQ(recorder->ends, 1);
    EXPECT_TRUE(engine.is_idle());
}

TEST(Engine, RequestsGetTheTokensTheyGetAlone) { expect_as_alone(*demo_engine(), Mixture(1, 24)); }

TEST(Engine, RequestsGetTheTokensTheyGetAloneWithoutReuseAndWithTwoThreads) {
    expect_as_alone(*demo_engine(3, false, 0, 2), Mixture(2, 16));
}

TEST(Engine, AShortageOfMemorySendsRequestsBackToTheQueueAndChangesNoToken) {
    const auto probe = make_cpu_backend(demo_runner(), 1, kContext, kChunk);
    const auto engine = demo_engine(6, true, probe->slot_bytes(kContext));
    Mixture mixture(3, 12);
    for (Request& request : mixture.requests) request.max_tokens = 300;
    std::ranges::fill(mixture.cancel_after, SIZE_MAX);
    expect_as_alone(*engine, mixture);
    EXPECT_GT(engine->statistics().preemptions, 0U);
}

TEST(Engine, ARequestThatWaitsForMemoryIsNotPassedBySmallerOnesForEver) {
    // Memory for one whole sequence: the large request must wait for the first, and the small one would fit beside it.
    const size_t whole = make_cpu_backend(demo_runner(), 1, kContext, kChunk)->slot_bytes(kContext);
    const auto engine = demo_engine(4, true, whole);
    std::mt19937 random(31);
    const auto first = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, 300), 400), first);
    first->wait_for_tokens(1);
    const auto large = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, kContext - 4), 2), large);
    const auto small = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, 20), 2), small);
    small->wait();
    EXPECT_TRUE(first->has_ended());
    EXPECT_TRUE(large->has_ended());
}

TEST(Engine, EveryTurnOfAConversationPrefillsOnlyWhatIsNew) {
    const auto engine = demo_engine();
    const auto reference = lone_backend();
    std::mt19937 random(4);
    std::vector<int32_t> history = random_ids(random, 500);
    for (int turn = 0; turn < 8; ++turn) {
        const auto recorder = run(*engine, request_for(history, turn % 2 == 0 ? 20 : 100));
        EXPECT_EQ(recorder->ids, alone(*reference, request_for(history, turn % 2 == 0 ? 20 : 100)));
        const int64_t known =
            turn == 0 ? 0 : recorder->statistics.prompt_tokens - 31;  // the last reply's end was not run
        EXPECT_EQ(recorder->statistics.cached_tokens, known) << "turn " << turn;
        EXPECT_EQ(recorder->cached_when_placed, known) << "turn " << turn;
        history.insert(history.end(), recorder->ids.begin(), recorder->ids.end());
        const auto next = random_ids(random, 30);
        history.insert(history.end(), next.begin(), next.end());
    }
}

TEST(Engine, AReplyThatIsNotKeptIsRolledBackToThePromptsEnd) {
    const auto engine = demo_engine();
    const auto reference = lone_backend();
    std::mt19937 random(5);
    std::vector<int32_t> history = random_ids(random, 700);
    run(*engine, request_for(history, 300));  // far more than the rings could roll back by themselves
    const auto before = static_cast<int64_t>(history.size());
    const auto next = random_ids(random, 30);
    history.insert(history.end(), next.begin(), next.end());
    const auto recorder = run(*engine, request_for(history, 20));
    EXPECT_EQ(recorder->statistics.cached_tokens, before - 1);
    EXPECT_EQ(recorder->ids, alone(*reference, request_for(history, 20)));
}

TEST(Engine, MemoryForFewerSnapshotsThanSlotsKeepsThoseOfTheLatestConversations) {
    auto backend = make_cpu_backend(demo_runner(1), 4, kContext, kChunk);
    EngineOptions options = roomy(*backend);
    options.snapshot_bytes = 2 * backend->snapshot_bytes();
    Engine engine(std::move(backend), options);
    std::mt19937 random(9);
    std::vector<std::vector<int32_t>> histories;
    for (int conversation = 0; conversation < 3; ++conversation) {
        histories.push_back(random_ids(random, 120));
        run(engine, request_for(histories.back(), 120));
    }
    const auto cached = [&](size_t conversation) {
        std::vector<int32_t> prompt = histories[conversation];
        prompt.push_back(777);
        return run(engine, request_for(prompt, 1))->statistics.cached_tokens;
    };
    EXPECT_EQ(cached(2), 119);
    EXPECT_EQ(cached(1), 119);
    EXPECT_EQ(cached(0), 0) << "its snapshot went first";
}

TEST(Engine, PromptsThatPartInTheMiddleShareUpToASnapshotOnlyAFewHundredTokensBefore) {
    const auto engine = demo_engine();
    const auto reference = lone_backend();
    std::mt19937 random(6);
    const std::vector<int32_t> stem = random_ids(random, 900);
    for (const size_t shared : {size_t{900}, size_t{700}, size_t{300}, size_t{860}}) {
        std::vector<int32_t> prompt(stem.begin(), stem.begin() + static_cast<std::ptrdiff_t>(shared));
        const auto tail = random_ids(random, 200);
        prompt.insert(prompt.end(), tail.begin(), tail.end());
        const auto recorder = run(*engine, request_for(prompt, 10));
        EXPECT_EQ(recorder->ids, alone(*reference, request_for(prompt, 10)));
        if (shared == 900) continue;
        EXPECT_GT(recorder->statistics.cached_tokens, static_cast<int64_t>(shared) - 300);
    }
}

TEST(Engine, RequestsAtOnceWithOnePromptComputeItOnce) {
    const auto engine = demo_engine();
    std::mt19937 random(7);
    const auto prompt = random_ids(random, 600);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (int index = 0; index < 3; ++index) {
        recorders.push_back(std::make_shared<Recorder>());
        engine->submit(request_for(prompt, 5), recorders.back());
    }
    int64_t computed = 0;
    for (const auto& recorder : recorders) {
        recorder->wait();
        computed += recorder->statistics.prompt_tokens - recorder->statistics.cached_tokens;
        EXPECT_EQ(recorder->ids, recorders.front()->ids);
    }
    EXPECT_LE(computed, 600 + 2 * kChunk);
}

// Holds the engine's thread inside its first token until it is let go.
class Gate : public Recorder {
  public:
    bool on_token(const GeneratedToken& token) override {
        Recorder::on_token(token);
        opened_.wait(false);
        return true;
    }
    void open() {
        opened_ = true;
        opened_.notify_all();
    }

  private:
    std::atomic<bool> opened_ = false;
};

TEST(Engine, AShortRequestDoesNotWaitForTheLongPromptBeforeIt) {
    const auto engine = demo_engine();
    std::mt19937 random(12);
    auto gate = std::make_shared<Gate>();
    auto late = std::make_shared<Recorder>();
    auto soon = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, 5), 1), gate);
    gate->wait_for_tokens(1);
    engine->submit(request_for(random_ids(random, 1500), 1), late);  // 47 chunks and more
    engine->submit(request_for(random_ids(random, 20), 4), soon);
    gate->open();
    soon->wait();
    late->wait();
    EXPECT_LT(soon->ended_at, late->ended_at);
    EXPECT_EQ(soon->ids.size(), 4U);
}

TEST(Engine, F134_ACancelledRequestFreesItsSlotAtTheNextStep) {
    const auto engine = demo_engine(1);
    std::mt19937 random(8);
    auto endless = std::make_shared<Recorder>();
    const auto id = engine->submit(request_for(random_ids(random, 20), 1800), endless);
    endless->wait_for_tokens(2);
    auto next = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, 20), 3), next);
    engine->cancel(id);
    next->wait();
    EXPECT_EQ(next->ids.size(), 3U);
    EXPECT_EQ(endless->reason, FinishReason::cancelled);
    EXPECT_LT(endless->ids.size(), 1700U);
}

TEST(Engine, SeveralThatBelongTogetherAreAllQueuedOrNoneIs) {
    auto backend = lone_backend();
    EngineOptions options = roomy(*backend);
    options.queue_requests = 3;
    Engine engine(std::move(backend), options);
    std::mt19937 random(19);
    auto running = std::make_shared<Recorder>();
    const RequestId id = engine.submit(request_for(random_ids(random, 20), 1500), running);
    const auto submit = [&](size_t count) {
        std::vector<std::shared_ptr<Recorder>> recorders;
        std::vector<Engine::Submission> together;
        for (size_t index = 0; index < count; ++index) {
            recorders.push_back(std::make_shared<Recorder>());
            together.push_back({request_for(random_ids(random, 20), 2), recorders.back()});
        }
        EXPECT_EQ(engine.submit(std::move(together)).size(), count);
        return recorders;
    };
    const auto queued = submit(2);
    try {
        submit(2);
        ADD_FAILURE() << "there was room for one of them only";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::overloaded);
    }
    EXPECT_EQ(engine.statistics().waiting + engine.statistics().running, 3) << "a part of them was taken";
    try {
        submit(5);
        ADD_FAILURE() << "so many never have room";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_request);
    }
    engine.cancel(id);
    for (const auto& recorder : queued) recorder->wait();
    for (const auto& recorder : submit(4)) recorder->wait();
}

TEST(Engine, AFullQueueIsOverloadedAndATooLongPromptSaysBothNumbers) {
    auto backend = lone_backend();
    EngineOptions options = roomy(*backend);
    options.queue_requests = 1;
    Engine engine(std::move(backend), options);
    std::mt19937 random(9);
    std::vector<std::shared_ptr<Recorder>> recorders;
    std::vector<RequestId> ids;
    const auto submit = [&] {
        recorders.push_back(std::make_shared<Recorder>());
        ids.push_back(engine.submit(request_for(random_ids(random, 20), 1500), recorders.back()));
    };
    submit();
    submit();
    try {
        submit();
        FAIL() << "the third request was taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::overloaded);
    }
    try {
        engine.submit(request_for(random_ids(random, 2000), 60), std::make_shared<Recorder>());
        FAIL() << "too many tokens were taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::too_long);
        EXPECT_NE(std::string(error.what()).find("2000"), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("2048"), std::string::npos);
    }
    for (const RequestId id : ids) engine.cancel(id);
    recorders[0]->wait();
    recorders[1]->wait();
}

TEST(Engine, EndTokensWaitForMinTokensAndAreIgnoredOnRequest) {
    const auto engine = demo_engine();
    std::mt19937 random(10);
    Request request = request_for(random_ids(random, 20), 12);
    const auto free_run = run(*engine, request)->ids;
    request.end_ids = {free_run[3]};
    const auto ended = run(*engine, request);
    EXPECT_EQ(ended->reason, FinishReason::stop);
    EXPECT_LE(ended->ids.size(), 3U);
    request.min_tokens = 8;
    EXPECT_GE(run(*engine, request)->ids.size(), 8U);
    request.min_tokens = 0;
    request.ignores_end = true;
    EXPECT_EQ(run(*engine, request)->ids, free_run);
}

// Allows one token for ever, and an end at any time.
class OneTokenFilter : public TokenFilter {
  public:
    static constexpr int32_t kAllowed = 70;
    explicit OneTokenFilter(int32_t vocab_size) : bits_((static_cast<size_t>(vocab_size) + 63) / 64) {
        bits_[kAllowed / 64] = uint64_t{1} << (kAllowed % 64);
    }
    std::span<const uint64_t> allowed() override { return bits_; }
    bool may_end() const override { return true; }
    bool must_end() const override { return false; }
    void advance(int32_t id) override { advanced.push_back(id); }
    std::vector<int32_t> advanced;

  private:
    std::vector<uint64_t> bits_;
};

TEST(Engine, AnIgnoredEndIsNoChoiceWhereAFilterAllowsOtherTokensOnly) {
    const auto engine = demo_engine();
    for (const bool ignores_end : {false, true}) {
        Request request = request_for({2, 400, 401}, 5);
        request.end_ids = {500};
        request.sampling.logit_bias = {{500, 100.0F}};
        request.ignores_end = ignores_end;
        const auto filter = std::make_shared<OneTokenFilter>(engine->limits().vocab_size);
        request.filter = filter;
        const auto recorder = run(*engine, request);
        const std::vector<int32_t> expected(ignores_end ? 5 : 0, OneTokenFilter::kAllowed);
        EXPECT_FALSE(recorder->error);
        EXPECT_EQ(recorder->ids, expected);
        EXPECT_EQ(filter->advanced, expected);
    }
}

TEST(Engine, LogProbabilitiesOfPromptAndReplyBelongToOneDistribution) {
    const auto engine = demo_engine();
    std::mt19937 random(11);
    Request request = request_for(random_ids(random, 50), 4);
    request.top_logprobs = 3;
    const auto said = run(*engine, request);
    ASSERT_EQ(said->tokens.size(), 4U);
    std::vector<int32_t> whole = request.prompt_ids;
    for (const GeneratedToken& token : said->tokens) {
        ASSERT_EQ(token.top.size(), 3U);
        EXPECT_EQ(token.top.front().id, token.id);  // greedy
        EXPECT_EQ(token.top.front().logprob, token.logprob);
        whole.push_back(token.id);
    }
    Request echo = request_for(whole, 0);
    echo.top_logprobs = 3;
    echo.prompt_logprobs = true;
    const auto echoed = run(*engine, echo);
    ASSERT_EQ(echoed->prompt.size(), whole.size());
    for (size_t token = 0; token < 4; ++token) {
        EXPECT_EQ(echoed->prompt[50 + token].logprob, said->tokens[token].logprob);
    }
}

TEST(Engine, ADeadlineEndsARequestWithAnError) {
    const auto engine = demo_engine();
    std::mt19937 random(12);
    Request request = request_for(random_ids(random, 20), 1900);
    request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    const auto recorder = run(*engine, request);
    ASSERT_TRUE(recorder->error);
    EXPECT_EQ(recorder->error->code(), ErrorCode::timeout);
}

TEST(Engine, AfterDrainNothingIsTakenAndTheRestIsFinished) {
    const auto engine = demo_engine();
    std::mt19937 random(13);
    auto recorder = std::make_shared<Recorder>();
    engine->submit(request_for(random_ids(random, 20), 30), recorder);
    engine->drain();
    EXPECT_THROW(engine->submit(request_for({2}, 1), std::make_shared<Recorder>()), Error);
    recorder->wait();
    EXPECT_EQ(recorder->ids.size(), 30U);
}

TEST(Engine, AStoppedEngineHasToldEveryRequestAndTakesNoOther) {
    const auto engine = demo_engine(1);
    std::mt19937 random(14);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (int index = 0; index < 3; ++index) {
        recorders.push_back(std::make_shared<Recorder>());
        engine->submit(request_for(random_ids(random, 20), 1500), recorders.back());
    }
    engine->stop();
    for (const auto& recorder : recorders) EXPECT_EQ(recorder->ends, 1);
    EXPECT_THROW(engine->submit(request_for({2}, 1), std::make_shared<Recorder>()), Error);
}

}  // namespace
}  // namespace gemmatrace::engine
