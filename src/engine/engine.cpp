// The scheduler's thread: one chunk of one prompt, one token for everybody else, and again.
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "engine/capped_logits.h"
#include "engine/chunk_pacer.h"
#include "engine/generator.h"
#include "engine/sampler.h"
#include "engine/slot_book.h"

namespace gemmatrace::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens of memory that a running sequence is given ahead of its end.
constexpr int64_t kReserveAhead = 256;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

// A fault of any kind must not end the thread.
Error as_error(const std::exception& fault) {
    if (const auto* error = dynamic_cast<const Error*>(&fault)) return *error;
    if (dynamic_cast<const std::bad_alloc*>(&fault) != nullptr) {
        return {ErrorCode::resource, "out of memory", {}, "allow less cache or fewer slots"};
    }
    return {ErrorCode::internal, fault.what()};
}

}  // namespace

// A request on its way.
struct Sequence {
    Sequence(RequestId number, Request asked, std::shared_ptr<RequestListener> told, const BackendLimits& limits)
        : id(number),
          request(std::move(asked)),
          listener(std::move(told)),
          sampler(request.sampling, limits.final_softcap, limits.precision, request.suppress_ids),
          capped(limits.final_softcap, limits.precision),
          ids(request.prompt_ids),
          queued_at(Clock::now()) {
        sampler.observe_prompt(request.prompt_ids);
        statistics.prompt_tokens = static_cast<int64_t>(ids.size());
    }

    bool is_prefilling(const Backend& backend) const {
        return slot >= 0 && backend.length(slot) + 1 < static_cast<int64_t>(ids.size()) + (has_started ? 0 : 1);
    }

    RequestId id;
    Request request;
    std::shared_ptr<RequestListener> listener;
    Sampler sampler;
    CappedLogits capped;
    std::vector<int32_t> ids;  // prompt and what was generated; all but the last of it has been run or will be
    int32_t slot = -1;
    bool has_started = false;  // a token was chosen; after a preemption its ids are run again first
    bool had_slot = false;
    std::vector<GeneratedToken> prompt_tokens;  // with prompt_logprobs
    RequestStatistics statistics;
    Clock::time_point queued_at;
    Clock::time_point placed_at;
    Clock::time_point first_token_at;
};

class Engine::Scheduler {
  public:
    Scheduler(std::unique_ptr<Backend> backend, const EngineOptions& options)
        : backend_(std::move(backend)),
          options_(options),
          book_(*backend_, {options.cache_bytes, options.snapshot_bytes, options.reuses_prefixes}),
          pacer_(backend_->limits().chunk_tokens) {
        statistics_.cache_bytes = options.cache_bytes;
        thread_ = std::thread([this] { run(); });
    }

    ~Scheduler() { stop(); }

    void stop() {
        {
            const std::lock_guard lock(mutex_);
            is_stopping_ = true;
        }
        wake_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

    const Backend& backend() const { return *backend_; }
    std::vector<RequestId> submit(std::vector<Submission> together);
    void cancel(RequestId id);
    void drain();
    bool is_idle() const;
    EngineStatistics statistics() const;

  private:
    using SequencePtr = std::unique_ptr<Sequence>;

    void check(const Request& request) const;
    void run();
    bool wait_for_work();
    void take_submissions();
    void end_cancelled();
    bool is_over(const Sequence& sequence) const;
    void admit();
    bool place(Sequence& sequence);
    void prefill_one();
    void prefill_chunk(Sequence& sequence);
    void note_prompt_logprobs(Sequence& sequence, int64_t begin, size_t count);
    void decode_all();
    void make_room_for_step();
    bool preempt_youngest(const Sequence& keep);
    void choose(Sequence& sequence, size_t row);
    bool take_token(Sequence& sequence, GeneratedToken token);
    void finish(Sequence& sequence, FinishReason reason);
    void fail(Sequence& sequence, const Error& error, bool is_slot_sound);
    void leave(Sequence& sequence, bool is_slot_sound);
    void remove_left();
    void publish();
    template <typename Work>
    void timed(const Work& work) {
        const auto begin = Clock::now();
        work();
        last_seconds_ = seconds_between(begin, Clock::now());
        busy_seconds_ += last_seconds_;
    }

    std::unique_ptr<Backend> backend_;
    EngineOptions options_;

    // Shared with callers.
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<SequencePtr> submitted_;
    std::unordered_set<RequestId> cancelled_;
    EngineStatistics statistics_;
    size_t unfinished_ = 0;  // submitted and not over
    RequestId next_id_ = 1;
    bool is_draining_ = false;
    bool is_stopping_ = false;

    // The thread's own.
    SlotBook book_;
    std::deque<SequencePtr> waiting_;
    std::vector<SequencePtr> running_;
    size_t prefill_turn_ = 0;
    ChunkPacer pacer_;
    double busy_seconds_ = 0.0;
    double last_seconds_ = 0.0;
    std::vector<Sequence*> batch_;
    std::vector<int32_t> batch_slots_;
    std::vector<int32_t> batch_ids_;
    std::thread thread_;
};

// --- what callers see

void Engine::Scheduler::check(const Request& request) const {
    const BackendLimits& limits = backend_->limits();
    if (request.prompt_ids.empty()) {
        throw Error(ErrorCode::bad_request, "the prompt is empty", {{"field", "prompt"}}, "give at least one token");
    }
    if (request.prompt_logprobs && !limits.gives_all_rows) {
        throw Error(ErrorCode::unsupported, "log-probabilities of the prompt are not available on this device",
                    {{"field", "prompt_logprobs"}}, "ask without them, or serve with --device cpu");
    }
    for (const int32_t id : request.prompt_ids) {
        if (id >= 0 && id < limits.vocab_size) continue;
        throw Error(ErrorCode::bad_request,
                    fmt::format("token id {} is outside the vocabulary of {} ids", id, limits.vocab_size),
                    {{"field", "prompt"}}, "use the ids of this checkpoint's own tokenizer");
    }
    if (request.max_tokens < 0 || request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("{} to {} tokens cannot be generated", request.min_tokens, request.max_tokens),
                    {{"field", "max_tokens"}}, "use 0 <= min_tokens <= max_tokens");
    }
    check_context(static_cast<int64_t>(request.prompt_ids.size()), request.max_tokens, limits.context_tokens);
    check_sampling(request.sampling);
}

std::vector<RequestId> Engine::Scheduler::submit(std::vector<Submission> together) {
    const size_t most = options_.queue_requests + static_cast<size_t>(backend_->limits().slots);
    if (together.size() > most) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("{} answers at once are more than the {} that this server runs and queues",
                                together.size(), most),
                    {{"field", "n"}}, "ask for fewer choices or prompts in one request");
    }
    std::vector<SequencePtr> sequences;
    for (Submission& each : together) {
        check(each.request);
        sequences.push_back(
            std::make_unique<Sequence>(0, std::move(each.request), std::move(each.listener), backend_->limits()));
    }
    std::vector<RequestId> ids;
    {
        const std::lock_guard lock(mutex_);
        if (is_draining_ || is_stopping_) {
            throw Error(ErrorCode::not_ready, "the server is shutting down", {}, "send the request to another server");
        }
        if (unfinished_ + sequences.size() > most) {
            throw Error(ErrorCode::overloaded,
                        fmt::format("{} requests run or wait already, of at most {}", unfinished_, most), {},
                        "try again in a moment");
        }
        for (SequencePtr& sequence : sequences) {
            sequence->id = next_id_++;
            ids.push_back(sequence->id);
            submitted_.push_back(std::move(sequence));
            ++unfinished_;
            ++statistics_.waiting;
        }
    }
    wake_.notify_all();
    return ids;
}

void Engine::Scheduler::cancel(RequestId id) {
    {
        const std::lock_guard lock(mutex_);
        if (id == 0 || id >= next_id_) return;
        cancelled_.insert(id);
    }
    wake_.notify_all();
}

void Engine::Scheduler::drain() {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
}

bool Engine::Scheduler::is_idle() const {
    const std::lock_guard lock(mutex_);
    return unfinished_ == 0;
}

EngineStatistics Engine::Scheduler::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

// --- the thread

void Engine::Scheduler::run() {
    while (wait_for_work()) {
        take_submissions();
        end_cancelled();
        admit();
        prefill_one();
        decode_all();
        remove_left();
        publish();
    }
    for (const SequencePtr& sequence : running_) finish(*sequence, FinishReason::cancelled);
    for (const SequencePtr& sequence : waiting_) finish(*sequence, FinishReason::cancelled);
}

bool Engine::Scheduler::wait_for_work() {
    std::unique_lock lock(mutex_);
    if (running_.empty() && waiting_.empty()) {
        wake_.wait(lock, [this] { return is_stopping_ || !submitted_.empty(); });
    }
    if (is_stopping_) {
        for (SequencePtr& sequence : submitted_) waiting_.push_back(std::move(sequence));
        submitted_.clear();
    }
    return !is_stopping_;
}

void Engine::Scheduler::take_submissions() {
    const std::lock_guard lock(mutex_);
    for (SequencePtr& sequence : submitted_) waiting_.push_back(std::move(sequence));
    submitted_.clear();
}

bool Engine::Scheduler::is_over(const Sequence& sequence) const {
    return sequence.request.deadline && Clock::now() >= *sequence.request.deadline;
}

void Engine::Scheduler::end_cancelled() {
    std::unordered_set<RequestId> cancelled;
    {
        const std::lock_guard lock(mutex_);
        cancelled.swap(cancelled_);
    }
    const auto end = [&](Sequence& sequence) {
        if (cancelled.contains(sequence.id)) {
            finish(sequence, FinishReason::cancelled);
        } else if (is_over(sequence)) {
            fail(sequence, Error(ErrorCode::timeout, "the request's time is up", {}, "allow more time or ask for less"),
                 true);
        }
    };
    for (const SequencePtr& sequence : waiting_) end(*sequence);
    for (const SequencePtr& sequence : running_) end(*sequence);
    remove_left();
}

// In order of arrival. One that waits for a neighbour's prefix lets others pass, one that waits for memory does not.
void Engine::Scheduler::admit() {
    for (size_t index = 0; index < waiting_.size();) {
        if (running_.size() == static_cast<size_t>(backend_->limits().slots)) return;
        if (place(*waiting_[index])) {
            running_.push_back(std::move(waiting_[index]));
            waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
        } else {
            const Sequence& refused = *waiting_[index];
            // Passed for ever otherwise, by smaller ones that keep coming.
            if (!book_.waits_for_neighbour(refused.ids, !refused.request.prompt_logprobs)) return;
            ++index;
        }
    }
}

bool Engine::Scheduler::place(Sequence& sequence) {
    const int64_t left = sequence.request.max_tokens - sequence.statistics.generated_tokens;
    const int64_t reserve = static_cast<int64_t>(sequence.ids.size()) + std::min(left, kReserveAhead);
    const auto placement = book_.place(sequence.ids, reserve, !sequence.request.prompt_logprobs);
    if (!placement) return false;
    sequence.slot = placement->slot;
    if (!sequence.had_slot) {
        sequence.had_slot = true;
        sequence.placed_at = Clock::now();
        sequence.statistics.cached_tokens = placement->cached_tokens;
        sequence.statistics.queue_seconds = seconds_between(sequence.queued_at, sequence.placed_at);
        sequence.listener->on_placed(placement->cached_tokens);
        const std::lock_guard lock(mutex_);
        statistics_.prompt_tokens += sequence.ids.size();
        statistics_.cached_tokens += static_cast<uint64_t>(placement->cached_tokens);
    }
    return true;
}

void Engine::Scheduler::prefill_one() {
    for (size_t tried = 0; tried < running_.size(); ++tried) {
        Sequence& sequence = *running_[(prefill_turn_ + tried) % running_.size()];
        if (!sequence.is_prefilling(*backend_)) continue;
        prefill_turn_ = (prefill_turn_ + tried + 1) % running_.size();
        try {
            prefill_chunk(sequence);
        } catch (const std::exception& fault) {
            fail(sequence, as_error(fault), false);
        }
        return;
    }
}

// Runs the next chunk of the prompt; behind the last one the first token is chosen. After a preemption the generated
// tokens are part of it, and the last of them is left to the decode step.
void Engine::Scheduler::prefill_chunk(Sequence& sequence) {
    const int64_t begin = backend_->length(sequence.slot);
    const int64_t end = static_cast<int64_t>(sequence.ids.size()) - (sequence.has_started ? 1 : 0);
    const BackendLimits& limits = backend_->limits();
    const int64_t most = limits.has_fixed_chunks ? limits.chunk_tokens - begin % limits.chunk_tokens
                                                 : pacer_.tokens(running_.size() > 1);
    const auto count = static_cast<size_t>(std::min(end - begin, most));
    const auto ids = std::span<const int32_t>(sequence.ids).subspan(static_cast<size_t>(begin), count);
    const bool wants_all = sequence.request.prompt_logprobs && !sequence.has_started;
    timed([&] { backend_->prefill(sequence.slot, ids, wants_all); });
    pacer_.chunk_took(static_cast<int64_t>(count), last_seconds_);
    book_.ran(sequence.slot, ids, true);
    if (wants_all) note_prompt_logprobs(sequence, begin, count);
    if (begin + static_cast<int64_t>(count) < end || sequence.has_started) return;
    book_.mark_prompt_end(sequence.slot, end);
    sequence.first_token_at = Clock::now();
    sequence.statistics.prefill_seconds = seconds_between(sequence.placed_at, sequence.first_token_at);
    if (wants_all) sequence.listener->on_prompt(sequence.prompt_tokens);
    sequence.has_started = true;
    if (sequence.request.max_tokens == 0) {
        finish(sequence, FinishReason::length);
    } else {
        choose(sequence, wants_all ? count - 1 : 0);
    }
}

void Engine::Scheduler::note_prompt_logprobs(Sequence& sequence, int64_t begin, size_t count) {
    if (begin == 0) {
        sequence.prompt_tokens.emplace_back();
        sequence.prompt_tokens.back().id = sequence.ids.front();
    }
    for (size_t row = 0; row < count; ++row) {
        const size_t next = static_cast<size_t>(begin) + row + 1;
        if (next >= sequence.ids.size()) break;
        sequence.prompt_tokens.push_back(sequence.capped.logprobs(backend_->logits(row), sequence.ids[next],
                                                                  sequence.request.top_logprobs.value_or(0)));
    }
}

// Every running sequence gets memory for one more token; where that fails the youngest other one goes back to the
// queue, from where it continues with the same tokens.
void Engine::Scheduler::make_room_for_step() {
    for (size_t index = 0; index < running_.size(); ++index) {
        Sequence& sequence = *running_[index];
        if (sequence.slot < 0 || sequence.is_prefilling(*backend_)) continue;
        const auto needed = static_cast<int64_t>(sequence.ids.size());
        const int64_t left = sequence.request.max_tokens - sequence.statistics.generated_tokens;
        while (!book_.reserve(sequence.slot, needed) && preempt_youngest(sequence)) {
        }
        book_.reserve(sequence.slot, needed + std::min(left, kReserveAhead));  // ahead, if there is room
    }
}

bool Engine::Scheduler::preempt_youngest(const Sequence& keep) {
    Sequence* youngest = nullptr;
    for (const SequencePtr& sequence : running_) {
        if (sequence.get() == &keep || sequence->slot < 0) continue;
        if (youngest == nullptr || sequence->id > youngest->id) youngest = sequence.get();
    }
    if (youngest == nullptr) return false;
    book_.free(youngest->slot);
    youngest->slot = -1;
    const std::lock_guard lock(mutex_);
    ++statistics_.preemptions;
    return true;
}

void Engine::Scheduler::decode_all() {
    make_room_for_step();
    batch_.clear();
    batch_slots_.clear();
    batch_ids_.clear();
    for (const SequencePtr& sequence : running_) {
        const bool is_decoding = sequence->slot >= 0 && sequence->has_started && sequence->listener != nullptr &&
                                 !sequence->is_prefilling(*backend_);
        if (!is_decoding) continue;
        batch_.push_back(sequence.get());
        batch_slots_.push_back(sequence->slot);
        batch_ids_.push_back(sequence->ids.back());
    }
    if (batch_.empty()) return;
    try {
        timed([&] { backend_->decode(batch_slots_, batch_ids_); });
        pacer_.step_took(last_seconds_);
    } catch (const std::exception& fault) {
        for (Sequence* sequence : batch_) fail(*sequence, as_error(fault), false);
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        ++statistics_.steps;
        statistics_.step_slots += batch_.size();
    }
    for (size_t row = 0; row < batch_.size(); ++row) {
        book_.ran(batch_slots_[row], std::span(&batch_ids_[row], 1), false);
        choose(*batch_[row], row);
    }
}

// The next token from a row of the backend's results.
void Engine::Scheduler::choose(Sequence& sequence, size_t row) {
    const Request& request = sequence.request;
    try {
        Sampler::Choice choice;
        if (sequence.statistics.generated_tokens < request.min_tokens) choice.suppressed = request.end_ids;
        if (request.filter != nullptr) {
            if (request.filter->must_end()) return finish(sequence, FinishReason::stop);
            choice.allowed = request.filter->allowed();
            // An end that is to be ignored would be a token, and the filter allows no such token.
            if (request.filter->may_end() && !request.ignores_end) choice.also_allowed = request.end_ids;
        }
        const std::optional<int32_t> best = sequence.sampler.choose_best(backend_->best_id(row), choice);
        const int32_t id = best ? *best : sequence.sampler.choose(backend_->logits(row), choice);
        GeneratedToken token;
        if (request.top_logprobs) token = sequence.capped.logprobs(backend_->logits(row), id, *request.top_logprobs);
        token.id = id;
        token.is_end = !request.ignores_end && std::ranges::find(request.end_ids, id) != request.end_ids.end();
        if (request.filter != nullptr && !token.is_end) request.filter->advance(id);
        if (!take_token(sequence, std::move(token))) return;
    } catch (const std::exception& fault) {
        fail(sequence, as_error(fault), true);
    }
}

// Whether the sequence goes on.
bool Engine::Scheduler::take_token(Sequence& sequence, GeneratedToken token) {
    ++sequence.statistics.generated_tokens;
    {
        const std::lock_guard lock(mutex_);
        ++statistics_.generated_tokens;
    }
    if (!token.is_end) sequence.ids.push_back(token.id);
    const bool is_end = token.is_end;
    const bool goes_on = sequence.listener->on_token(token);
    if (is_end || !goes_on) {
        finish(sequence, FinishReason::stop);
        return false;
    }
    if (sequence.statistics.generated_tokens == sequence.request.max_tokens) {
        finish(sequence, FinishReason::length);
        return false;
    }
    return true;
}

void Engine::Scheduler::finish(Sequence& sequence, FinishReason reason) {
    if (sequence.listener == nullptr) return;
    const auto listener = std::move(sequence.listener);
    if (sequence.has_started) {
        sequence.statistics.decode_seconds = seconds_between(sequence.first_token_at, Clock::now());
    }
    leave(sequence, true);
    listener->on_finish(reason, sequence.statistics);
}

void Engine::Scheduler::fail(Sequence& sequence, const Error& error, bool is_slot_sound) {
    if (sequence.listener == nullptr) return;
    const auto listener = std::move(sequence.listener);
    leave(sequence, is_slot_sound);
    listener->on_error(error, sequence.statistics);
}

void Engine::Scheduler::leave(Sequence& sequence, bool is_slot_sound) {
    sequence.listener = nullptr;
    if (sequence.slot >= 0) book_.free(sequence.slot, is_slot_sound);
    sequence.slot = -1;
    const std::lock_guard lock(mutex_);
    --unfinished_;
    cancelled_.erase(sequence.id);
}

// Sequences that are over go; those that lost their slot wait again, before younger ones.
void Engine::Scheduler::remove_left() {
    std::erase_if(waiting_, [](const SequencePtr& sequence) { return sequence->listener == nullptr; });
    std::erase_if(running_, [](const SequencePtr& sequence) { return sequence->listener == nullptr; });
    for (SequencePtr& sequence : running_) {
        if (sequence->slot >= 0) continue;
        const auto before =
            std::ranges::upper_bound(waiting_, sequence->id, {}, [](const SequencePtr& other) { return other->id; });
        waiting_.insert(before, std::move(sequence));
    }
    std::erase(running_, nullptr);
}

void Engine::Scheduler::publish() {
    const size_t used = book_.bytes_used();
    const std::lock_guard lock(mutex_);
    statistics_.running = static_cast<int32_t>(running_.size());
    statistics_.waiting = static_cast<int32_t>(waiting_.size() + submitted_.size());
    statistics_.cache_bytes_used = used;
    statistics_.busy_seconds = busy_seconds_;
}

// --- the engine

Engine::Engine(std::unique_ptr<Backend> backend, const EngineOptions& options)
    : scheduler_(std::make_unique<Scheduler>(std::move(backend), options)) {}
Engine::~Engine() = default;
const BackendLimits& Engine::limits() const { return scheduler_->backend().limits(); }
std::string Engine::backend_description() const { return scheduler_->backend().description(); }
RequestId Engine::submit(Request request, std::shared_ptr<RequestListener> listener) {
    std::vector<Submission> one;
    one.push_back({std::move(request), std::move(listener)});
    return scheduler_->submit(std::move(one)).front();
}

std::vector<RequestId> Engine::submit(std::vector<Submission> together) {
    return scheduler_->submit(std::move(together));
}
void Engine::cancel(RequestId id) { scheduler_->cancel(id); }
void Engine::drain() { scheduler_->drain(); }
void Engine::stop() { scheduler_->stop(); }
bool Engine::is_idle() const { return scheduler_->is_idle(); }
EngineStatistics Engine::statistics() const { return scheduler_->statistics(); }

}  // namespace gemmatrace::engine
