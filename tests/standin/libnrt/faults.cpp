// A few words a fault.
#include "standin/libnrt/faults.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace gemmatrace::standin {
namespace {

Fault parse_fault(const std::string& text) {
    std::istringstream words(text);
    std::string rank, nth;
    Fault fault;
    if (!(words >> fault.call >> rank >> nth >> fault.action)) throw std::invalid_argument("no fault: " + text);
    if (rank != "*") fault.rank = std::stoi(rank);
    if (nth != "*") fault.nth = std::stoll(nth);
    if (const size_t equals = fault.action.find('='); equals != std::string::npos) {
        fault.value = fault.action.substr(equals + 1);
        fault.action.resize(equals);
    }
    return fault;
}

}  // namespace

void FaultScript::reset(const std::string& text) {
    const std::lock_guard lock(mutex_);
    faults_.clear();
    counts_.clear();
    std::string lines = text;
    std::ranges::replace(lines, ';', '\n');
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
        if (line.find_first_not_of(" \t") != std::string::npos) faults_.push_back(parse_fault(line));
    }
}

std::optional<Fault> FaultScript::next(const std::string& call, int32_t rank) {
    const std::lock_guard lock(mutex_);
    const int64_t count = ++counts_[{call, rank}];
    for (const Fault& fault : faults_) {
        const bool is_meant = fault.call == call && (fault.rank < 0 || fault.rank == rank);
        if (is_meant && (fault.nth == 0 || fault.nth == count)) return fault;
    }
    return std::nullopt;
}

double fault_number(const Fault& fault) { return std::stod(fault.value); }

}  // namespace gemmatrace::standin
