// Configs that must not load: wrong types, contradictions, options without code and families without support.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config.h"
#include "checkpoint/synth.h"
#include "support/expect_error.h"

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using testing::expect_error;

// The published E2B config with one key of the text config set to `value`.
void expect_refused(ErrorCode code, const std::string& key, const Json& value,
                    const std::vector<std::string>& fragments = {}) {
    SCOPED_TRACE(key + " = " + value.dump());
    std::vector<std::string> all = fragments;
    all.push_back("field=text_config." + key);
    all.push_back("file=some/config.json");
    expect_error(code, all, [&] {
        Json config = published_config("E2B");
        config["text_config"][key] = value;
        parse_config(config, "some/config.json");
    });
}

void expect_corrupt_field(const std::string& key, const Json& value, const std::vector<std::string>& fragments = {}) {
    expect_refused(ErrorCode::corrupt, key, value, fragments);
}

TEST(ConfigRefusal, TypesAreAsStrictAsThoseOf513) {
    for (const std::string key :
         {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
          "global_head_dim", "intermediate_size", "sliding_window", "max_position_embeddings",
          "hidden_size_per_layer_input", "vocab_size_per_layer_input", "num_kv_shared_layers"}) {
        for (const Json& value : {Json("8"), Json(8.0), Json(true), Json(), Json::array(), Json::object()}) {
            expect_corrupt_field(key, value, {"but an integer is expected"});
        }
    }
    for (const std::string key : {"attention_k_eq_v", "use_double_wide_mlp", "enable_moe_block", "attention_bias"}) {
        for (const Json& value : {Json("true"), Json(1), Json()}) expect_corrupt_field(key, value, {"true or false"});
    }
    for (const Json& value : {Json(1), Json("1e-6"), Json()})
        expect_corrupt_field("rms_norm_eps", value, {"decimal point"});
    for (const Json& value : {Json(30), Json("30.0"), Json(true)})
        expect_corrupt_field("final_logit_softcapping", value);
    for (const Json& value : {Json(1.0), Json("1"), Json(false)}) expect_corrupt_field("pad_token_id", value);
    for (const Json& value : {Json("a"), Json(7)}) expect_corrupt_field("rope_parameters", value);
    expect_corrupt_field("hidden_activation", nullptr, {"a string is expected"});
    expect_corrupt_field("layer_types", "full_attention");
    expect_corrupt_field("use_bidirectional_attention", "yes", {"must be"});
}

TEST(ConfigRefusal, NumbersOutOfBoundsAreNamedWithTheirBounds) {
    for (const std::string key : {"hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                                  "intermediate_size", "sliding_window", "vocab_size_per_layer_input"}) {
        expect_corrupt_field(key, 0, {"outside 1 to 16777216"});
        expect_corrupt_field(key, -1);
        expect_corrupt_field(key, 16777217);
        expect_corrupt_field(key, 9223372036854775807);
        expect_corrupt_field(key, 18446744073709551615ULL);
    }
    expect_corrupt_field("num_hidden_layers", 0, {"outside 1 to 1024"});
    expect_corrupt_field("num_hidden_layers", 1025);
    expect_corrupt_field("max_position_embeddings", 0);
    expect_corrupt_field("rms_norm_eps", 0.0);
    expect_corrupt_field("rms_norm_eps", -1e-6);
    expect_corrupt_field("final_logit_softcapping", 0.0);
    expect_corrupt_field("final_logit_softcapping", -30.0);
    expect_corrupt_field("hidden_size_per_layer_input", -1);
    expect_corrupt_field("hidden_size_per_layer_input", 16777216, {"more than any model has"});
}

TEST(ConfigRefusal, HeadsMustDivideAndHalve) {
    Json config = published_config("E4B");
    config["text_config"]["num_key_value_heads"] = 3;
    expect_error(ErrorCode::corrupt, {"num_attention_heads is 8, which 3 kv heads do not divide"},
                 [&] { parse_config(config, "config.json"); });
    config["text_config"]["num_key_value_heads"] = 2;
    config["text_config"]["head_dim"] = 255;
    expect_error(ErrorCode::corrupt, {"heads of 255"}, [&] { parse_config(config, "config.json"); });
    config["text_config"]["head_dim"] = 16777216;
    expect_error(ErrorCode::corrupt, {"8 heads of 16777216"}, [&] { parse_config(config, "config.json"); });
    Json k_eq_v = published_config("26B");
    k_eq_v["text_config"]["num_global_key_value_heads"] = 5;
    expect_error(ErrorCode::corrupt, {"num_attention_heads is 16", "5 kv heads"},
                 [&] { parse_config(k_eq_v, "config.json"); });
}

TEST(ConfigRefusal, LayerTypesMustNameEveryLayer) {
    expect_corrupt_field("layer_types", Json::array({"full_attention"}), {"a list of 35 names"});
    Json config = published_config("E2B");
    config["text_config"]["num_hidden_layers"] = 34;
    expect_error(ErrorCode::corrupt, {"layer_types", "a list of 34 names"},
                 [&] { parse_config(config, "config.json"); });
}

TEST(ConfigRefusal, APerLayerTableSmallerThanTheVocabularyIsUnsupported) {
    expect_refused(ErrorCode::unsupported, "vocab_size_per_layer_input", 262143, {"would have no row"});
}

TEST(ConfigRefusal, OptionsWithoutCodeAreUnsupportedNotIgnored) {
    expect_refused(ErrorCode::unsupported, "hidden_activation", "gelu", {"gelu_pytorch_tanh"});
    expect_refused(ErrorCode::unsupported, "attention_bias", true);
    expect_refused(ErrorCode::unsupported, "use_bidirectional_attention", "all", {"causal"});
    expect_refused(ErrorCode::unsupported, "quantization_config", {{"quant_method", "compressed-tensors"}}, {"bf16"});
    Json types = Json::array();
    for (int layer = 0; layer < 35; ++layer) types.push_back("chunked_attention");
    expect_refused(ErrorCode::unsupported, "layer_types", types, {"\"chunked_attention\" for layer 0"});
    Json config = published_config("12B");
    config["quantization_config"] = {{"bits", 4}};
    expect_error(ErrorCode::unsupported, {"quantization_config is set"}, [&] { parse_config(config, "config.json"); });
    config["quantization_config"] = nullptr;
    EXPECT_EQ(parse_config(config, "config.json").hidden_size, 3840);
}

TEST(ConfigRefusal, F126OtherFamiliesAndDraftersAreNamedWithWhatIsSupported) {
    for (const std::string type : {"gemma3", "gemma4_vision", "gemma", "llama", "", "GEMMA4", "gemma4_assistant"}) {
        expect_error(ErrorCode::unsupported, {"model_type is \"" + type + "\"", "supported are gemma4"}, [&] {
            parse_config({{"model_type", type}}, "config.json");
        });
    }
    expect_error(ErrorCode::unsupported, {"a drafter"}, [] {
        parse_config({{"model_type", "gemma4_unified_assistant"}}, "config.json");
    });
    expect_error(ErrorCode::corrupt, {"model_type is missing"}, [] { parse_config(Json::object(), "config.json"); });
    expect_error(ErrorCode::corrupt, {"model_type is 4"}, [] { parse_config({{"model_type", 4}}, "config.json"); });
    expect_error(ErrorCode::corrupt, {"not a JSON object"}, [] { parse_config(Json::array(), "config.json"); });
    expect_error(ErrorCode::corrupt, {"text_config is not a JSON object"}, [] {
        parse_config({{"model_type", "gemma4"}, {"text_config", "x"}}, "config.json");
    });
}

TEST(ConfigRefusal, ANameInTheFileCannotWriteToTheTerminalThroughAnError) {
    const auto error = testing::thrown_error([] {
        parse_config({{"model_type", "\x1b[2J" + std::string(100000, 'x')}}, "config.json");
    });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(std::string(error->what()).find('\x1b'), std::string::npos);
    EXPECT_LT(std::string(error->what()).size(), 1000U);
}

}  // namespace
}  // namespace gemmatrace::checkpoint
