// Masks hold exactly the tokens that keep an answer possible, whatever is remembered; no answer gets stuck.
#include "engine/constraint/constraint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "engine/constraint/grammar_matches.h"
#include "engine/constraint/random_walk.h"

namespace gemmatrace::engine {
namespace {

const text::Tokenizer& constraint_tokenizer() {
    static const auto kTokenizer = text::Tokenizer::load(std::filesystem::path(GEMMATRACE_SOURCE_DIR) / "models/demo");
    return kTokenizer;
}

std::shared_ptr<const VocabularyTrie> constraint_trie() {
    static const auto kTrie =
        std::make_shared<const VocabularyTrie>(constraint_tokenizer(), constraint_tokenizer().vocab_size());
    return kTrie;
}

std::shared_ptr<Constraint> constraint_of(GrammarPtr grammar, const ConstraintLimits& limits = {}) {
    return Constraint::create(std::move(grammar), constraint_trie(), limits);
}

const std::vector<std::string>& walked_schemas() {
    static const std::vector<std::string> kSchemas{
        R"({"type":"object"})",
        R"({"type":"array","items":{"type":"number","minimum":-3,"maximum":12.5},"minItems":2,"maxItems":5})",
        R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":12},"age":{"type":"integer","minimum":0,"maximum":130},
            "tags":{"type":"array","items":{"enum":["red","green","blue"]}}},"required":["name","age"],"additionalProperties":false})",
        R"({"$ref":"#/$defs/e","$defs":{"e":{"anyOf":[{"type":"integer"},{"type":"object","properties":{"op":{"enum":["+","-"]},"l":{"$ref":"#/$defs/e"},
            "r":{"$ref":"#/$defs/e"}},"required":["op","l","r"]}]}}})",
        R"({"type":"string","pattern":"^[^\\x00-\\x1f]{3,20}$"})",
        R"({"type":"object","properties":{"when":{"type":"string","format":"date-time"},"id":{"type":"string","format":"uuid"}},
            "required":["when"],"additionalProperties":{"type":["boolean","null"]}})"};
    return kSchemas;
}

TEST(ConstraintTest, every_random_answer_is_json_that_its_schema_takes) {
    for (const std::string& schema : walked_schemas()) {
        const GrammarPtr grammar = schema_grammar(schema);
        const auto constraint = constraint_of(grammar);
        for (uint64_t seed = 0; seed < 15; ++seed) {
            const RandomWalk walk =
                random_walk(ConstraintState(constraint), constraint_tokenizer(), CounterRandom(seed), 30, 4000);
            ASSERT_TRUE(walk.has_ended) << schema;
            const std::string text = constraint_tokenizer().decode(walk.ids, false);
            EXPECT_TRUE(takes(grammar, text)) << text;
            EXPECT_NO_THROW(parse_json(text, "the answer", ErrorCode::internal, {size_t{1} << 20, 100})) << text;
        }
    }
}

TEST(ConstraintTest, a_mask_holds_exactly_the_tokens_whose_bytes_may_follow) {
    const GrammarPtr grammar = schema_grammar(walked_schemas()[2]);
    ConstraintState state(constraint_of(grammar));
    std::string text;
    const CounterRandom random(7);
    for (uint64_t step = 0; step < 40 && !state.must_end(); ++step) {
        const std::span<const uint64_t> mask = state.allowed();
        for (int32_t id = 0; id < constraint_trie()->vocab_size(); ++id) {
            const std::string_view bytes = constraint_trie()->bytes(id);
            const bool may_follow = !bytes.empty() && match_grammar(grammar, text + std::string(bytes)).is_whole;
            const bool is_set = ((mask[static_cast<size_t>(id) / 64] >> (id % 64)) & 1) != 0;
            ASSERT_EQ(is_set, may_follow) << "after " << text << " token " << constraint_tokenizer().token(id);
        }
        const std::vector<int32_t> ids = ids_of_mask(mask);
        const int32_t id = ids[random.bits(step) % ids.size()];
        text += constraint_trie()->bytes(id);
        state.advance(id);
        EXPECT_EQ(state.may_end(), takes(grammar, text));
    }
}

TEST(ConstraintTest, a_character_begun_with_a_byte_token_is_finished_with_byte_tokens) {
    const auto& tokenizer = constraint_tokenizer();
    ConstraintState state(constraint_of(compile_regex("[^a]", ConstraintLimits{})));
    state.advance(tokenizer.id_of("<0xF0>").value());
    for (const int32_t id : ids_of_mask(state.allowed())) {
        EXPECT_TRUE(tokenizer.token(id).starts_with("<0x")) << tokenizer.token(id);
    }
    for (const char* byte : {"<0x9F>", "<0x99>", "<0x82>"}) state.advance(tokenizer.id_of(byte).value());
    EXPECT_TRUE(state.must_end());
    EXPECT_TRUE(ids_of_mask(state.allowed()).empty());
}

TEST(ConstraintTest, a_number_may_end_and_may_go_on_and_a_closed_object_must_end) {
    const auto& tokenizer = constraint_tokenizer();
    ConstraintState number(constraint_of(schema_grammar(R"({"type":"integer"})")));
    EXPECT_FALSE(number.may_end());
    number.advance(tokenizer.id_of("1").value());
    EXPECT_TRUE(number.may_end());
    EXPECT_FALSE(number.must_end());
    ConstraintState object(constraint_of(compile_json_object(ConstraintLimits{})));
    object.advance(tokenizer.id_of("{").value());
    object.advance(tokenizer.id_of("}").value());
    EXPECT_TRUE(object.may_end());
    EXPECT_TRUE(object.must_end());
}

TEST(ConstraintTest, tokens_that_are_not_allowed_are_our_own_mistake) {
    const auto& tokenizer = constraint_tokenizer();
    ConstraintState state(constraint_of(compile_json_object(ConstraintLimits{})));
    EXPECT_THROW(state.advance(tokenizer.id_of("}").value()), Error);
    EXPECT_THROW(state.advance(tokenizer.eos_id().value()), Error);
    EXPECT_THROW(state.advance(-1), Error);
    EXPECT_THROW(state.advance(tokenizer.vocab_size()), Error);
    state.advance(tokenizer.id_of("{").value());  // and a refused token changes nothing
}

TEST(ConstraintTest, forgetting_changes_no_answer) {
    ConstraintLimits tiny;
    tiny.max_cache_bytes = 20'000;
    for (const std::string& schema : walked_schemas()) {
        const auto roomy = constraint_of(schema_grammar(schema));
        const auto forgetful = constraint_of(schema_grammar(schema), tiny);
        for (uint64_t seed = 0; seed < 3; ++seed) {
            const auto walk = [&](const std::shared_ptr<Constraint>& constraint) {
                return random_walk(ConstraintState(constraint), constraint_tokenizer(), CounterRandom(seed), 30, 4000);
            };
            EXPECT_EQ(walk(roomy).ids, walk(forgetful).ids) << schema;
        }
    }
}

TEST(ConstraintTest, copies_go_their_own_ways) {
    const auto& tokenizer = constraint_tokenizer();
    ConstraintState one(constraint_of(schema_grammar(R"({"enum":["ab","ac"]})")));
    one.advance(tokenizer.id_of("\"").value());
    one.advance(tokenizer.id_of("a").value());
    ConstraintState other = one;
    one.advance(tokenizer.id_of("b").value());
    other.advance(tokenizer.id_of("c").value());
    EXPECT_FALSE(ids_of_mask(one.allowed()).empty());
    EXPECT_FALSE(ids_of_mask(other.allowed()).empty());
}

TEST(ConstraintTest, sequences_on_several_threads_share_one_constraint) {
    ConstraintLimits small;
    small.max_cache_bytes = 200'000;
    const auto constraint = constraint_of(schema_grammar(walked_schemas()[3]), small);
    const auto walk = [&](uint64_t seed) {
        return random_walk(ConstraintState(constraint), constraint_tokenizer(), CounterRandom(seed), 20, 4000).ids;
    };
    std::vector<std::vector<int32_t>> results(4);
    std::vector<std::thread> threads;
    for (size_t index = 0; index < results.size(); ++index) {
        threads.emplace_back([&, index] { results[index] = walk(index); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t index = 0; index < results.size(); ++index) EXPECT_EQ(results[index], walk(index));
}

TEST(ConstraintTest, a_vocabulary_that_lacks_a_byte_is_refused_with_its_name) {
    const auto poor = std::make_shared<const VocabularyTrie>(
        std::vector<std::pair<int32_t, std::string>>{{0, "a"}, {1, "b"}, {2, "ab"}}, 3);
    const ConstraintLimits limits;
    EXPECT_NO_THROW(Constraint::create(compile_regex("(ab)*", limits), poor, limits));
    try {
        Constraint::create(compile_regex("abc", limits), poor, limits);
        FAIL() << "the byte c is missing";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_NE(error.message().find("0x63"), std::string::npos) << error.message();
    }
}

}  // namespace
}  // namespace gemmatrace::engine
