// generation_config.json: each field that is there counts, each that is not keeps what config.json or the default says.
#include <fmt/format.h>

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/fields.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr Bounds<double> kProbabilities{0.0, 1.0};

void check_ids(const std::vector<int32_t>& ids, const ModelConfig& config, const std::string& file,
               std::string_view field) {
    for (const int32_t id : ids) {
        if (id >= 0 && id < config.vocab_size) continue;
        throw Error(ErrorCode::mismatch,
                    fmt::format("{} names token {}, but the vocabulary has {} rows", field, id, config.vocab_size),
                    {{"file", file}, {"field", std::string(field)}},
                    "take config.json and generation_config.json from the same checkpoint");
    }
}

}  // namespace

GenerationConfig load_generation_config(const std::filesystem::path& directory, const ModelConfig& config) {
    GenerationConfig generation;
    const auto path = directory / "generation_config.json";
    std::error_code problem;
    if (!std::filesystem::exists(path, problem)) {
        generation.eos_token_ids = config.eos_token_ids;
        check_ids(generation.eos_token_ids, config, (directory / "config.json").string(), "eos_token_id");
        return generation;
    }
    const auto document = read_json_file(path);
    const std::string file = path.string();
    const Fields fields(document, file, "");
    if (fields.find("do_sample") != nullptr) generation.do_sample = fields.boolean("do_sample", false);
    generation.temperature = fields.optional_number("temperature", {0.0, 1e6});
    if (const auto top_k = fields.optional_integer("top_k", {0, int64_t{1} << 24})) {
        generation.top_k = static_cast<int32_t>(*top_k);
    }
    generation.top_p = fields.optional_number("top_p", kProbabilities);
    generation.min_p = fields.optional_number("min_p", kProbabilities);
    generation.suppress_tokens = fields.token_ids("suppress_tokens");
    generation.eos_token_ids = fields.token_ids("eos_token_id");
    if (generation.eos_token_ids.empty()) generation.eos_token_ids = config.eos_token_ids;
    check_ids(generation.suppress_tokens, config, file, "suppress_tokens");
    check_ids(generation.eos_token_ids, config, file, "eos_token_id");
    return generation;
}

}  // namespace gemmatrace::checkpoint
