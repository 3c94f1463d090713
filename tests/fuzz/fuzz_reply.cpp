// Any reply after any prompt: the automaton never throws, its pieces keep their promises, and other tokens for the same
// text give the same pieces.
//
// Input: a prompt and behind a NUL byte a reply, both with control tokens as text. The same bytes, two by two, are also
// read as ids.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/reply_fixture.h"
#include "text/reply_parser.h"

namespace {

using namespace gemmatrace::text;
using gemmatrace::text::testing::as_line;
using gemmatrace::text::testing::read_reply;
using gemmatrace::text::testing::reply_tokenizer;
using gemmatrace::text::testing::resplit;

void check(bool holds) {
    if (!holds) __builtin_trap();
}

std::string checked_line(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids,
                         const ReplyOptions& options) {
    const auto reply = read_reply(reply_tokenizer(), prompt, ids, options);
    check(reply.roles.size() == ids.size());
    for (const ReplyPiece& piece : reply.pieces) {
        const bool is_call = piece.kind == ReplyPiece::Kind::tool_call;
        check(gemmatrace::is_valid_utf8(piece.text + piece.name + piece.arguments));
        check(piece.text.empty() == is_call && piece.name.empty() != is_call);
        if (is_call) check(nlohmann::ordered_json::parse(piece.arguments).is_object());
    }
    return as_line(reply.pieces);
}

void check_reply(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids) {
    const std::string line = checked_line(prompt, ids, {});
    check(checked_line(prompt, resplit(reply_tokenizer(), ids, ids.size()), {}) == line);
    ReplyOptions small;
    small.max_call_bytes = 16;
    checked_line(prompt, ids, small);
    ReplyOptions without_tools;
    without_tools.parses_tool_calls = false;
    check(checked_line(prompt, ids, without_tools).find("|C:") == std::string::npos ||
          line.find("|C:") != std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t border = std::min(input.find('\0'), size);
    const Tokenizer& tokenizer = reply_tokenizer();
    const std::string_view reply = border < size ? input.substr(border + 1) : std::string_view();
    check_reply(tokenizer.encode(input.substr(0, border)), tokenizer.encode(reply));

    std::vector<int32_t> ids;
    for (size_t at = 0; at + 1 < size; at += 2) ids.push_back(data[at] % 2 * 256 + data[at + 1]);
    const std::vector<int32_t> prompt(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 3));
    checked_line(prompt, ids, {});
    return 0;
}
