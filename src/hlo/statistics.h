// What one execution of a program costs a rank: bytes moved, arithmetic, memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// A result that takes memory of its own.
struct Buffer {
    std::string instruction;
    Opcode opcode = Opcode::copy;
    Shape shape;
};

struct InputGroup {
    int64_t count = 0;
    size_t bytes = 0;       // of the inputs' memory
    size_t bytes_read = 0;  // in one execution
};

// Bytes are those between device memory and the program's inputs and results; what is computed in between is counted
// as intermediate_bytes. An input is read
//   - in full when anything but the following uses it, but only once, however many do;
//   - for the result of a slice, dynamic-slice or gather of it, each counted, and together at most in full;
//   - not at all where a dynamic-update-slice changes it in place, or a result is its own memory.
// Reshapes and whatever else leaves elements in their order are looked through. A result is written in full, but one
// that is its parameter's memory changed in place only for the updates.
struct Statistics {
    int64_t instructions = 0;  // of the entry
    std::map<std::string, int64_t> operations;
    std::map<std::string, InputGroup> inputs;  // by the name up to its first '.'
    int64_t input_count = 0;
    size_t input_bytes = 0;
    size_t bytes_read = 0;
    size_t bytes_written = 0;
    size_t intermediate_bytes = 0;    // all results that take memory of their own
    double dot_flop = 0;              // two for each product
    double other_flop = 0;            // one for each element of an arithmetic operation or term of a reduction
    size_t all_reduce_bytes = 0;      // operands
    std::vector<Buffer> largest;      // results with memory of their own, the largest first, at most ten
    size_t peak_temporary_bytes = 0;  // when each result is freed at its last use
};

// Of a sound module.
Statistics statistics_of(const Module& module);

}  // namespace gemmatrace::hlo
