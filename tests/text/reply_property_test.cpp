// Promises of the reply automaton over many replies: cut in any tokens, begun anywhere, of random ids, of real models.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/reply_fixture.h"

namespace gemmatrace::text {
namespace {

using namespace testing;

const Strings& sample_replies() {
    static const Strings replies{
        "Hello,  world!\n\nCafé ☃ 😀 at the end ☃",
        "<|channel>thought\nLet me\nsee ☃\n\n<channel|>Four.\n",
        "Well. <|channel>thought\n<channel|><|tool_call>call:f{}<tool_call|>",
        "<|tool_call>call:edit{path:<|\"|>a \"b\".py<|\"|>,lines:[{n:1,s:<|\"|>☃ {\n}<|\"|>},{n:-2.5e3}],ok:True,}"
        "<tool_call|><|tool_call>call:g{'k':\"\\u2603\"}<tool_call|><|tool_response>",
        "<|tool_call>call:broken{☃:<|\"|>x<tool_call|> then <|tool_call>call:cut{a:<|\"|>☃",
        "<|turn>model\n<|channel>thoughtful ☃<channel|>x<|tool_response>response:f{}<tool_response|>y<|turn>modern",
    };
    return replies;
}

TEST(reply_property, F080_F093_F099_F125_the_result_does_not_depend_on_how_the_text_is_cut_into_tokens) {
    const Tokenizer& tokenizer = reply_tokenizer();
    for (const std::string& text : sample_replies()) {
        const std::vector<int32_t> ids = tokenizer.encode(text);
        const std::string whole = as_line(read_reply(tokenizer, {}, ids).pieces);
        for (uint64_t seed = 0; seed < 100; ++seed) {
            const std::vector<int32_t> others = resplit(tokenizer, ids, seed);
            EXPECT_EQ(as_line(read_reply(tokenizer, {}, others).pieces), whole) << text << ", seed " << seed;
        }
    }
}

// The pieces of one kind, joined.
std::string joined_kind(const std::vector<ReplyPiece>& pieces, ReplyPiece::Kind kind) {
    std::string text;
    for (const ReplyPiece& piece : pieces) {
        if (piece.kind == kind) text += piece.text + piece.name + piece.arguments;
    }
    return text;
}

TEST(reply_property, F091_a_reply_begun_in_the_prompt_goes_on_as_if_it_were_read_from_its_start) {
    const Tokenizer& tokenizer = reply_tokenizer();
    for (const std::string& text : sample_replies()) {
        const std::vector<int32_t> ids = tokenizer.encode(text);
        const auto whole = read_reply(tokenizer, {}, ids);
        for (size_t cut = 0; cut <= ids.size(); ++cut) {
            // A prompt is whole text: no character begins in it and ends in the reply.
            if (cut < ids.size() && tokenizer.token(ids[cut]).starts_with("<0x")) continue;
            const auto rest = read_reply(tokenizer, std::span(ids).first(cut), std::span(ids).subspan(cut));
            EXPECT_EQ(rest.roles, whole.roles.substr(cut)) << text << ", cut at " << cut;
            for (const auto kind :
                 {ReplyPiece::Kind::content, ReplyPiece::Kind::reasoning, ReplyPiece::Kind::tool_call}) {
                const std::string all = joined_kind(whole.pieces, kind);
                const std::string end = joined_kind(rest.pieces, kind);
                EXPECT_TRUE(all.ends_with(end)) << text << ", cut at " << cut << ": " << all << " and " << end;
            }
        }
    }
}

TEST(reply_property, pieces_shown_early_are_never_taken_back) {
    const Tokenizer& tokenizer = reply_tokenizer();
    for (const std::string& text : sample_replies()) {
        const std::vector<int32_t> ids = tokenizer.encode(text);
        const std::string whole = as_line(read_reply(tokenizer, {}, ids).pieces);
        for (size_t length = 0; length <= ids.size(); ++length) {
            const auto shown = read_reply(tokenizer, {}, std::span(ids).first(length), {}, false);
            EXPECT_TRUE(whole.starts_with(as_line(shown.pieces))) << text << ", after " << length << " ids";
        }
    }
}

// Ids by chance, one in three a marker, and now and then a piece of a call, so that all states are met.
std::vector<int32_t> random_reply_ids(const Tokenizer& tokenizer, uint64_t seed) {
    const CounterRandom random(seed, "reply");
    const Strings pieces{"call:f{}", "call:f{a:[1]}", "call:f{", "a:", ",", "}", "thought\n", "model\n",
                         "1",        "true",          "[",       "]",  "\""};
    std::vector<int32_t> ids;
    for (uint64_t draw = 0; draw < 240; draw += 3) {
        const uint64_t choice = random.bits(draw + 1);
        switch (random.bits(draw) % 3) {
            case 0:
                ids.push_back(*tokenizer.id_of(reply_markers()[choice % reply_markers().size()]));
                break;
            case 1:
                for (const int32_t id : tokenizer.encode(pieces[choice % pieces.size()])) ids.push_back(id);
                break;
            default:
                ids.push_back(static_cast<int32_t>(choice % static_cast<uint64_t>(tokenizer.vocab_size() + 5)) - 2);
        }
    }
    return ids;
}

TEST(reply_property, F084_random_ids_give_text_without_markers_and_arguments_that_are_json) {
    const Tokenizer& tokenizer = reply_tokenizer();
    size_t calls = 0;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        ReplyOptions options;
        options.parses_tool_calls = seed % 4 != 0;
        options.max_call_bytes = seed % 5 == 0 ? 10 : 1000;
        const std::vector<int32_t> ids = random_reply_ids(tokenizer, seed);
        const size_t cut = seed % ids.size();
        const auto reply =
            read_reply(tokenizer, std::span(ids).first(cut), std::span(ids).subspan(cut), options).pieces;
        for (const ReplyPiece& piece : reply) {
            const bool is_call = piece.kind == ReplyPiece::Kind::tool_call;
            calls += is_call ? 1 : 0;
            ASSERT_EQ(piece.text.empty(), is_call);
            ASSERT_TRUE(is_valid_utf8(piece.text + piece.name + piece.arguments));
            if (is_call) {
                ASSERT_TRUE(parse_json(piece.arguments, "arguments", ErrorCode::internal).is_object());
            }
            for (const std::string& marker : reply_markers()) ASSERT_EQ(piece.text.find(marker), std::string::npos);
        }
    }
    EXPECT_GT(calls, 20U);  // or the generator above no longer tests what it should
}

// What the checkpoints under models/ wrote when their goldens were made, up to the stop token.
TEST(reply_property, F086_replies_captured_from_models_are_understood) {
    constexpr size_t kSum = 4;      // "What is 3 plus 4?", thinking
    constexpr size_t kWeather = 5;  // a question for the weather, with a tool for it
    for (const char* name : {"demo", "e2b", "e4b", "12b", "26b-a4b", "31b"}) {
        const std::filesystem::path folder = std::filesystem::path(GEMMATRACE_SOURCE_DIR) / "models" / name;
        const Tokenizer tokenizer = Tokenizer::load(folder);
        const auto golden = read_json_file(folder / "golden.json");
        for (const auto& run : golden["runs"]) {
            const auto prompt = run["prompt"].get<size_t>();
            if (prompt != kSum && prompt != kWeather) continue;
            const auto prompt_ids = golden["prompts"][prompt]["ids"].get<std::vector<int32_t>>();
            auto ids = run["ids"].get<std::vector<int32_t>>();
            ids.resize(run["stop_step"].get<size_t>());
            const std::string line = as_line(read_reply(tokenizer, prompt_ids, ids).pieces);
            if (prompt == kSum) {
                EXPECT_TRUE(line.starts_with("|T:I add ")) << name << line;
                EXPECT_NE(line.find(".|A:"), std::string::npos) << name << line;
            } else {
                EXPECT_TRUE(line.starts_with("|C:get_") && line.ends_with("\"}")) << name << line;
                EXPECT_EQ(line.find('|', 1), std::string::npos) << name << line;
            }
        }
    }
}

}  // namespace
}  // namespace gemmatrace::text
