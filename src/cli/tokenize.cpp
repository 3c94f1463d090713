// `gemmatrace tokenize`: text from standard input, token ids out.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config.h"
#include "cli/batch.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "text/tokenizer.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kTokenizeExamples =
    "Examples:\n"
    "  printf 'Hello, world' | gemmatrace tokenize models/demo\n"
    "  gemmatrace tokenize models/demo --json < page.html        {\"ids\":[...],\"tokens\":[...]}\n"
    "  gemmatrace tokenize models/demo < in.txt | gemmatrace detokenize models/demo > out.txt\n"
    "\n"
    "The text is taken byte for byte, its last newline included, and no special token is added to it. Bytes that are "
    "not\n"
    "UTF-8 count as U+FFFD.";

struct TokenizeOptions {
    std::filesystem::path checkpoint;
    bool is_json = false;
    bool is_plain = false;
    bool adds_bos = false;
    bool is_batch = false;
};

int32_t required_bos(const text::Tokenizer& tokenizer, const std::filesystem::path& checkpoint) {
    if (const auto bos = tokenizer.bos_id()) return *bos;
    const auto config_file = checkpoint / "config.json";
    std::error_code failure;
    if (std::filesystem::exists(config_file, failure)) {
        if (const auto bos = checkpoint::load_config(checkpoint).bos_token_id) return *bos;
    }
    throw Error(ErrorCode::unsupported, "this checkpoint names no BOS token",
                {{"file", (checkpoint / "tokenizer_config.json").string()}, {"field", "bos_token"}}, "leave out --bos");
}

class TokenizeBody {
  public:
    explicit TokenizeBody(const TokenizeOptions& options)
        : options_(options), tokenizer_(text::Tokenizer::load(options.checkpoint)) {
        if (options.adds_bos) bos_id_ = required_bos(tokenizer_, options.checkpoint);
    }

    std::vector<int32_t> ids(std::string_view text) const {
        auto ids = tokenizer_.encode(text, options_.is_plain ? text::ControlText::plain : text::ControlText::tokens);
        if (bos_id_) ids.insert(ids.begin(), *bos_id_);
        return ids;
    }

    nlohmann::ordered_json json(std::string_view text) const {
        const auto encoded = ids(text);
        auto tokens = nlohmann::ordered_json::array();
        for (const int32_t id : encoded) tokens.push_back(tokenizer_.token(id));
        return {{"ids", encoded}, {"tokens", std::move(tokens)}};
    }

  private:
    const TokenizeOptions& options_;
    text::Tokenizer tokenizer_;
    std::optional<int32_t> bos_id_;
};

int run_tokenize(const TokenizeOptions& given) {
    TokenizeOptions options = given;
    options.checkpoint = find_checkpoint(given.checkpoint);
    const TokenizeBody body(options);
    if (options.is_batch) {
        run_batch([&](const nlohmann::ordered_json& line) {
            if (!line.is_string()) {
                throw Error(ErrorCode::bad_request, "a line of the batch must be a JSON string", {},
                            "write each text as one JSON string a line");
            }
            return body.json(line.get_ref<const std::string&>());
        });
        return 0;
    }
    const std::string text = read_standard_input("pipe the text in: printf 'Hello' | gemmatrace tokenize CHECKPOINT");
    if (options.is_json) {
        write_out(dump_json(body.json(text)) + "\n");
    } else {
        write_out(fmt::format("{}\n", fmt::join(body.ids(text), " ")));
    }
    return 0;
}

void describe(Command& command, TokenizeOptions& options) {
    command.options = {
        checkpoint_argument(options.checkpoint),
        {"--json", &options.is_json, "print {\"ids\":[...],\"tokens\":[...]}"},
        {"--plain", &options.is_plain, "control-token strings in the text stay text"},
        {"--bos", &options.adds_bos, "put the BOS token first"},
        {"--lines", &options.is_batch, "a batch: each input line is a JSON string, each output line its JSON"},
    };
    command.options.back().needs = "--json";
}

}  // namespace

Command tokenize_command() {
    return make_command("tokenize", "Text to token ids, as Hugging Face tokenizers does it", kTokenizeExamples,
                        run_tokenize, describe);
}

}  // namespace gemmatrace::cli
