// Where a checkpoint's template and special tokens come from, and whole conversations of the common families.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_mapping.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

// A folder that lasts as long as the test.
class ChatTemplateFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::path(::testing::TempDir()) / (std::string("gemmatrace-") + info->name());
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void write(const std::string& name, std::string_view text) const {
        std::ofstream(folder_ / name, std::ios::binary) << text;
    }
    std::string rendered() const { return ChatTemplate::load(folder_).render({{"n", 5}}, {}).text(); }
    std::string failure() const {
        try {
            return rendered();
        } catch (const Error& error) {
            return error.what();
        }
    }

    std::filesystem::path folder_;
};

TEST_F(ChatTemplateFiles, TheTemplateFileComesBeforeTheConfig) {
    write("tokenizer_config.json", R"({"chat_template": "config {{ n }}"})");
    EXPECT_EQ(rendered(), "config 5");
    write("chat_template.jinja", "file {{ n }}\n");
    EXPECT_EQ(rendered(), "file 5");
}

TEST_F(ChatTemplateFiles, AListOfNamedTemplatesGivesTheDefault) {
    write(
        "tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain {{ n }}"}]})");
    EXPECT_EQ(rendered(), "plain 5");
}

TEST_F(ChatTemplateFiles, NoTemplateIsNotFound) {
    EXPECT_THAT(failure(), HasSubstr("not_found: the checkpoint has no chat template [directory="));
    for (const char* config : {"{}", R"({"chat_template": null})", R"({"chat_template": []})",
                               R"({"chat_template": [{"name": "rag", "template": "x"}]})"}) {
        write("tokenizer_config.json", config);
        EXPECT_THAT(failure(), HasSubstr("not_found: ")) << config;
    }
}

TEST_F(ChatTemplateFiles, WhatIsNoTemplateIsCorruptAndNamesItsFile) {
    write("tokenizer_config.json", R"({"chat_template": 5})");
    EXPECT_THAT(failure(), HasSubstr("corrupt: chat_template is neither a text nor a list of named texts"));
    write("chat_template.jinja", "a\n{% if %}");
    EXPECT_THAT(failure(), HasSubstr("chat_template.jinja"));
    EXPECT_THAT(failure(), HasSubstr("line=2"));
    write("chat_template.jinja", "a\xff");
    EXPECT_THAT(failure(), HasSubstr("corrupt: the template is not UTF-8"));
}

TEST_F(ChatTemplateFiles, SpecialTokensAreThoseThatTransformersGivesATemplate) {
    EXPECT_EQ(special_token_variables(folder_), nlohmann::ordered_json::object());
    write("tokenizer_config.json",
          R"({"bos_token": "<bos>", "eos_token": {"content": "<eos>", "lstrip": false}, "pad_token": null,
        "add_bos_token": true, "image_token": "<|image|>", "model_max_length": 5, "extra_special_tokens": {"boi_token": "<|image>"},
        "model_specific_special_tokens": {"eoi_token": {"content": "<image|>"}}})");
    EXPECT_EQ(
        special_token_variables(folder_),
        nlohmann::ordered_json::parse(
            R"({"bos_token": "<bos>", "eos_token": "<eos>", "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"})"));
}

TEST_F(ChatTemplateFiles, AnOlderMapOfSpecialTokensFillsWhatTheConfigLeavesOut) {
    write("special_tokens_map.json", R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}})");
    EXPECT_EQ(special_token_variables(folder_),
              nlohmann::ordered_json::parse(R"({"bos_token": "<b>", "eos_token": "<e>"})"));
    write("tokenizer_config.json", R"({"bos_token": "<bos>"})");
    EXPECT_EQ(special_token_variables(folder_),
              nlohmann::ordered_json::parse(R"({"bos_token": "<bos>", "eos_token": "<e>"})"));
    write("tokenizer_config.json", R"({"bos_token": "<bos>", "added_tokens_decoder": {}})");
    EXPECT_EQ(special_token_variables(folder_), nlohmann::ordered_json::parse(R"({"bos_token": "<bos>"})"));
}

TEST(ChatTemplate, AMovedTemplateStillRenders) {
    ChatTemplate first = ChatTemplate::parse("{{ n }}", "t");
    ChatTemplate second = std::move(first);
    first = ChatTemplate::parse("x", "t");
    EXPECT_EQ(second.render({{"n", 1}}, {}).text() + first.render({}, {}).text(), "1x");
}

TEST(ChatTemplate, TheClockIsReadWhenNoneIsGiven) {
    const std::string year = ChatTemplate::parse("{{ strftime_now('%Y') }}", "t").render({}, {}).text();
    EXPECT_GE(std::stoi(year), 2024);
    EXPECT_EQ(year, std::to_string(LocalTime::now().year));
}

// --- conversations

ChatTemplate source(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(GEMMATRACE_SOURCE_DIR) / "tests" / "text" / "templates";
    return ChatTemplate::parse(read_file(folder / name, 1 << 20), name);
}

std::string conversation(const std::string& name, const char* request) {
    const nlohmann::ordered_json special{{"bos_token", "<bos>"}, {"eos_token", "</s>"}};
    return source(name).render(nlohmann::ordered_json::parse(request), special, {}, {2024, 7, 26}).text();
}

constexpr const char* kTurns = R"({"add_generation_prompt": true, "messages": [{"role": "user", "content": " Hi "},
    {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}]})";
constexpr const char* kCall = R"({"add_generation_prompt": true, "enable_thinking": true, "messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "function": {"name": "sky", "arguments": {"Place": "Bern", "days": 2, "at": null}}}]},
    {"role": "tool", "tool_call_id": "a", "content": "sunny"}],
    "tools": [{"function": {"name": "sky", "description": "Looks up.", "parameters": {"type": "object", "properties":
        {"Place": {"type": "string", "enum": ["Bern"]}, "days": {"type": "integer", "nullable": true}}, "required": ["Place"]}}}]})";

TEST(ChatTemplateFamilies, ChatMl) {
    EXPECT_EQ(conversation("chatml.jinja", kTurns),
              "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
              "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n\n");
}

TEST(ChatTemplateFamilies, Llama3WritesTheDate) {
    EXPECT_EQ(
        conversation("llama3_tools.jinja", kTurns),
        "<bos><|start_header_id|>system<|end_header_id|>\n\nToday: 26 Jul 2024\n\n<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
        "\n\nHello!<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplateFamilies, MistralRefusesTwoUsersInARow) {
    EXPECT_EQ(conversation("mistral.jinja", kTurns), "<bos>[INST]  Hi [/INST] Hello!</s>[INST] Bye[/INST]");
    try {
        conversation("mistral.jinja",
                     R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})");
        FAIL() << "the template should have raised";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_request);
        EXPECT_EQ(error.message(), "User and assistant take turns, but message 2 is of user");
    }
}

TEST(ChatTemplateFamilies, Gemma3) {
    EXPECT_EQ(conversation("gemma3.jinja", kTurns),
              "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
              "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
}

TEST(ChatTemplateFamilies, Gemma4OfJulyFoldsResultsIntoTheModelsTurn) {
    EXPECT_EQ(conversation("gemma4_july.jinja", kTurns),
              "<bos><|turn>user\nHi<turn|>\n<|turn>model\nHello!<turn|>\n<|turn>user\nBye<turn|>\n"
              "<|turn>model\n<|channel>thought\n<channel|>");
    EXPECT_EQ(conversation("gemma4_july.jinja", kCall),
              "<bos><|turn>system\n<|think|>\nBe brief.<|tool>declaration:sky{description:<|\"|>Looks "
              "up.<|\"|>,parameters:{properties:{"
              "days:{nullable:true,type:<|\"|>INTEGER<|\"|>},Place:{enum:[<|\"|>Bern<|\"|>],type:<|\"|>STRING<|\"|>}},"
              "required:[<|\"|>Place<|\"|>],type:<|\"|>OBJECT<|\"|>}}<tool|><turn|>\n<|turn>user\nWeather?<turn|>\n<|"
              "turn>model\n"
              "<|tool_call>call:sky{at:null,days:2,Place:<|\"|>Bern<|\"|>}<tool_call|>"
              "<|tool_response>response:sky{value:<|\"|>sunny<|\"|>}<tool_response|><|channel>thought\n");
}

TEST(ChatTemplateFamilies, Gemma4OfAprilPrintsNoneAndReopensTheTurn) {
    const std::string prompt = conversation("gemma4_april.jinja", kCall);
    EXPECT_THAT(prompt, HasSubstr("<|tool_call>call:sky{at:None,days:2,Place:<|\"|>Bern<|\"|>}<tool_call|>"));
    EXPECT_TRUE(prompt.ends_with("<|turn>tool\nsunny<turn|>\n<|turn>model\n")) << prompt;
}

TEST(ChatTemplateFamilies, QwenKeepsThoughtsBehindTheLastQuestionOnly) {
    EXPECT_EQ(conversation("qwen_tools.jinja", R"({"messages": [{"role": "user", "content": "a"},
                  {"role": "assistant", "content": "<think>\nold\n</think>\n\nb"}, {"role": "user", "content": "c"},
                  {"role": "assistant", "content": "<think>\nnew\n</think>\n\nd"}]})"),
              "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
              "<|im_start|>assistant\n<think>\nnew\n</think>\n\nd<|im_end|>\n");
}

}  // namespace
}  // namespace gemmatrace::text
