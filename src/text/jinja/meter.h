// What a render may use: steps, memory, size of a text and depth, each ending in a clear error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gemmatrace::text {
struct TemplateLimits;
}

namespace gemmatrace::text::jinja {

// Ends a render: what the template did is not possible. Throws Error(bad_request); the template's name and line are
// added where the render is entered.
[[noreturn]] void fail(std::string message);

class Meter {
  public:
    explicit Meter(const TemplateLimits& limits);

    // Counts statements, expressions and items walked.
    void step(int64_t count = 1) {
        steps_left_ -= count;
        if (steps_left_ < 0) fail_steps();
    }
    // Counts a pass over so many bytes: 128 of them cost about what a step costs.
    void work(size_t bytes) { step(1 + static_cast<int64_t>(bytes / 128)); }

    // Refuses one text larger than the output may be.
    void check_text_size(size_t bytes) const {
        if (bytes > max_text_bytes_) fail_text_size(bytes);
    }
    // Memory that values of the render hold.
    void take(size_t bytes) {
        live_bytes_ += bytes;
        if (live_bytes_ > max_live_bytes_) fail_memory();
    }
    void give_back(size_t bytes) noexcept { live_bytes_ -= bytes < live_bytes_ ? bytes : live_bytes_; }

  private:
    friend class CallDepth;
    friend class NodeDepth;

    [[noreturn]] void fail_steps();
    [[noreturn]] void fail_text_size(size_t bytes) const;
    [[noreturn]] void fail_memory();
    [[noreturn]] void fail_depth() const;

    int64_t max_steps_;
    int64_t steps_left_;
    size_t max_text_bytes_;
    size_t max_live_bytes_;
    size_t live_bytes_ = 0;
    int max_calls_;
    int calls_ = 0;
    int max_nodes_;
    int nodes_ = 0;
};

// One more call of a macro or level of a nested value, for as long as it lives.
class CallDepth {
  public:
    explicit CallDepth(Meter& meter) : meter_(meter) {
        if (meter_.calls_ >= meter_.max_calls_) meter_.fail_depth();
        ++meter_.calls_;
    }
    ~CallDepth() { --meter_.calls_; }
    CallDepth(const CallDepth&) = delete;
    CallDepth& operator=(const CallDepth&) = delete;

  private:
    Meter& meter_;
};

// One more statement or expression inside another: bounds the native stack whatever the mix of calls and nesting is.
class NodeDepth {
  public:
    explicit NodeDepth(Meter& meter) : meter_(meter) {
        if (meter_.nodes_ >= meter_.max_nodes_) meter_.fail_depth();
        ++meter_.nodes_;
    }
    ~NodeDepth() { --meter_.nodes_; }
    NodeDepth(const NodeDepth&) = delete;
    NodeDepth& operator=(const NodeDepth&) = delete;

  private:
    Meter& meter_;
};

}  // namespace gemmatrace::text::jinja
