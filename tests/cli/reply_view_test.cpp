// A reply is split into answer, thinking and calls on token ids, whatever the chunking and wherever the prompt ended.
#include "cli/reply_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gemmatrace::cli {
namespace {

class ReplyViewTest : public testing::Test {
  protected:
    ReplyViewTest() : tokenizer_(text::Tokenizer::load(GEMMATRACE_SOURCE_DIR "/models/demo")) {}

    // What the view makes of a reply after a prompt, both written with control tokens as text: "A:" answer, "T:"
    // thought, "C:" call, joined as long as the part stays the same.
    std::string parts(const std::string& prompt, const std::string& reply) const {
        std::string result;
        std::string last;
        ReplyView view(tokenizer_, tokenizer_.encode(prompt), [&](ReplyPart part, std::string_view text) {
            const std::string name = part == ReplyPart::answer ? "A:" : part == ReplyPart::thought ? "T:" : "C:";
            if (name != last || part == ReplyPart::tool_call) result += "|" + name;
            last = name;
            result += text;
        });
        for (const int32_t id : tokenizer_.encode(reply)) view.push(id);
        view.finish();
        return result;
    }

    text::Tokenizer tokenizer_;
};

const std::string kTurn = "<bos><|turn>user\nHi<turn|>\n<|turn>model\n";

TEST_F(ReplyViewTest, an_answer_without_markers_is_an_answer) {
    EXPECT_EQ(parts(kTurn, "Hello, café ☃!"), "|A:Hello, café ☃!");
    EXPECT_EQ(parts("", "Hello"), "|A:Hello");
    EXPECT_EQ(parts(kTurn, ""), "");
}

TEST_F(ReplyViewTest, F090_F092_thinking_is_apart_and_its_name_never_shows) {
    EXPECT_EQ(parts(kTurn, "<|channel>thought\nLet me see.\n<channel|>Four."), "|T:Let me see.\n|A:Four.");
    EXPECT_EQ(parts(kTurn, "Well. <|channel>thought\nHm.<channel|> Four."), "|A:Well. |T:Hm.|A: Four.");
    EXPECT_EQ(parts(kTurn, "thought\nI have one."), "|A:thought\nI have one.");
}

TEST_F(ReplyViewTest, F095_an_empty_thought_shows_nothing) {
    EXPECT_EQ(parts(kTurn, "<|channel>thought\n<channel|>Four."), "|A:Four.");
    EXPECT_EQ(parts(kTurn, "<|channel>thought<channel|>Four."), "|A:Four.");
    EXPECT_EQ(parts(kTurn, "<|channel><channel|><channel|>Four."), "|A:Four.");
}

TEST_F(ReplyViewTest, F091_the_tail_of_the_prompt_decides_where_the_reply_begins) {
    EXPECT_EQ(parts(kTurn + "<|channel>thought\n", "Hm.<channel|>Four."), "|T:Hm.|A:Four.");
    EXPECT_EQ(parts(kTurn + "<|channel>thought\nSo far", " so good.<channel|>Four."), "|T: so good.|A:Four.");
    EXPECT_EQ(parts(kTurn + "<|channel>thought\n<channel|>", "Four."), "|A:Four.");
    EXPECT_EQ(parts(kTurn + "<|channel>", "thought\nHm.<channel|>Four."), "|T:Hm.|A:Four.");
    const std::string earlier = "<bos><|turn>model\n<|channel>thought\nnever closed<turn|>\n<|turn>model\n";
    EXPECT_EQ(parts(earlier, "Four."), "|A:Four.");
}

TEST_F(ReplyViewTest, what_is_malformed_is_shown_and_not_dropped) {
    EXPECT_EQ(parts(kTurn, "<|channel>thought\nNever closed"), "|T:Never closed");
    EXPECT_EQ(parts(kTurn, "<|channel>a thought without a name that goes on and on<channel|>Four."),
              "|T:a thought without a name that goes on and on|A:Four.");
    EXPECT_EQ(parts(kTurn, "<channel|>Four."), "|A:Four.");
    EXPECT_EQ(parts(kTurn, "<|turn>model\nFour."), "|A:Four.");
}

TEST_F(ReplyViewTest, F084_a_call_is_readable_and_whole_and_no_marker_shows) {
    const std::string call = "<|tool_call>call:weather{city:<|\"|>Paris<|\"|>,days:2}<tool_call|>";
    EXPECT_EQ(parts(kTurn, call), "|C:call:weather{city:\"Paris\",days:2}");
    EXPECT_EQ(parts(kTurn, "One moment." + call + call),
              "|A:One moment.|C:call:weather{city:\"Paris\",days:2}|C:call:weather{city:\"Paris\",days:2}");
    EXPECT_EQ(parts(kTurn, "<|tool_call>call:weather{city:<|\"|>Par"), "|C:call:weather{city:\"Par");
    EXPECT_EQ(parts(kTurn, "a<|\"|>b<bos>c"), "|A:abc");
}

TEST_F(ReplyViewTest, a_tool_result_in_the_prompt_does_not_hide_the_reply) {
    const std::string prompt =
        kTurn + "<|tool_call>call:f{}<tool_call|><|tool_response>response:f{value:1}<tool_response|>";
    EXPECT_EQ(parts(prompt, "It is 1."), "|A:It is 1.");
    EXPECT_EQ(parts(prompt + "<|channel>thought\n", "Hm.<channel|>It is 1."), "|T:Hm.|A:It is 1.");
}

TEST_F(ReplyViewTest, ids_without_a_token_have_no_text) {
    std::string shown;
    ReplyView view(tokenizer_, {}, [&](ReplyPart, std::string_view text) { shown += text; });
    view.push(tokenizer_.vocab_size());
    view.push(tokenizer_.vocab_size() + 1000);
    view.finish();
    EXPECT_EQ(shown, "");
}

}  // namespace
}  // namespace gemmatrace::cli
