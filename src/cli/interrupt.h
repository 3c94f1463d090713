// Ctrl-C as a question that loops ask, so that a command ends between two steps and not in the middle of one.
#pragma once

namespace gemmatrace::cli {

// From now on the first Ctrl-C (SIGINT) only sets a flag; a second one before the flag was cleared ends the process at
// once.
void watch_interrupts();

// Whether Ctrl-C was pressed since the start or the last clear_interrupt(). May be asked from any thread.
bool is_interrupted();
void clear_interrupt();

// Returns when `file` can be read without waiting (or is at its end, or faulty), or when Ctrl-C was or is pressed.
void wait_for_input(int file);

// Throws Error(interrupted) if Ctrl-C was pressed.
void throw_if_interrupted();

}  // namespace gemmatrace::cli
