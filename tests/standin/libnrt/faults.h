// What the stand-in runtime is told to do wrong: a script of faults, each for the n-th call of a function by a rank.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gemmatrace::standin {

// One of: status=N (returned, nothing done), hang (for ever), delay=SECONDS, nan (in every output of an execution),
// garbage=N (outputs are noise, and N is returned), drop or drop=NAME (results that take a parameter's memory, or that
// one, are not written), kill (the process, by signal 9).
struct Fault {
    std::string call;
    int32_t rank = -1;  // -1: any
    int64_t nth = 0;    // from 1 on; 0: every time
    std::string action;
    std::string value;
};

// The text of GEMMATRACE_STANDIN_NRT_FAULTS: "CALL RANK NTH ACTION" joined by ';' or newlines, with * for any rank and
// for every time, e.g. "nrt_execute 1 3 hang; nrt_init * * status=1".
class FaultScript {
  public:
    // Reads it anew and counts from 1 again. Throws std::invalid_argument.
    void reset(const std::string& text);
    // The fault for this call, which is counted.
    std::optional<Fault> next(const std::string& call, int32_t rank);

  private:
    std::mutex mutex_;
    std::vector<Fault> faults_;
    std::map<std::pair<std::string, int32_t>, int64_t> counts_;
};

// A fault's number.
double fault_number(const Fault& fault);

}  // namespace gemmatrace::standin
