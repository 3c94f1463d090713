// What parse_config makes of keys, absent keys and the several forms of config.json, as Transformers 5.13 does.
#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/synth.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using testing::expect_error;

// A text config of six small layers, S S F S S F, with the keys that have no useful default.
Json small_text_config() {
    return Json::parse(R"({"model_type": "gemma4_text", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "global_head_dim": 32, "sliding_window": 7, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                        "sliding_attention", "sliding_attention", "full_attention"]})");
}

// JSON as the tests state it: as text, or as a value built from others.
struct Document {
    Json json;
    Document(const char* text) : json(Json::parse(text)) {}
    Document(Json value) : json(std::move(value)) {}
};

// The document with some keys replaced; a value of "absent" takes the key away.
Json with(const Document& document, const Document& changes) {
    Json config = document.json;
    for (const auto& [key, value] : changes.json.items()) {
        if (value == "absent") {
            config.erase(key);
        } else {
            config[key] = value;
        }
    }
    return config;
}

ModelConfig parse(const Document& document) { return parse_config(document.json, "config.json"); }
ModelConfig parse_text(const Document& changes) { return parse(with(small_text_config(), changes)); }

Json nested(const Document& text, const Document& changes = Json::object()) {
    Json document = {{"model_type", "gemma4"}};
    document["text_config"] = text.json;
    return with(document, changes);
}

TEST(Config, F111TheFlatTextExportGivesTheSameLayersAsTheNestedForm) {
    const ModelConfig flat = parse(small_text_config());
    const ModelConfig whole = parse(nested(small_text_config()));
    EXPECT_TRUE(flat.is_text_only);
    EXPECT_FALSE(whole.is_text_only);
    EXPECT_EQ(flat.model_type, "gemma4_text");
    EXPECT_EQ(whole.model_type, "gemma4");
    ASSERT_EQ(flat.layers.size(), whole.layers.size());
    for (size_t layer = 0; layer < flat.layers.size(); ++layer) {
        EXPECT_EQ(flat.layers[layer].head_dim, whole.layers[layer].head_dim);
        EXPECT_EQ(flat.layers[layer].kv_heads, whole.layers[layer].kv_heads);
    }
    EXPECT_EQ(flat.hidden_size, whole.hidden_size);
}

TEST(Config, AbsentKeysTakeTheDefaultsOf513NotOff) {
    const ModelConfig config = parse(R"({"model_type": "gemma4"})");  // not even a text_config
    EXPECT_EQ(config.hidden_size, 2304);
    EXPECT_EQ(config.vocab_size, 262144);
    EXPECT_EQ(config.ple_dim, 256);
    EXPECT_EQ(config.ple_vocab_size, 262144);
    EXPECT_EQ(config.final_softcap, std::nullopt);
    EXPECT_EQ(config.sliding_window, 512);
    EXPECT_EQ(config.max_position_embeddings, 131072);
    ASSERT_EQ(config.layers.size(), 30U);
    EXPECT_EQ(config.layers[5].attention, AttentionKind::full);
    EXPECT_EQ(config.layers[4].attention, AttentionKind::sliding);
    EXPECT_EQ(config.layers[5].head_dim, 512);
    EXPECT_EQ(config.layers[4].head_dim, 256);
    EXPECT_EQ(config.layers[5].kv_heads, 4);
    EXPECT_EQ(config.layers[0].ff, 9216);
    EXPECT_FALSE(config.layers[29].shares_kv);
    EXPECT_EQ(config.full_rope.rotated_pairs, 64);
    EXPECT_EQ(config.bos_token_id, 2);
    EXPECT_EQ(config.eos_token_ids, (std::vector<int32_t>{1}));
}

TEST(Config, TheUnifiedModelHasItsOwnDefaultsAndNeitherPerLayerEmbeddingsNorExperts) {
    const ModelConfig config = parse(
        R"({"model_type": "gemma4_unified_text", "hidden_size_per_layer_input": 256, "enable_moe_block": true, "num_experts": 8})");
    EXPECT_EQ(config.sliding_window, 1024);
    EXPECT_EQ(config.max_position_embeddings, 262144);
    EXPECT_EQ(config.ple_dim, 0);
    EXPECT_FALSE(config.layers[0].moe.has_value());
    EXPECT_TRUE(config.is_text_only);
}

TEST(Config, TheLastLayerIsFullWhateverLayerTypesSays) {
    const ModelConfig config =
        parse_text(R"({"num_hidden_layers": 2, "layer_types": ["sliding_attention", "sliding_attention"]})");
    EXPECT_EQ(config.layers[0].attention, AttentionKind::sliding);
    EXPECT_EQ(config.layers[1].attention, AttentionKind::full);
    EXPECT_EQ(config.layers[1].head_dim, 32);
}

TEST(Config, GlobalKvHeadsCountOnlyWithKEqV) {
    const ModelConfig without = parse_text(R"({"num_global_key_value_heads": 1})");
    EXPECT_EQ(without.layers[2].kv_heads, 2);
    EXPECT_FALSE(without.layers[2].k_eq_v);
    const ModelConfig with_k_eq_v = parse_text(R"({"num_global_key_value_heads": 1, "attention_k_eq_v": true})");
    EXPECT_EQ(with_k_eq_v.layers[2].kv_heads, 1);
    EXPECT_TRUE(with_k_eq_v.layers[2].k_eq_v);
    EXPECT_EQ(with_k_eq_v.layers[1].kv_heads, 2);
    EXPECT_FALSE(with_k_eq_v.layers[1].k_eq_v);
    expect_error(ErrorCode::corrupt, {"num_global_key_value_heads", "attention_k_eq_v"},
                 [] { parse_text(R"({"attention_k_eq_v": true})"); });
}

TEST(Config, AGlobalHeadDimOfZeroMeansHeadDim) {
    // The full table is then made for hidden_size / num_attention_heads, which must be the same.
    const ModelConfig config = parse_text(R"({"global_head_dim": 0, "head_dim": 8})");
    EXPECT_EQ(config.layers[2].head_dim, 8);
    EXPECT_EQ(config.full_rope.rotated_pairs, 1);
    expect_error(ErrorCode::corrupt, {"heads of 8", "heads of 16"}, [] { parse_text(R"({"global_head_dim": 0})"); });
}

TEST(Config, ALayerReadsTheLastOwnLayerOfItsKind) {
    const ModelConfig config = parse_text(R"({"num_kv_shared_layers": 3, "use_double_wide_mlp": true})");
    EXPECT_EQ(config.layers[2].kv_layer, 2);
    EXPECT_EQ(config.layers[3].kv_layer, 1);
    EXPECT_EQ(config.layers[4].kv_layer, 1);
    EXPECT_EQ(config.layers[5].kv_layer, 2);
    EXPECT_EQ(config.layers[2].ff, 48);
    EXPECT_EQ(config.layers[3].ff, 96);
}

TEST(Config, ASharedLayerWithoutADonorOfItsKindIsRefused) {
    expect_error(ErrorCode::corrupt, {"num_kv_shared_layers is 4", "layer 2"},
                 [] { parse_text(R"({"num_kv_shared_layers": 4})"); });
    expect_error(ErrorCode::corrupt, {"num_kv_shared_layers is 6"},
                 [] { parse_text(R"({"num_kv_shared_layers": 6})"); });
    expect_error(ErrorCode::corrupt, {"outside 0 to 6"}, [] { parse_text(R"({"num_kv_shared_layers": 7})"); });
}

TEST(Config, ExpertsAreReadWhenTheBlockIsEnabled) {
    const Document experts = R"({"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 5})";
    EXPECT_FALSE(parse_text(experts).layers[0].moe.has_value());
    const ModelConfig config = parse(with(with(small_text_config(), experts), R"({"enable_moe_block": true})"));
    EXPECT_EQ(config.layers[3].moe->experts, 4);
    EXPECT_EQ(config.layers[3].moe->top_k, 2);
    EXPECT_EQ(config.layers[3].moe->ff, 5);
    expect_error(ErrorCode::corrupt, {"num_experts is missing"}, [] { parse_text(R"({"enable_moe_block": true})"); });
    expect_error(ErrorCode::corrupt, {"top_k_experts is 5", "4 experts"}, [&] {
        parse(with(with(small_text_config(), experts), R"({"enable_moe_block": true, "top_k_experts": 5})"));
    });
}

TEST(Config, OldRopeKeysUnknownKeysAndInferenceOptionsAreIgnored) {
    const ModelConfig config = parse_text(
        R"({"rope_theta": 5.0, "rope_scaling": null, "attn_logit_softcapping": 50.0, "query_pre_attn_scalar": 256, "some_future_key": [1, 2]})");
    EXPECT_EQ(config.sliding_rope.theta, 1e4);
    EXPECT_EQ(config.full_rope.theta, 1e6);
}

Json rope(const Document& sliding, const Document& full) {
    Json changes;
    changes["rope_parameters"]["sliding_attention"] = sliding.json;
    changes["rope_parameters"]["full_attention"] = full.json;
    return changes;
}
const Document kSlidingRope = R"({"rope_type": "default", "rope_theta": 10000.0})";
const Document kFullRope = R"({"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25})";

TEST(ConfigRope, AMissingPartialRotaryFactorTurnsAllPairs) {
    const auto config = parse_text(rope(kSlidingRope, R"({"rope_type": "proportional", "rope_theta": 1000000})"));
    EXPECT_EQ(config.full_rope.rotated_pairs, 16);
    EXPECT_EQ(config.full_rope.theta, 1e6);
}

TEST(ConfigRope, PairsAreRoundedDownLikePythonDoes) {
    for (const auto& [factor, pairs] :
         std::vector<std::pair<double, int32_t>>{{0.0, 0}, {0.3, 4}, {0.99, 15}, {1.0, 16}}) {
        const auto config = parse_text(rope(kSlidingRope, with(kFullRope, Json{{"partial_rotary_factor", factor}})));
        EXPECT_EQ(config.full_rope.rotated_pairs, pairs) << factor;
    }
}

TEST(ConfigRope, AFlatPartialRotaryFactorReplacesThatOfTheEntries) {
    EXPECT_EQ(parse_text(R"({"partial_rotary_factor": 0.5})").full_rope.rotated_pairs, 8);
    EXPECT_EQ(parse_text(R"({"partial_rotary_factor": 0.5})").sliding_rope.rotated_pairs, 8);  // "default" turns all
    // Only where the keys of rope_parameters are the kinds of the layers: not when all layers are full.
    const Json one_kind = {
        {"partial_rotary_factor", 0.5}, {"num_hidden_layers", 1}, {"layer_types", {"full_attention"}}};
    EXPECT_EQ(parse_text(one_kind).full_rope.rotated_pairs, 4);
}

TEST(ConfigRope, TheFactorDividesInProportionalAndLinearTablesOnly) {
    EXPECT_EQ(parse_text(rope(kSlidingRope, with(kFullRope, R"({"factor": 8})"))).full_rope.factor, 8.0);
    EXPECT_EQ(parse_text(rope(with(kSlidingRope, R"({"factor": 8.0})"), kFullRope)).sliding_rope.factor, 1.0);
    const Document linear = R"({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})";
    const auto config = parse_text(rope(linear, kFullRope));
    EXPECT_EQ(config.sliding_rope.factor, 4.0);
    EXPECT_EQ(config.sliding_rope.rotated_pairs, 8);
}

TEST(ConfigRope, TypeIsTheOldNameOfRopeTypeAndDefaultWithoutEither) {
    const auto config =
        parse_text(rope(R"({"rope_theta": 10000.0})", R"({"type": "proportional", "rope_theta": 1000000.0})"));
    EXPECT_EQ(config.sliding_rope.rotated_pairs, 8);
    EXPECT_EQ(config.full_rope.rotated_pairs, 16);
}

TEST(ConfigRope, TablesThatCannotWorkAreRefused) {
    const auto refuse = [](ErrorCode code, const std::vector<std::string>& fragments, const Document& changes) {
        expect_error(code, fragments, [&] { parse_text(changes); });
    };
    refuse(ErrorCode::corrupt, {"rope_parameters.full_attention is missing"}, R"({"rope_parameters": {}})");
    refuse(ErrorCode::corrupt, {"full_attention is missing"}, rope(kSlidingRope, Json()));
    refuse(ErrorCode::corrupt, {"rope_parameters is not a JSON object"}, R"({"rope_parameters": []})");
    refuse(ErrorCode::corrupt, {"rope_theta is missing"}, rope(R"({"rope_type": "default"})", kFullRope));
    refuse(ErrorCode::corrupt, {"heads of 16", "heads of 32"}, rope(kSlidingRope, kSlidingRope));
    refuse(ErrorCode::corrupt, {"factor is missing"},
           rope(with(kSlidingRope, R"({"rope_type": "linear"})"), kFullRope));
    refuse(ErrorCode::unsupported, {"rope_type is \"yarn\""},
           rope(with(kSlidingRope, R"({"rope_type": "yarn"})"), kFullRope));
    refuse(ErrorCode::corrupt, {"partial_rotary_factor is 1.5"},
           rope(kSlidingRope, with(kFullRope, R"({"partial_rotary_factor": 1.5})")));
    refuse(ErrorCode::corrupt, {"factor is 0"}, rope(kSlidingRope, with(kFullRope, R"({"factor": 0})")));
    refuse(ErrorCode::corrupt, {"rope_theta is -1"}, rope(with(kSlidingRope, R"({"rope_theta": -1})"), kFullRope));
    refuse(ErrorCode::corrupt, {"rope_theta is \"x\""}, rope(with(kSlidingRope, R"({"rope_theta": "x"})"), kFullRope));
}

// The form of Transformers 5.15 and later: no global_ keys, overrides by layer number.
Json newer_form(const Document& full_layer) {
    Json changes = {{"global_head_dim", "absent"}};
    for (const char* layer : {"2", "5"}) changes["per_layer_config"][layer] = full_layer.json;
    return changes;
}

TEST(ConfigPerLayer, F109TheNewerFormGivesTheSameTableAsTheFlatKeys) {
    const Document k_eq_v = R"({"attention_k_eq_v": true})";
    const Json newer = with(small_text_config(), newer_form(R"({"head_dim": 32, "num_key_value_heads": 1})"));
    const ModelConfig config = parse(with(newer, k_eq_v));
    const ModelConfig flat = parse_text(R"({"attention_k_eq_v": true, "num_global_key_value_heads": 1})");
    ASSERT_EQ(config.layers.size(), flat.layers.size());
    for (size_t layer = 0; layer < flat.layers.size(); ++layer) {
        EXPECT_EQ(config.layers[layer].head_dim, flat.layers[layer].head_dim) << layer;
        EXPECT_EQ(config.layers[layer].kv_heads, flat.layers[layer].kv_heads) << layer;
    }
    EXPECT_EQ(config.full_rope.rotated_pairs, flat.full_rope.rotated_pairs);
    EXPECT_EQ(parse_text(newer_form(R"({"head_dim": 64})")).layers[5].head_dim, 64);
}

TEST(ConfigPerLayer, F109BothFormsMayStandTogetherIfTheyAgree) {
    const Document agreeing = R"({"per_layer_config": {"2": {"head_dim": 32}, "5": {"head_dim": 32}}})";
    EXPECT_EQ(parse_text(agreeing).layers[2].head_dim, 32);
    EXPECT_EQ(parse_text(R"({"per_layer_config": null})").layers[2].head_dim, 32);
}

TEST(ConfigPerLayer, F109ContradictionsAreRefused) {
    const auto refuse = [](const std::vector<std::string>& fragments, const Document& changes) {
        expect_error(ErrorCode::unsupported, fragments, [&] { parse_text(changes); });
    };
    refuse({"per_layer_config", "layer 2"}, R"({"per_layer_config": {"5": {"head_dim": 32}}})");
    refuse({"layer 0"}, with(newer_form(R"({"head_dim": 32})"), R"({"per_layer_config": {"0": {"head_dim": 8}}})"));
    refuse({"layer 2"}, newer_form(R"({"head_dim": 32, "num_key_value_heads": 1})"));  // kv heads without k_eq_v
    refuse({"per_layer_config.2.intermediate_size"}, newer_form(R"({"head_dim": 32, "intermediate_size": 7})"));
    EXPECT_EQ(parse_text(newer_form(R"({"head_dim": 32, "intermediate_size": 48})")).layers[2].ff, 48);
    for (const std::string key : {"6", "-1", "x", "", "1.0", "99999999999999999999"}) {
        expect_error(ErrorCode::corrupt, {"names no layer of 6"}, [&] {
            Json changes;
            changes["per_layer_config"][key] = Json::object();
            parse_text(changes);
        });
    }
}

TEST(ConfigTokens, PlaceholdersExistOnlyInConditionalModelsAndOnlyInsideTheVocabulary) {
    EXPECT_TRUE(parse(small_text_config()).media_token_ids.empty());
    EXPECT_TRUE(parse(nested(small_text_config())).media_token_ids.empty());  // the published ids are not rows here
    const ModelConfig config =
        parse(nested(small_text_config(), R"({"image_token_id": 90, "audio_token_id": null, "video_token_id": 91})"));
    EXPECT_EQ(config.media_token_ids, (std::vector<int32_t>{90, 91}));
}

TEST(ConfigTokens, F108ThePlaceholderRuleNeedsPadToBeARow) {
    const Document image = R"({"image_token_id": 90})";
    EXPECT_EQ(parse(nested(with(small_text_config(), R"({"pad_token_id": 3})"), image)).pad_token_id, 3);
    expect_error(ErrorCode::mismatch, {"pad_token_id is 96", "96 rows"},
                 [&] { parse(nested(with(small_text_config(), R"({"pad_token_id": 96})"), image)); });
    expect_error(ErrorCode::mismatch, {"pad_token_id is -1"},
                 [&] { parse(nested(with(small_text_config(), R"({"pad_token_id": -1})"), image)); });
    expect_error(ErrorCode::mismatch, {"pad_token_id is null"},
                 [&] { parse(nested(with(small_text_config(), R"({"pad_token_id": null})"), image)); });
    EXPECT_EQ(parse_text(R"({"pad_token_id": null})").pad_token_id, 0);  // a text export has no placeholders
}

TEST(ConfigTokens, EndIdsComeFromTheTopLevelAndElseFromTheTextConfig) {
    const auto ids = [](const Document& text_changes, const Document& top_changes) {
        return parse(nested(with(small_text_config(), text_changes), top_changes)).eos_token_ids;
    };
    EXPECT_EQ(ids(R"({"eos_token_id": 5})", R"({"eos_token_id": [1, 6]})"), (std::vector<int32_t>{1, 6}));
    EXPECT_EQ(ids(R"({"eos_token_id": [3, 4]})", Json::object()), (std::vector<int32_t>{3, 4}));
    EXPECT_EQ(ids(R"({"eos_token_id": 5})", R"({"eos_token_id": null})"), (std::vector<int32_t>{5}));
    EXPECT_EQ(ids(Json::object(), Json::object()), (std::vector<int32_t>{1}));
    EXPECT_TRUE(ids(R"({"eos_token_id": null})", Json::object()).empty());
}

TEST(ConfigTokens, BosMayBeNull) {
    EXPECT_EQ(parse_text(R"({"bos_token_id": null})").bos_token_id, std::nullopt);
    EXPECT_EQ(parse_text(R"({"bos_token_id": 4})").bos_token_id, 4);
}

TEST(Config, TheCheckpointsOwnDtypeMayStandUnderItsOldNameOrInTheTextConfig) {
    EXPECT_EQ(parse(nested(small_text_config(), R"({"dtype": "bfloat16", "torch_dtype": "float32"})")).dtype,
              "bfloat16");
    EXPECT_EQ(parse(nested(small_text_config(), R"({"torch_dtype": "float16"})")).dtype, "float16");
    EXPECT_EQ(parse(nested(with(small_text_config(), R"({"dtype": "float32"})"))).dtype, "float32");
    EXPECT_EQ(parse(nested(small_text_config())).dtype, "");
}

TEST(Config, TyingIsATopLevelMatter) {
    EXPECT_TRUE(parse(nested(with(small_text_config(), R"({"tie_word_embeddings": false})"))).tie_word_embeddings);
    EXPECT_FALSE(parse(nested(small_text_config(), R"({"tie_word_embeddings": false})")).tie_word_embeddings);
}

TEST(ConfigFile, F001AMissingOrBrokenConfigIsNamed) {
    const testing::TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"config.json"}, [&] { load_config(folder.path()); });
    testing::write_bytes(folder / "config.json", "");
    expect_error(ErrorCode::corrupt, {"config.json", "empty"}, [&] { load_config(folder.path()); });
    testing::write_bytes(folder / "config.json", small_text_config().dump().substr(0, 200));
    expect_error(ErrorCode::corrupt, {"config.json", "not valid JSON"}, [&] { load_config(folder.path()); });
    testing::write_bytes(folder / "config.json", "[]");
    expect_error(ErrorCode::corrupt, {"config.json", "not a JSON object"}, [&] { load_config(folder.path()); });
    testing::write_bytes(folder / "config.json", small_text_config().dump());
    EXPECT_EQ(load_config(folder.path()).hidden_size, 32);
}

}  // namespace
}  // namespace gemmatrace::checkpoint
