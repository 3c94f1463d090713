// The steps of `gemmatrace doctor` as data: what each asks, what is expected, what a deviation means and what to
// change.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/neuron_compile.h"

namespace gemmatrace::cli {

struct DoctorOptions {
    std::filesystem::path checkpoint;  // may be empty; a directory once it was found
    bool is_first_contact = false;
    bool lists_steps = false;
    bool is_json = false;
    bool keeps_going = false;
    bool is_small = false;  // sizes of the probes shrink, and no rate or time is judged
    std::filesystem::path report = "first-contact.json";
    std::filesystem::path work = "first-contact.work";
    std::filesystem::path bundle;  // compiled elsewhere
    std::string from;
    std::string only;
    std::string cores;
    int32_t ranks = 2;
    int32_t slots = 1;
    std::string contexts;  // empty: one bucket in which the rings wrap
    int32_t chunk_tokens = 64;
    double timeout_seconds = 120.0;         // of a step on the cores
    std::vector<std::string> expectations;  // NAME=VALUE
    NeuronOptions compiler;
};

// A number that a verdict rests on. Changed with --expect NAME=VALUE.
struct Expectation {
    const char* name;
    double value;
    const char* meaning;  // with its unit
};
std::span<const Expectation> doctor_expectations();

class Expectations {
  public:
    // Throws Error(bad_request) for a word that is not NAME=VALUE of the table.
    explicit Expectations(const std::vector<std::string>& changes);
    double of(const std::string& name) const { return values_.at(name); }
    const std::map<std::string, double>& all() const { return values_; }

  private:
    std::map<std::string, double> values_;
};

// What a step found.
struct StepFinding {
    nlohmann::ordered_json seen = nlohmann::ordered_json::object();
    std::vector<std::string> faults;  // deviations; any of them makes the step fail
    std::vector<std::string> remarks;
    std::string skipped;  // why nothing was judged

    void fail(std::string fault) { faults.push_back(std::move(fault)); }
    void remark(std::string text) { remarks.push_back(std::move(text)); }
    // Skipped for someone who looks at a machine, a failure for someone who means to use its cores.
    void lack(const DoctorOptions& options, std::string what);
};

struct StepContext {
    const DoctorOptions& options;
    const Expectations& expect;
    const nlohmann::ordered_json& report;  // as far as it is written: what earlier steps saw

    // What an earlier step saw, or null when it did not pass.
    const nlohmann::ordered_json* seen_by(const std::string& step) const;
    std::filesystem::path folder(const std::string& name) const { return options.work / name; }
};

struct DoctorStep {
    const char* id;
    const char* question;
    const char* expected;
    const char* meaning;  // of a deviation
    const char* change;   // what to do about it
    const char* duration;
    bool is_quick;          // also without --first-contact
    bool needs_checkpoint;  // is skipped without one
    // Runs in a process of its own. Errors leave it as exceptions and make the step fail.
    StepFinding (*run)(const StepContext& context);
};
std::span<const DoctorStep> doctor_steps();

// The steps' functions, in the order of the table.
StepFinding look_at_host(const StepContext& context);
StepFinding look_at_versions(const StepContext& context);
StepFinding look_at_cores(const StepContext& context);
StepFinding look_at_checkpoint(const StepContext& context);
StepFinding compile_addition(const StepContext& context);
StepFinding look_at_neff(const StepContext& context);
StepFinding run_addition(const StepContext& context);
StepFinding probe_types(const StepContext& context);
StepFinding probe_ranks(const StepContext& context);
StepFinding probe_alias(const StepContext& context);
StepFinding stream_one_core(const StepContext& context);
StepFinding stream_all_cores(const StepContext& context);
StepFinding probe_biggest(const StepContext& context);
StepFinding probe_inputs(const StepContext& context);
StepFinding run_two_layers(const StepContext& context);
StepFinding run_four_layers(const StepContext& context);
StepFinding compile_model(const StepContext& context);
StepFinding compare_model(const StepContext& context);
StepFinding judge_speed(const StepContext& context);
StepFinding judge_memory(const StepContext& context);
StepFinding probe_recovery(const StepContext& context);

}  // namespace gemmatrace::cli
