// The report of `gemmatrace doctor --first-contact`: one JSON file, whole after every step, that can be sent to others.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/doctor_steps.h"

namespace gemmatrace::cli {

inline constexpr int32_t kReportSchema = 1;

class DoctorReport {
  public:
    // file: where it is kept; empty: nowhere. A report of this program that is already there is gone on with: what its
    // steps found stays until they run again. Throws Error(bad_request) for a file that is no such report.
    DoctorReport(std::filesystem::path file, const DoctorOptions& options, const Expectations& expect);

    const nlohmann::ordered_json& json() const { return json_; }
    // Takes the result of a step, in the place that the table gives it, and writes the file.
    void take(nlohmann::ordered_json step);

  private:
    void write() const;

    std::filesystem::path file_;
    nlohmann::ordered_json json_;
};

// The text without the name of this host, of the user's home and of files below it, and without what other processes
// were started with.
std::string without_names(const std::string& text);

// A step's result as people read it.
std::string step_text(const nlohmann::ordered_json& step);

}  // namespace gemmatrace::cli
