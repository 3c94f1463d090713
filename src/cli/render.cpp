// `gemmatrace render`: a conversation through the checkpoint's chat template, to see or compare the exact prompt.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/batch.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kRenderExamples =
    "Examples:\n"
    "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' |\n"
    "      gemmatrace render models/demo\n"
    "  gemmatrace render models/demo --json < request.json       {\"text\":\"...\",\"ids\":[...]}\n"
    "\n"
    "All members of the object are template variables; tools, documents and add_generation_prompt are null, null and\n"
    "false when absent, as in Transformers. Control-token strings inside messages stay text in the ids.";

struct RenderOptions {
    std::filesystem::path checkpoint;
    bool is_json = false;
    bool is_batch = false;
    bool allows_control_in_content = false;
};

class RenderBody {
  public:
    explicit RenderBody(const RenderOptions& options)
        : options_(options),
          template_(text::ChatTemplate::load(options.checkpoint)),
          special_tokens_(text::special_token_variables(options.checkpoint)) {
        if (options.is_json) tokenizer_.emplace(text::Tokenizer::load(options.checkpoint));
    }

    text::MarkedText text(nlohmann::ordered_json request) const {
        if (!request.is_object() || !request.contains("messages") || !request["messages"].is_array()) {
            throw Error(ErrorCode::bad_request, "the request must be an object with a list 'messages'",
                        {{"field", "messages"}}, "give {\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
        }
        if (!request.contains("tools")) request["tools"] = nullptr;
        if (!request.contains("documents")) request["documents"] = nullptr;
        if (!request.contains("add_generation_prompt")) request["add_generation_prompt"] = false;
        nlohmann::ordered_json special_tokens = special_tokens_;
        for (const auto& member : request.items()) special_tokens.erase(member.key());  // the request wins
        return template_.render(request, special_tokens);
    }

    nlohmann::ordered_json json(const nlohmann::ordered_json& request) const {
        const text::MarkedText rendered = text(request);
        return {{"text", rendered.text()},
                {"ids", options_.allows_control_in_content ? tokenizer_->encode(rendered.text())
                                                           : tokenizer_->encode(rendered)}};
    }

  private:
    const RenderOptions& options_;
    text::ChatTemplate template_;
    nlohmann::ordered_json special_tokens_;
    std::optional<text::Tokenizer> tokenizer_;
};

int run_render(const RenderOptions& given) {
    RenderOptions options = given;
    options.checkpoint = find_checkpoint(given.checkpoint);
    const RenderBody body(options);
    if (options.is_batch) {
        run_batch([&](const nlohmann::ordered_json& request) {
            if (options.is_json) return body.json(request);
            nlohmann::ordered_json answer;
            answer["text"] = body.text(request).text();
            return answer;
        });
        return 0;
    }
    const std::string input = read_standard_input("pipe a request in: gemmatrace render CHECKPOINT < request.json");
    const auto request = parse_json(input, "standard input", ErrorCode::bad_request);
    write_out(options.is_json ? dump_json(body.json(request)) + "\n" : body.text(request).text());
    return 0;
}

void describe(Command& command, RenderOptions& options) {
    command.options = {
        checkpoint_argument(options.checkpoint),
        {"--json", &options.is_json, "print {\"text\":\"...\",\"ids\":[...]}"},
        {"--lines", &options.is_batch, "a batch: each input line is a request, each output line JSON"},
        {"--control-in-content", &options.allows_control_in_content,
         "let control-token strings inside messages become control tokens"},
    };
}

}  // namespace

Command render_command() {
    return make_command("render", "A conversation through the chat template: the exact prompt", kRenderExamples,
                        run_render, describe);
}

}  // namespace gemmatrace::cli
