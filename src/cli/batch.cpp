// Lines in, lines out.
#include "cli/batch.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

// Output is written in blocks of about this size: one write a line would dominate a batch of short texts.
constexpr size_t kBlockBytes = size_t{64} << 10;

nlohmann::ordered_json answer(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& body,
                              const std::string& line) {
    try {
        return body(parse_json(line, "the line", ErrorCode::bad_request));
    } catch (const Error& error) {  // a line is a request of its own
        if (error.code() == ErrorCode::internal) throw;
        return {{"error", {{"code", error_code_name(error.code())}, {"message", error.message()}}}};
    }
}

}  // namespace

void run_batch(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& body) {
    LineReader reader;
    std::string line;
    std::string block;
    while (true) {
        const LineReader::Status status = reader.next(line);
        if (status == LineReader::Status::interrupted) throw_if_interrupted();
        const bool is_end = status == LineReader::Status::end;
        if (!is_end) block += dump_json(answer(body, line)) + "\n";
        if ((is_end || block.size() >= kBlockBytes) && !write_out(block)) return;
        if (is_end) return;
        if (block.size() >= kBlockBytes) block.clear();
    }
}

}  // namespace gemmatrace::cli
