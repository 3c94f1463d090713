// What is nobody's business but the machine's owner is taken out of every string at the one place where it comes in.
#include "cli/doctor_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
}

std::string host_name() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return {};
    return name;
}

void clean(ordered_json& value) {
    if (value.is_string()) value = without_names(value.get<std::string>());
    if (value.is_structured()) {
        for (auto& member : value) clean(member);
    }
}

ordered_json new_report() {
    return {{"report", "gemmatrace doctor --first-contact"},
            {"schema_version", kReportSchema},
            {"gemmatrace", GEMMATRACE_VERSION},
            {"options", ordered_json::object()},
            {"expectations", ordered_json::object()},
            {"steps", ordered_json::array()}};
}

bool is_report(const ordered_json& json) {
    return json.is_object() && json.value("report", "") == new_report()["report"] &&
           json.value("schema_version", 0) == kReportSchema && json.contains("steps") && json["steps"].is_array();
}

size_t place_of(const ordered_json& step) {
    const auto steps = doctor_steps();
    const auto found =
        std::ranges::find_if(steps, [&](const DoctorStep& known) { return step.value("id", "") == known.id; });
    return static_cast<size_t>(found - steps.begin());
}

std::string value_text(const ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
    if (value.is_array()) {
        std::string text;
        for (const auto& member : value) text += (text.empty() ? "" : ", ") + value_text(member);
        return text;
    }
    if (value.is_object()) {
        std::string text;
        for (const auto& [name, member] : value.items()) {
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value_text(member));
        }
        return "(" + text + ")";
    }
    return dump_json(value);
}

// A line for each member; what holds objects is indented below its name.
std::string members_text(const ordered_json& object, size_t indent) {
    std::string text;
    for (const auto& [name, value] : object.items()) {
        const bool is_deep = value.is_object() && std::ranges::any_of(value, [](const auto& member) {
                                 return member.is_structured() && !member.empty();
                             });
        text += fmt::format("{:{}}{}: {}\n", "", indent, name, is_deep ? "" : value_text(value));
        if (is_deep) text += members_text(value, indent + 2);
    }
    return text;
}

}  // namespace

std::string without_names(const std::string& text) {
    std::string cleaned = text;
    const char* home = std::getenv("HOME");
    if (home != nullptr && std::string_view(home).size() > 1) replace_all(cleaned, home, "~");
    if (const std::string host = host_name(); host.size() > 2) replace_all(cleaned, host, "HOST");
    // "held by process 4711 (python3 serve.py --api-key …)"
    const size_t holder = cleaned.find("held by process");
    for (size_t at = holder; holder != std::string::npos && (at = cleaned.find('(', at)) != std::string::npos;) {
        const size_t end = std::min(cleaned.find(')', at), cleaned.size() - 1);
        cleaned.erase(at, end - at + 1);
    }
    return cleaned;
}

DoctorReport::DoctorReport(fs::path file, const DoctorOptions& options, const Expectations& expect)
    : file_(std::move(file)), json_(new_report()) {
    std::error_code ignored;
    if (!file_.empty() && fs::exists(file_, ignored)) {
        const auto refuse = [&] {
            return Error(ErrorCode::bad_request, "there is a file that is no report of this program",
                         {{"file", file_.string()}}, "name another file with --report");
        };
        ordered_json old;
        try {
            old = read_json_file(file_);
        } catch (const Error&) {
            throw refuse();
        }
        if (!is_report(old)) throw refuse();
        for (const auto& step : old["steps"]) {
            if (step.is_object()) json_["steps"].push_back(step);
        }
    }
    json_["options"] = {{"small", options.is_small},
                        {"ranks", options.ranks},
                        {"slots", options.slots},
                        {"context", options.contexts},
                        {"chunk", options.chunk_tokens},
                        {"cores", options.cores},
                        {"timeout_seconds", options.timeout_seconds},
                        {"compiler_flags", options.compiler.flags},
                        {"any_compiler", options.compiler.takes_any_compiler}};
    for (const Expectation& known : doctor_expectations()) {
        const double value = expect.of(known.name);
        json_["expectations"][known.name] = {{"value", value}, {"usual", known.value}, {"meaning", known.meaning}};
    }
    clean(json_["options"]);
}

void DoctorReport::take(ordered_json step) {
    clean(step);
    auto& steps = json_["steps"];
    const size_t place = place_of(step);
    ordered_json others = ordered_json::array();
    bool is_in = false;
    for (auto& other : steps) {
        const size_t other_place = place_of(other);
        if (other_place == place) continue;
        if (other_place > place && !std::exchange(is_in, true)) others.push_back(step);
        others.push_back(std::move(other));
    }
    if (!is_in) others.push_back(std::move(step));
    steps = std::move(others);
    write();
}

void DoctorReport::write() const {
    if (file_.empty()) return;
    const fs::path draft = file_.string() + ".new";
    std::error_code problem;
    fs::remove(draft, problem);
    write_durably(draft, dump_json(json_, 1) + "\n");
    fs::rename(draft, file_, problem);
    if (problem) fail_writing(file_, problem.value());
}

std::string step_text(const ordered_json& step) {
    std::string text = members_text(step["seen"], 2);
    for (const auto& remark : step["remarks"]) text += fmt::format("  note: {}\n", value_text(remark));
    const auto verdict = step["verdict"].get<std::string>();
    if (verdict == "skipped") return text + fmt::format("  skipped: {}\n", value_text(step["reason"]));
    if (verdict == "pass") return text + fmt::format("  pass, {:.1f} s\n", step["seconds"].get<double>());
    for (const auto& fault : step["faults"]) text += fmt::format("  FAIL: {}\n", value_text(fault));
    if (step.contains("error")) {
        const auto& error = step["error"];
        for (const auto& [name, value] : error["context"].items()) {
            text += fmt::format("    {}: {}\n", name, value_text(value));
        }
        if (error["remedy"] != "") text += fmt::format("  remedy: {}\n", value_text(error["remedy"]));
    }
    return text +
           fmt::format("  it means: {}\n  change: {}\n", value_text(step["meaning"]), value_text(step["change"]));
}

}  // namespace gemmatrace::cli
