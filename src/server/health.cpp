// The canary.
#include "server/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>

namespace gemmatrace::server {
namespace {

class CanaryListener : public engine::RequestListener {
  public:
    bool on_token(const engine::GeneratedToken& token) override {
        ids_.push_back(token.id);
        return true;
    }
    void on_finish(engine::FinishReason, const engine::RequestStatistics&) override { done_.set_value({}); }
    void on_error(const Error& error, const engine::RequestStatistics&) override { done_.set_value(error.what()); }

    // What went wrong, empty when the run ended.
    std::string wait() { return done_.get_future().get(); }
    const std::vector<int32_t>& ids() const { return ids_; }

  private:
    std::vector<int32_t> ids_;
    std::promise<std::string> done_;
};

}  // namespace

Health::State Health::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

std::string Health::reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
}

void Health::set(State state, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::draining) return;
    state_ = state;
    reason_ = std::move(reason);
}

void Health::set_draining() { set(State::draining, "the server is shutting down"); }

void Health::check(engine::Engine& engine, const Canary& canary) {
    engine::Request request;
    request.prompt_ids = canary.prompt_ids;
    request.max_tokens = static_cast<int64_t>(canary.expected_ids.size());
    auto listener = std::make_shared<CanaryListener>();
    try {
        engine.submit(std::move(request), listener);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::overloaded && error.code() != ErrorCode::not_ready) {
            set(State::sick, fmt::format("the canary could not be run: {}", error.what()));
        }
        return;
    }
    const std::string failure = listener->wait();
    if (!failure.empty()) return set(State::sick, fmt::format("the canary failed: {}", failure));
    if (listener->ids() == canary.expected_ids) return set(State::ready, "");
    const auto differs = std::ranges::mismatch(listener->ids(), canary.expected_ids).in1 - listener->ids().begin();
    set(State::sick, fmt::format("the canary decoded other tokens than the reference, from token {} on", differs));
}

}  // namespace gemmatrace::server
