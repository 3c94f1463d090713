// Ctrl-C as a question that loops ask, so that a command ends between two steps and not in the middle of one.
#pragma once

namespace gemmatrace::cli {

// From now on the first Ctrl-C (SIGINT) only sets a flag; a second one before the flag was cleared ends the process at
// once. Reads that wait for the user are woken by it.
void watch_interrupts();

// Whether Ctrl-C was pressed since the start or the last clear_interrupt().
bool is_interrupted();
void clear_interrupt();

// Throws Error(interrupted) if Ctrl-C was pressed.
void throw_if_interrupted();

}  // namespace gemmatrace::cli
