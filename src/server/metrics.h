// Counters and histograms in Prometheus' text format.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/reply_stream.h"

namespace gemmatrace::server {

class Metrics {
  public:
    explicit Metrics(const std::string& model);
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    // A request to one of the generating routes has ended.
    void count(const RequestOutcome& outcome);
    // Any answer.
    void count_response(const std::string& route, int status);
    // The whole page, with the engine's figures of this moment.
    std::string text(const engine::EngineStatistics& engine);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gemmatrace::server
