// Stop strings in generated text: finds them across token borders and never lets a part of one out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::engine {

// Fed with decoded text as it comes, in any pieces; the joined output is the text before the first match, or all of it
// when none comes (faults F070, F071). The first match is the one that is complete first; among strings that end at the
// same byte the longest wins, because it begins first. One per sequence.
class StopMatcher {
  public:
    // Empty strings match nothing and are dropped.
    explicit StopMatcher(std::vector<std::string> stop_strings);

    // The text that may be shown now. A tail that could still become a stop string is held back. After a match nothing
    // comes any more.
    std::string push(std::string_view text);
    // What was held back, once generation has ended without a match.
    std::string finish();

    // The stop string that was met.
    const std::optional<std::string>& match() const { return match_; }

  private:
    std::vector<std::string> stop_strings_;
    std::string held_;  // what is not shown yet: always shorter than the longest stop string
    std::optional<std::string> match_;
};

}  // namespace gemmatrace::engine
