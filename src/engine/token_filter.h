// What the next token of a sequence may be: the engine's side of constrained output.
#pragma once

#include <cstdint>
#include <span>

namespace gemmatrace::engine {

// One per sequence; called on the engine's thread.
class TokenFilter {
  public:
    virtual ~TokenFilter() = default;
    // One bit an id, valid until the next call; empty: every id. End tokens are not looked up here.
    virtual std::span<const uint64_t> allowed() = 0;
    // Whether the text may end here.
    virtual bool may_end() const = 0;
    // Whether nothing but the end may come.
    virtual bool must_end() const = 0;
    // The id that was chosen; never an end token.
    virtual void advance(int32_t id) = 0;
};

}  // namespace gemmatrace::engine
