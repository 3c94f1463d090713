// generation_config.json: what it sets, what it leaves to config.json, and what it may not name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::expect_error;

class GenerationConfigFile : public ::testing::Test {
  protected:
    GenerationConfigFile() {
        config_.vocab_size = 300;
        config_.eos_token_ids = {1};
    }
    GenerationConfig load(const std::string& text) {
        testing::write_bytes(folder_ / "generation_config.json", text);
        return load_generation_config(folder_.path(), config_);
    }
    testing::TemporaryFolder folder_;
    ModelConfig config_;
};

TEST_F(GenerationConfigFile, ThePublishedFileIsReadWhole) {
    const auto generation = load(R"({"bos_token_id": 2, "do_sample": true, "eos_token_id": [1, 106, 50],
        "pad_token_id": 0, "suppress_tokens": [258, 259], "temperature": 1.0, "top_k": 64, "top_p": 0.95,
        "transformers_version": "5.13.0"})");
    EXPECT_TRUE(generation.do_sample);
    EXPECT_EQ(generation.temperature, 1.0);
    EXPECT_EQ(generation.top_k, 64);
    EXPECT_EQ(generation.top_p, 0.95);
    EXPECT_EQ(generation.min_p, std::nullopt);
    EXPECT_EQ(generation.eos_token_ids, (std::vector<int32_t>{1, 106, 50}));
    EXPECT_EQ(generation.suppress_tokens, (std::vector<int32_t>{258, 259}));
}

TEST_F(GenerationConfigFile, WithoutTheFileTheEndIdsAreThoseOfTheConfig) {
    const auto generation = load_generation_config(folder_.path(), config_);
    EXPECT_EQ(generation.eos_token_ids, (std::vector<int32_t>{1}));
    EXPECT_FALSE(generation.do_sample);
    EXPECT_EQ(generation.temperature, std::nullopt);
}

TEST_F(GenerationConfigFile, F068OneFieldOverridesNothingElse) {
    const auto generation = load(R"({"temperature": 0.3})");
    EXPECT_EQ(generation.temperature, 0.3);
    EXPECT_EQ(generation.eos_token_ids, (std::vector<int32_t>{1}));
    EXPECT_EQ(generation.top_k, std::nullopt);
    EXPECT_TRUE(generation.suppress_tokens.empty());
}

TEST_F(GenerationConfigFile, F069EndIdsMayBeANumberAListOrNull) {
    EXPECT_EQ(load(R"({"eos_token_id": 106})").eos_token_ids, (std::vector<int32_t>{106}));
    EXPECT_EQ(load(R"({"eos_token_id": [106, 50]})").eos_token_ids, (std::vector<int32_t>{106, 50}));
    EXPECT_EQ(load(R"({"eos_token_id": null})").eos_token_ids, (std::vector<int32_t>{1}));
    EXPECT_EQ(load(R"({"eos_token_id": []})").eos_token_ids, (std::vector<int32_t>{1}));
}

TEST_F(GenerationConfigFile, NullsAreDefaultsAndIntegersAreNumbers) {
    const auto generation = load(R"({"do_sample": null, "temperature": 1, "top_k": null, "top_p": 1})");
    EXPECT_FALSE(generation.do_sample);
    EXPECT_EQ(generation.temperature, 1.0);
    EXPECT_EQ(generation.top_p, 1.0);
    EXPECT_EQ(generation.top_k, std::nullopt);
}

TEST_F(GenerationConfigFile, F069IdsOutsideTheVocabularyAreAMismatch) {
    expect_error(ErrorCode::mismatch, {"eos_token_id names token 300", "300 rows"},
                 [&] { load(R"({"eos_token_id": [1, 300]})"); });
    expect_error(ErrorCode::mismatch, {"suppress_tokens names token -1"},
                 [&] { load(R"({"suppress_tokens": [-1]})"); });
    config_.eos_token_ids = {1, 300};
    expect_error(ErrorCode::mismatch, {"eos_token_id names token 300"}, [&] { load("{}"); });
    std::filesystem::remove(folder_ / "generation_config.json");
    expect_error(ErrorCode::mismatch, {"config.json", "token 300"},
                 [&] { load_generation_config(folder_.path(), config_); });
}

TEST_F(GenerationConfigFile, WrongTypesAndRangesAreCorrupt) {
    for (const std::string text :
         {R"({"eos_token_id": "1"})", R"({"eos_token_id": [1, "2"]})", R"({"eos_token_id": 1.0})",
          R"({"eos_token_id": 4294967297})", R"({"temperature": "hot"})", R"({"temperature": -1})", R"({"top_k": 1.5})",
          R"({"top_k": -1})", R"({"top_p": 1.5})", R"({"min_p": -0.1})", R"({"do_sample": 1})",
          R"({"suppress_tokens": {"a": 1}})", "[]", "", "{"}) {
        SCOPED_TRACE(text);
        expect_error(ErrorCode::corrupt, {"generation_config.json"}, [&] { load(text); });
    }
}

}  // namespace
}  // namespace gemmatrace::checkpoint
