// What a failure of the Neuron compiler means and what to do about it: one table of its codes, and the reading of exit
// statuses and logs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace gemmatrace::neuron {

struct KnownFailure {
    std::vector<std::string_view> codes;  // "EVRF001"; the first is how the compiler writes it today
    ErrorCode code = ErrorCode::device;
    std::string_view cause;  // goes on from "the Neuron compiler refuses PROGRAM: "
    std::string_view remedy;
};
std::span<const KnownFailure> known_failures();

// How a compiler process ended.
struct CompilerExit {
    int status = 0;  // of an exit
    int signal = 0;  // that ended it; 0: it exited
};

// The last known code in a log, e.g. "EVRF001", and of older releases those without NCC_ ("[XTP002]"); a code that the
// table does not have when there is no other; empty when there is none.
std::string failure_code_in(std::string_view log);

// Whether trying again may help: an exit with 70 and no code, which parallel runs show now and then.
bool may_pass_when_repeated(const CompilerExit& end, std::string_view log);

// The error for a compile that did not succeed. Its context names the program, the code or exit status and the log.
Error compiler_error(const std::string& program, const CompilerExit& end, std::string_view log,
                     const std::string& log_file);

}  // namespace gemmatrace::neuron
