// A reply is split into content, reasoning and calls on token ids, wherever the prompt ended.
#include "text/reply_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/reply_fixture.h"

namespace gemmatrace::text {
namespace {

using namespace testing;

const std::string kReplyTurn = "<bos><|turn>user\nHi<turn|>\n<|turn>model\n";
const std::string kReplyCall = "<|tool_call>call:weather{city:<|\"|>Paris<|\"|>,days:2}<tool_call|>";
const std::string kReplyCallRead = R"(|C:weather{"city":"Paris","days":2})";

// What the parser makes of a reply after a prompt, both written with control tokens as text (reply_fixture.h).
std::string reply_line(const std::string& prompt, const std::string& reply, const ReplyOptions& options = {}) {
    const Tokenizer& tokenizer = reply_tokenizer();
    return as_line(read_reply(tokenizer, tokenizer.encode(prompt), tokenizer.encode(reply), options).pieces);
}

std::string reply_roles(const std::string& prompt, const std::string& reply, const ReplyOptions& options = {}) {
    const Tokenizer& tokenizer = reply_tokenizer();
    return read_reply(tokenizer, tokenizer.encode(prompt), tokenizer.encode(reply), options).roles;
}

TEST(reply_parser, text_without_markers_is_content) {
    EXPECT_EQ(reply_line(kReplyTurn, "Hello, café ☃!"), "|A:Hello, café ☃!");
    EXPECT_EQ(reply_line("", "Hello"), "|A:Hello");
    EXPECT_EQ(reply_line(kReplyTurn, ""), "");
}

TEST(reply_parser, F090_F092_reasoning_is_apart_and_its_name_never_shows) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nLet me see.<channel|>Four."), "|T:Let me see.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "Well. <|channel>thought\nHm.<channel|> Four."), "|A:Well. |T:Hm.|A: Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nA<channel|>B<|channel>thought\nC<channel|>D"),
              "|T:A|A:B|T:C|A:D");
    EXPECT_EQ(reply_line(kReplyTurn, "thought\nI have one."), "|A:thought\nI have one.");
}

TEST(reply_parser, the_line_break_that_the_template_puts_before_the_closing_marker_is_no_reasoning) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nLet me\n\nsee.\n<channel|>Four."),
              "|T:Let me\n\nsee.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nHm.\n\n<channel|>Four."), "|T:Hm.\n|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nHm.\n"), "|T:Hm.\n");
    EXPECT_EQ(reply_line(kReplyTurn, "Four.\n"), "|A:Four.\n");
}

TEST(reply_parser, F095_an_empty_thought_shows_nothing) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\n<channel|>Four."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\n\n<channel|>Four."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought<channel|>Four."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel><channel|><channel|>Four."), "|A:Four.");
}

TEST(reply_parser, F091_the_tail_of_the_prompt_decides_where_the_reply_begins) {
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>thought\n", "Hm.<channel|>Four."), "|T:Hm.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>thought\nSo far", " so good.<channel|>Four."), "|T: so good.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>thought\nSo far\n", "so good.<channel|>Four."), "|T:so good.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>thought\n<channel|>", "Four."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>", "thought\nHm.<channel|>Four."), "|T:Hm.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>tho", "ught\nHm.<channel|>Four."), "|T:Hm.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|channel>tho", "ugh hard."), "|T:ugh hard.");
    EXPECT_EQ(reply_line(kReplyTurn + "The answer ☃", " is four."), "|A: is four.");
    EXPECT_EQ(reply_line("<bos><|turn>mod", "el\nFour."), "|A:Four.");
    EXPECT_EQ(reply_line("<|channel>thought\n", "Hm."), "|T:Hm.");
    const std::string earlier = "<bos><|turn>model\n<|channel>thought\nnever closed<turn|>\n<|turn>model\n";
    EXPECT_EQ(reply_line(earlier, "Four."), "|A:Four.");
}

TEST(reply_parser, F091_a_call_that_began_in_the_prompt_is_read_whole_and_shown_only_from_the_reply) {
    const std::string begun = kReplyTurn + "<|tool_call>call:weather{city:<|\"|>Par";
    EXPECT_EQ(reply_line(begun, "is<|\"|>,days:2}<tool_call|>"), kReplyCallRead);
    EXPECT_EQ(reply_line(begun, "is<|\"|>,days:"), "|A:is\",days:");
    EXPECT_EQ(reply_line(begun, ""), "");
}

TEST(reply_parser, F089_F092_what_is_malformed_is_shown_and_not_dropped) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nNever closed"), "|T:Never closed");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thoughts without a name<channel|>Four."),
              "|T:thoughts without a name|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>final\nFour."), "|T:final\nFour.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>th"), "|T:th");
    EXPECT_EQ(reply_line(kReplyTurn, "<channel|>Four."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<tool_call|>Four.<tool_response|>"), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "a<|\"|>b<bos>c<|think|>d"), "|A:abcd");
}

TEST(reply_parser, an_echoed_turn_header_is_skipped) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|turn>model\nFour."), "|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|turn>model\n<|channel>thought\nHm.<channel|>Four."), "|T:Hm.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nHm.<|turn>model\nFour."), "|T:Hm.|A:Four.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|turn>modelling clay"), "|A:modelling clay");
    EXPECT_EQ(reply_line(kReplyTurn, "<|turn>model"), "");
}

TEST(reply_parser, F084_calls_are_whole_and_no_marker_shows) {
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall), kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, "One moment." + kReplyCall + kReplyCall),
              "|A:One moment." + kReplyCallRead + kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall + " And now?"), kReplyCallRead + "|A: And now?");
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nHm.\n<channel|>" + kReplyCall + "<|tool_response>"),
              "|T:Hm." + kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\nHm." + kReplyCall + "Four."),
              "|T:Hm." + kReplyCallRead + "|A:Four.");
}

TEST(reply_parser, F081_strings_of_a_call_keep_what_looks_like_syntax) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:f{s:<|\"|>{\"a\": [1,\n 'b\\n'],}<| ☃<|\"|>}<tool_call|>"),
              "|C:f{\"s\":\"{\\\"a\\\": [1,\\n 'b\\\\n'],}<| ☃\"}");
}

TEST(reply_parser, F089_a_broken_call_comes_back_as_content) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:weather{city:Paris}<tool_call|>"),
              "|A:call:weather{city:Paris}");
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:weather{city:<|\"|>Paris<|\"|><tool_call|>"),
              "|A:call:weather{city:\"Paris\"");
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>What?<tool_call|>" + kReplyCall), "|A:What?" + kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call><tool_call|>"), "");
}

TEST(reply_parser, F089_a_call_cut_short_comes_back_as_content) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:weather{city:<|\"|>Par"), "|A:call:weather{city:\"Par");
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall + "<|tool_call>call:wea"), kReplyCallRead + "|A:call:wea");
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:weather{city:<|\"|>Paris<|\"|>,days:2}"),
              "|A:call:weather{city:\"Paris\",days:2}");
}

TEST(reply_parser, a_whole_call_may_be_ended_by_any_marker) {
    const std::string open = kReplyCall.substr(0, kReplyCall.size() - std::string("<tool_call|>").size());
    EXPECT_EQ(reply_line(kReplyTurn, open + open + "<|tool_response>"), kReplyCallRead + kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, open + "<turn|>"), kReplyCallRead);
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_call>call:f{<|channel>thought\nHm."), "|A:call:f{|T:Hm.");
}

TEST(reply_parser, without_tools_a_call_is_content) {
    ReplyOptions options;
    options.parses_tool_calls = false;
    EXPECT_EQ(reply_line(kReplyTurn, "Well: " + kReplyCall + "!", options),
              "|A:Well: call:weather{city:\"Paris\",days:2}!");
    EXPECT_EQ(reply_roles(kReplyTurn, "<|tool_call>f{<|\"|>a<|\"|>}<tool_call|>", options), ".AAAAAA.");
}

TEST(reply_parser, a_call_that_grows_too_long_is_content) {
    ReplyOptions options;
    options.max_call_bytes = 33;
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall + "Well.", options), kReplyCallRead + "|A:Well.");
    options.max_call_bytes = 32;
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall + "Well." + kReplyCall, options),
              "|A:call:weather{city:\"Paris\",days:2}Well.call:weather{city:\"Paris\",days:2}");
    options.max_call_bytes = 8;
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_response>response:f{value:1}", options), "|A:response:f{value:1}");
}

TEST(reply_parser, results_of_tools_are_not_the_models_words) {
    const std::string prompt = kReplyTurn + "<|tool_call>call:f{}<tool_call|><|tool_response>response:f{value:1}";
    EXPECT_EQ(reply_line(prompt + "<tool_response|>", "It is 1."), "|A:It is 1.");
    EXPECT_EQ(reply_line(prompt + "<tool_response|><|channel>thought\n", "Hm.<channel|>It is 1."), "|T:Hm.|A:It is 1.");
    EXPECT_EQ(reply_line(kReplyTurn, kReplyCall + "<|tool_response>response:f{value:1}<tool_response|>It is 1."),
              kReplyCallRead + "|A:It is 1.");
}

TEST(reply_parser, F089_a_result_that_is_never_closed_is_content) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_response>It is 1."), "|A:It is 1.");
    EXPECT_EQ(reply_line(kReplyTurn, "<|tool_response>It is 1.<turn|>"), "|A:It is 1.");
    EXPECT_EQ(reply_line(kReplyTurn + "<|tool_response>response:f{", "value:1}"), "|A:value:1}");
}

TEST(reply_parser, each_id_has_a_role) {
    EXPECT_EQ(reply_roles(kReplyTurn, "<|channel>thought\na\nb\n<channel|>ab<bos>c"), ".........TTTT.AA.A");
    EXPECT_EQ(reply_roles(kReplyTurn + "<|channel>thought", "\n\na"), "TT");
    EXPECT_EQ(reply_roles(kReplyTurn + "<|channel>thought", "\na"), ".T");
    EXPECT_EQ(reply_roles(kReplyTurn + "<|channel>thought", "sa"), "TT");
    EXPECT_EQ(reply_roles(kReplyTurn + "<|turn>model", "\na"), ".A");
    EXPECT_EQ(reply_roles(kReplyTurn, "a<|tool_call>f{<|\"|>a<|\"|>}<tool_call|>b"), "A.CCCCCC.A");
    EXPECT_EQ(reply_roles(kReplyTurn, "<|tool_response>a<tool_response|>b"), "...A");
}

TEST(reply_parser, F064_a_character_in_parts_is_shown_when_it_is_whole) {
    const Tokenizer& tokenizer = reply_tokenizer();
    const std::vector<int32_t> snowman = tokenizer.encode("☃");
    ASSERT_EQ(snowman.size(), 3U);
    ReplyParser parser(tokenizer, {});
    std::vector<ReplyPiece> pieces;
    for (const int32_t id : snowman) EXPECT_EQ(parser.push(id, pieces), TokenRole::content);
    EXPECT_EQ(as_line(pieces), "");
    parser.push(tokenizer.encode("!")[0], pieces);
    EXPECT_EQ(as_line(pieces), "|A:☃!");
    parser.push(snowman[0], pieces);
    parser.finish(pieces);
    EXPECT_EQ(as_line(pieces), "|A:☃!�");
}

TEST(reply_parser, F093_held_bytes_stay_on_their_side_of_a_marker) {
    EXPECT_EQ(reply_line(kReplyTurn, "<|channel>thought\n☃<channel|>☃"), "|T:☃|A:☃");
    EXPECT_EQ(reply_line(kReplyTurn, "☃<|tool_call>call:f{☃:<|\"|>☃<|\"|>}<tool_call|>☃"), "|A:☃|C:f{\"☃\":\"☃\"}|A:☃");
}

TEST(reply_parser, ids_without_a_token_have_no_text) {
    const Tokenizer& tokenizer = reply_tokenizer();
    const std::vector<int32_t> ids{tokenizer.vocab_size(), tokenizer.vocab_size() + 1000, -1, INT32_MIN, INT32_MAX};
    const ReadReply reply = read_reply(tokenizer, ids, ids);
    EXPECT_EQ(as_line(reply.pieces), "");
    EXPECT_EQ(reply.roles, ".....");
}

TEST(reply_parser, a_tokenizer_without_the_markers_has_replies_that_are_all_content) {
    const Tokenizer plain = parse(gemma_file({"<unk>", "<", "|", ">", "a", "\n", "{", "}"}, Json::array()));
    const std::vector<int32_t> ids{1, 2, 4, 3, 5, 6, 7};
    const ReadReply reply = read_reply(plain, ids, ids);
    EXPECT_EQ(as_line(reply.pieces), "|A:<|a>\n{}");
    EXPECT_EQ(reply.roles, "AAAAAAA");
}

}  // namespace
}  // namespace gemmatrace::text
