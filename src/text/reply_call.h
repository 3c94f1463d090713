// One tool call as Gemma 4 writes it, call:NAME{key:value,…}, read into a name and arguments as JSON text.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gemmatrace::text {

struct ReplyCall {
    std::string name;
    std::string arguments;  // the text of one JSON object, compact, keys in the model's order
};

// Arguments nested deeper are no call. Half of what a JSON text may nest (JsonLimits), so that a client can send the
// call back inside a request.
constexpr int kMaxReplyCallDepth = 32;

// Reads a whole call; nothing when the text is not exactly one. The text is what stood between the call's markers.
// quotes: where in it the bytes stand that are Gemma's quote token, ascending; any other quote is one that the model
// wrote as text, so a string between quote tokens may hold any character, and no escapes.
//
// A value is typed by its syntax: quoted text, number, true, false, null, list, object. Read as well, because models
// write it: keys and strings in plain double or single quotes with JSON's escapes, Python's True, False and None, a
// comma behind the last element, white space. A key given twice counts once, with the last value, as in Python. Not
// read: words without quotes, numbers that JSON does not know or that no double holds, anything left open or left over.
// Source: gemma4.md 5.2.
std::optional<ReplyCall> parse_reply_call(std::string_view text, std::span<const size_t> quotes);

}  // namespace gemmatrace::text
