// Replies for tests: a small tokenizer with Gemma 4's markers, and what a parser made of ids as one readable line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/utf8.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fixture.h"

namespace gemmatrace::text::testing {

// All markers of the turn grammar.
inline const Strings& reply_markers() {
    static const Strings markers{"<|turn>",      "<turn|>",          "<|channel>",       "<channel|>", "<|tool_call>",
                                 "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>",     "<|think|>"};
    return markers;
}

// The small Gemma of tokenizer_fixture.h with the markers it lacks. Built once: it takes a while.
inline const Tokenizer& reply_tokenizer() {
    static const Tokenizer tokenizer = [] {
        Json file = small_file();
        auto id = static_cast<int>(small_tokens().size());
        for (const std::string& marker : reply_markers()) {
            if (file["model"]["vocab"].contains(marker)) continue;
            file["model"]["vocab"][marker] = id;
            file["added_tokens"].push_back(added_token(id++, marker));
        }
        return parse(file);
    }();
    return tokenizer;
}

// Pieces as a line: "A:" content, "T:" reasoning, "C:" a call, joined as long as the kind stays the same.
inline std::string as_line(std::span<const ReplyPiece> pieces) {
    std::string line;
    char last = ' ';
    for (const ReplyPiece& piece : pieces) {
        const bool is_call = piece.kind == ReplyPiece::Kind::tool_call;
        const char kind = is_call ? 'C' : piece.kind == ReplyPiece::Kind::reasoning ? 'T' : 'A';
        if (kind != last || is_call) line.append("|").append(1, kind).append(":");
        last = kind;
        line += is_call ? piece.name + piece.arguments : piece.text;
    }
    return line;
}

// Everything of a reply, with the roles of its ids: A content, T reasoning, C call, and a dot for control.
struct ReadReply {
    std::vector<ReplyPiece> pieces;
    std::string roles;
};

inline ReadReply read_reply(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::span<const int32_t> ids,
                            const ReplyOptions& options = {}, bool is_finished = true) {
    ReadReply reply;
    ReplyParser parser(tokenizer, prompt, options);
    for (const int32_t id : ids) {
        reply.roles += "ATC."[static_cast<size_t>(parser.push(id, reply.pieces))];
    }
    if (is_finished) parser.finish(reply.pieces);
    return reply;
}

// The same text in other tokens: each that is no control token stays, or becomes the tokens of its bytes, by chance.
inline std::vector<int32_t> resplit(const Tokenizer& tokenizer, std::span<const int32_t> ids, uint64_t seed) {
    const CounterRandom random(seed, "resplit");
    std::vector<int32_t> others;
    for (size_t place = 0; place < ids.size(); ++place) {
        const int32_t id = ids[place];
        const std::string text = tokenizer.decode({&id, 1}, false);
        if (tokenizer.is_control(id) || !is_valid_utf8(text) || tokenizer.token(id).starts_with("<0x") ||
            random.bits(place) % 2 == 0) {
            others.push_back(id);
            continue;
        }
        for (const char byte : text) {
            others.push_back(*tokenizer.id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte))));
        }
    }
    return others;
}

}  // namespace gemmatrace::text::testing
