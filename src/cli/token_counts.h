// Numbers of tokens as people write them on a command line.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gemmatrace::cli {

// "512,2K,32K" as ascending numbers without doubles; K is 1024. `option` names the option in the Error(bad_request) for
// anything else.
std::vector<int64_t> parse_token_counts(std::string_view text, const char* option);

}  // namespace gemmatrace::cli
