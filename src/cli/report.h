// The one place where an exception becomes what the user reads on standard error, and an exit status.
#pragma once

#include "base/error.h"

namespace gemmatrace::cli {

// Prints "error: message", the code, the context line by line and the remedy. Returns the exit status of the code.
int report_error(const Error& error);

// Call inside a catch block: translates the exception in flight (ours, memory exhausted, anything else) and reports it.
int report_current_exception();

}  // namespace gemmatrace::cli
