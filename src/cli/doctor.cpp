// `gemmatrace doctor`: whether this machine can serve, in seconds; or, the first time, what its accelerator really
// does.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/doctor_report.h"
#include "cli/doctor_run.h"
#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  gemmatrace doctor                                            this machine, in seconds\n"
    "  gemmatrace doctor models/demo --json\n"
    "  gemmatrace doctor --first-contact /data/e2b                  the first hour on an accelerator\n"
    "  gemmatrace doctor --first-contact /data/e2b --bundle e2b.bundle --from parity\n"
    "\n"
    "Exit status: 0 every step passed or was skipped; 1 a step failed; 130 interrupted, with the report kept; "
    "otherwise\n"
    "as for all commands. docs/first-contact.md says what is asked, how long it takes and what to send back.";

constexpr int kStepFailed = 1;

ordered_json step_json(const DoctorStep& step) {
    return {{"id", step.id},
            {"question", step.question},
            {"expected", step.expected},
            {"verdict", "fail"},
            {"seconds", 0.0},
            {"seen", ordered_json::object()},
            {"faults", ordered_json::array()},
            {"remarks", ordered_json::array()},
            {"meaning", step.meaning},
            {"change", step.change}};
}

ordered_json finding_json(const StepFinding& finding) {
    return {
        {"seen", finding.seen}, {"faults", finding.faults}, {"remarks", finding.remarks}, {"reason", finding.skipped}};
}

std::string how_it_ended(const ApartResult& result) {
    if (result.signal != 0) return fmt::format("the process of the step was ended by signal {}", result.signal);
    return fmt::format("the process of the step ended with status {} and without an answer", result.status);
}

ordered_json run_step(const DoctorStep& step, const StepContext& context) {
    ordered_json json = step_json(step);
    if (step.needs_checkpoint && context.options.checkpoint.empty()) {
        json["verdict"] = "skipped";
        json["reason"] = "no checkpoint was named";
        return json;
    }
    const ApartResult result = run_apart([&] { return finding_json(step.run(context)); });
    json["seconds"] = result.seconds;
    if (result.answer) {
        for (const char* member : {"seen", "faults", "remarks"}) json[member] = result.answer->at(member);
        if (!json["faults"].empty()) return json;
        const bool is_skipped = result.answer->at("reason") != "";
        json["verdict"] = is_skipped ? "skipped" : "pass";
        if (is_skipped) json["reason"] = result.answer->at("reason");
        return json;
    }
    if (result.error) {
        json["error"] = *result.error;
        if (json["error"]["code"] == error_code_name(ErrorCode::interrupted))
            throw Error(ErrorCode::interrupted, "interrupted");
        json["faults"].push_back(json["error"]["message"]);
        if (result.was_ended) json["remarks"].push_back("the watchdog ended the process, as it would end a server");
    } else {
        json["faults"].push_back(how_it_ended(result));
    }
    return json;
}

void check_step_name(const std::string& name, const char* option) {
    const auto steps = doctor_steps();
    if (name.empty() || std::ranges::any_of(steps, [&](const DoctorStep& step) { return name == step.id; })) return;
    std::string known;
    for (const DoctorStep& step : steps) known += (known.empty() ? "" : ", ") + std::string(step.id);
    throw Error(ErrorCode::bad_request, fmt::format("there is no step '{}'", name), {{"field", option}},
                "use one of " + known);
}

std::vector<const DoctorStep*> chosen_steps(const DoctorOptions& options) {
    std::vector<const DoctorStep*> chosen;
    bool has_begun = options.from.empty();
    for (const DoctorStep& step : doctor_steps()) {
        has_begun |= options.from == step.id;
        const bool is_wanted = options.only.empty() ? has_begun : options.only == step.id;
        const bool is_needless = std::string_view(step.id) == "checkpoint" && options.checkpoint.empty();
        if (!is_wanted || is_needless || (!options.is_first_contact && !step.is_quick)) continue;
        chosen.push_back(&step);
    }
    return chosen;
}

// The steps and expectations as docs/first-contact.md has them.
int list_steps() {
    std::string text =
        "| step | what is asked | expected | a deviation means | what to change | takes |\n|---|---|---|---|---|---|\n";
    for (const DoctorStep& step : doctor_steps()) {
        text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", step.id, step.question, step.expected, step.meaning,
                            step.change, step.duration);
    }
    text += "\n| expectation | usual | what it is |\n|---|---:|---|\n";
    for (const Expectation& known : doctor_expectations()) {
        text += fmt::format("| `{}` | {:g} | {} |\n", known.name, known.value, known.meaning);
    }
    write_out(text);
    return 0;
}

}  // namespace

int run_doctor(const DoctorOptions& given) {
    if (given.lists_steps) return list_steps();
    DoctorOptions options = given;
    check_step_name(options.from, "--from");
    check_step_name(options.only, "--only");
    const Expectations expect(options.expectations);
    if (!options.checkpoint.empty()) options.checkpoint = find_checkpoint(options.checkpoint);
    options.work = std::filesystem::absolute(options.work);  // compilers run elsewhere
    if (options.is_first_contact) std::filesystem::create_directories(options.work);
    DoctorReport report(options.is_first_contact ? options.report : std::filesystem::path(), options, expect);
    const auto steps = chosen_steps(options);
    bool has_failed = false;
    for (size_t number = 0; number < steps.size() && (!has_failed || options.keeps_going || !options.is_first_contact);
         ++number) {
        const DoctorStep& step = *steps[number];
        const auto say = [&](const std::string& text) { options.is_json ? void() : void(write_out(text)); };
        say(fmt::format("{} ({} of {}): {}\n  expected: {}\n", step.id, number + 1, steps.size(), step.question,
                        step.expected));
        report.take(run_step(step, {options, expect, report.json()}));
        const auto& all = report.json()["steps"];
        const auto found = std::ranges::find_if(all, [&](const auto& other) { return other["id"] == step.id; });
        has_failed |= (*found)["verdict"] == "fail";
        say(step_text(*found) + "\n");
    }
    if (options.is_json) write_out(dump_json(report.json(), 1) + "\n");
    if (options.is_first_contact) write_error(fmt::format("the report is in {}\n", options.report.string()));
    return has_failed ? kStepFailed : 0;
}

namespace {

void describe_doctor(Command& command, DoctorOptions& options) {
    Option checkpoint = {"CHECKPOINT", &options.checkpoint, "a directory, or a repository that was fetched"};
    checkpoint.is_optional = true;
    command.options = {
        std::move(checkpoint),
        {"--first-contact", &options.is_first_contact, "every question to the accelerator, one after the other"},
        {"--json", &options.is_json, "the result as one JSON object"},
        {"--list", &options.lists_steps, "print the steps and the expectations, and do nothing else"},
        {"--tp", &options.ranks, "cores to use", "N", "", true},
        {"--cores", &options.cores, "which cores: 0-1, or 2,3; otherwise the first", "LIST"},
        {"--compiler", &options.compiler.compiler, "neuronx-cc or its folder; otherwise it is searched for", "FILE"},
    };
    const auto first = [](Option option) {
        option.needs = "--first-contact";
        return option;
    };
    command.add(
        "First contact",
        {first({"--report", &options.report, "the file to write", "FILE", "", true}),
         first({"--work", &options.work, "folder for programs and what is compiled", "DIR", "", true}),
         first({"--from", &options.from, "begin at this step", "STEP"}),
         first({"--only", &options.only, "do this step alone", "STEP"}),
         first({"--keep-going", &options.keeps_going, "go on after a step that failed"}),
         first({"--expect", &options.expectations, "another value to judge by (several times)", "NAME=VALUE"}),
         first({"--small", &options.is_small, "small probes, and no rate or time is judged: for tests"}),
         first({"--device-timeout", &options.timeout_seconds, "seconds a step on the cores may take", "S", "", true}),
         first({"--bundle", &options.bundle, "the model as it was compiled elsewhere", "DIR"}),
         first({"--batch", &options.slots, "slots of the model's programs", "N", "", true}),
         first({"--context", &options.contexts, "buckets of the model's programs; otherwise one", "LIST"}),
         first({"--chunk", &options.chunk_tokens, "prompt tokens of one prefill", "N", "", true}),
         first(
             {"--compiler-flag", &options.compiler.flags, "one more option for the compiler (several times)", "FLAG"}),
         first({"--any-compiler", &options.compiler.takes_any_compiler, "try versions that are not known to work"}),
         first({"--memory-gib", &options.compiler.memory_gib, "memory that compilers may take together", "N"})});
}

}  // namespace

Command doctor_command() {
    return make_command("doctor", "Whether this machine and its accelerator can serve", kDoctorExamples, run_doctor,
                        describe_doctor);
}

}  // namespace gemmatrace::cli
