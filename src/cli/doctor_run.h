// Running the steps of `gemmatrace doctor`, each in a process of its own, and the report that they fill.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/doctor_steps.h"

namespace gemmatrace::cli {

// How work in a process of its own ended.
struct ApartResult {
    std::optional<nlohmann::ordered_json> answer;  // what the work answered
    std::optional<nlohmann::ordered_json> error;   // or the error that it threw or was ended by: error_json
    bool was_ended = false;                        // by end_apart
    int status = 0;                                // of an exit
    int signal = 0;                                // that ended it
    double seconds = 0.0;
};

// Runs work in a new process, so that what crashes or hangs in the runtime takes nothing else along. Ctrl-C is handed
// on, and work that does not heed it is killed; then Error(interrupted). kill_seconds: after say_running() was called
// in it, the process is killed by signal 9 after so long. Only for a process without threads.
ApartResult run_apart(const std::function<nlohmann::ordered_json()>& work,
                      std::optional<double> kill_seconds = std::nullopt);
// In such a process: ends it with the error as its result. For neuron::Watchdog.
[[noreturn]] void end_apart(const Error& error);
void say_running();

nlohmann::ordered_json error_json(const Error& error);

// Runs the steps that the options ask for, prints each, and keeps the report. Answers the exit status: 0, or 1 when a
// step failed. Throws Error(interrupted) when Ctrl-C was pressed; what was done by then is in the report.
int run_doctor(const DoctorOptions& options);

}  // namespace gemmatrace::cli
