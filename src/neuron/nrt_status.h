// The status numbers of libnrt's calls: what each means for us and what an operator does about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace gemmatrace::neuron {

struct StatusMeaning {
    int32_t status = 0;
    const char* name = "";
    const char* meaning = "";  // half a sentence
    const char* remedy = "";
    ErrorCode code = ErrorCode::device;
    // What the cores hold cannot be trusted any more, or they cannot be used: only a new process helps.
    bool is_fatal = false;
};

// All that are known, in ascending order.
std::span<const StatusMeaning> status_meanings();
// Of a status that is not in the list: name "UNKNOWN" and the advice to look into the runtime's log.
const StatusMeaning& meaning_of(int32_t status);

// The call that failed, and where.
struct Call {
    std::string function;
    int32_t rank = 0;
    std::string subject = {};  // a program or a tensor; may be empty
};
// "nrt_execute failed on rank 1: …" with call, rank, subject and nrt_status as context.
Error error_of(const Call& call, int32_t status);

}  // namespace gemmatrace::neuron
