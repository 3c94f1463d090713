// `gemmatrace detokenize`: token ids from standard input, their exact text out.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/batch.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "text/tokenizer.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kDetokenizeExamples =
    "Examples:\n"
    "  echo 2,105,9259 | gemmatrace detokenize models/demo\n"
    "  echo '[2, 105, 9259]' | gemmatrace detokenize models/demo --json      {\"text\":\"...\"}\n"
    "  gemmatrace generate models/demo --ids 2,105 --json | jq -c .token_ids | gemmatrace detokenize models/demo\n"
    "\n"
    "Ids come separated by spaces or commas, as a JSON list, or as {\"ids\":[...]}. The text is printed byte for "
    "byte,\n"
    "without a newline at the end; incomplete UTF-8 is U+FFFD.";

struct DetokenizeOptions {
    std::filesystem::path checkpoint;
    bool is_json = false;
    bool skips_special = false;
    bool is_batch = false;
};

int run_detokenize(const DetokenizeOptions& given) {
    DetokenizeOptions options = given;
    options.checkpoint = find_checkpoint(given.checkpoint);
    const auto tokenizer = text::Tokenizer::load(options.checkpoint);
    const auto decode = [&](std::string_view list, const std::string& what) {
        return tokenizer.decode(parse_ids(list, what), options.skips_special);
    };
    if (options.is_batch) {
        run_batch([&](const nlohmann::ordered_json& line) {
            return nlohmann::ordered_json{{"text", decode(dump_json(line), "the line")}};
        });
        return 0;
    }
    const std::string list = read_standard_input("pipe ids in: echo 2,105 | gemmatrace detokenize CHECKPOINT");
    const std::string text = decode(list, "standard input");
    if (!options.is_json) {
        write_out(text);
        return 0;
    }
    nlohmann::ordered_json answer;
    answer["text"] = text;
    write_out(dump_json(answer) + "\n");
    return 0;
}

void describe(Command& command, DetokenizeOptions& options) {
    command.options = {
        checkpoint_argument(options.checkpoint),
        {"--json", &options.is_json, "print {\"text\":\"...\"}"},
        {"--skip-special", &options.skips_special, "leave control tokens out"},
        {"--lines", &options.is_batch, "a batch: each input line is a JSON list, each output line its JSON"},
    };
    command.options.back().needs = "--json";
}

}  // namespace

Command detokenize_command() {
    return make_command("detokenize", "Token ids to text, as Hugging Face tokenizers does it", kDetokenizeExamples,
                        run_detokenize, describe);
}

}  // namespace gemmatrace::cli
