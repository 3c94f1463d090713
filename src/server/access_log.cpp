// The lines of the access log.
#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace gemmatrace::server {
namespace {

double rounded(double seconds) { return static_cast<double>(static_cast<int64_t>(seconds * 1e4)) / 1e4; }

}  // namespace

AccessLog::AccessLog(const std::string& file) {
    if (file == "off") return;
    if (file.empty() || file == "-") {
        file_ = stderr;
        return;
    }
    file_ = std::fopen(file.c_str(), "ae");
    is_owned_ = true;
    if (file_ != nullptr) return;
    throw Error(ErrorCode::resource, fmt::format("cannot write the log: {}", std::strerror(errno)), {{"file", file}},
                "give a file in a directory that may be written to");
}

AccessLog::~AccessLog() {
    if (is_owned_ && file_ != nullptr) std::fclose(file_);
}

void AccessLog::write(const LogEntry& entry) {
    if (file_ == nullptr) return;
    nlohmann::ordered_json line;
    line["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    line["request_id"] = entry.request_id;
    line["client"] = entry.client;
    line["method"] = entry.method;
    line["path"] = entry.path;
    line["status"] = entry.status;
    line["seconds"] = rounded(entry.seconds);
    if (entry.has_outcome) {
        const RequestOutcome& outcome = entry.outcome;
        line["finish_reason"] = outcome.finish_reason;
        if (!outcome.error.empty()) line["error"] = outcome.error;
        line["prompt_tokens"] = outcome.prompt_tokens;
        line["cached_tokens"] = outcome.cached_tokens;
        line["completion_tokens"] = outcome.completion_tokens;
        line["queue_seconds"] = rounded(outcome.queue_seconds);
        line["prefill_seconds"] = rounded(outcome.prefill_seconds);
        line["decode_seconds"] = rounded(outcome.decode_seconds);
    }
    const std::string text = dump_json(line) + "\n";
    const std::lock_guard lock(mutex_);
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
        std::clearerr(file_);
    }
}

}  // namespace gemmatrace::server
