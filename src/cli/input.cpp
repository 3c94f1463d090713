// Reading standard input and lists of ids.
#include "cli/input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kMaxInputBytes = size_t{1} << 30;
constexpr std::string_view kSeparators = " \t\r\n,";

// Appends what one read gives; false at the end of the input. An interrupted read appends nothing and answers true.
bool read_more(std::string& text) {
    wait_for_input(STDIN_FILENO);
    if (is_interrupted()) return true;
    const size_t old_size = text.size();
    text.resize(old_size + kReadBytes);
    const ssize_t count = ::read(STDIN_FILENO, text.data() + old_size, kReadBytes);
    const int failure = errno;
    text.resize(old_size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && failure != EINTR) {
        throw Error(ErrorCode::resource, std::string("cannot read standard input: ") + std::strerror(failure));
    }
    return count != 0;
}

[[noreturn]] void refuse_id(std::string_view entry, const std::string& what) {
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is not a token id", entry), {{"in", what}},
                "give ids as whole numbers, e.g. 2,105,4368 or [2, 105, 4368]");
}

std::vector<int32_t> parse_json_ids(std::string_view text, const std::string& what) {
    nlohmann::ordered_json document = parse_json(text, what, ErrorCode::bad_request);
    if (document.is_object()) {
        if (!document.contains("ids")) {
            throw Error(ErrorCode::bad_request, "the object has no member 'ids'", {{"in", what}, {"field", "ids"}},
                        "give {\"ids\": [2, 105]}");
        }
        document = nlohmann::ordered_json(document["ids"]);
    }
    if (!document.is_array()) {
        throw Error(ErrorCode::bad_request, "token ids must be a list of numbers", {{"in", what}, {"field", "ids"}});
    }
    std::vector<int32_t> ids;
    ids.reserve(document.size());
    for (const auto& entry : document) {
        if (!entry.is_number_integer()) refuse_id(dump_json(entry), what);
        const auto id = entry.get<int64_t>();
        if (id < 0 || id > INT32_MAX) refuse_id(dump_json(entry), what);
        ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

}  // namespace

std::string read_standard_input(const std::string& how_to) {
    if (is_terminal_in()) {
        throw Error(ErrorCode::bad_request, "nothing to read: standard input is a terminal", {}, how_to);
    }
    std::string text;
    while (read_more(text)) {
        throw_if_interrupted();
        if (text.size() > kMaxInputBytes) {
            throw Error(ErrorCode::resource, "standard input is larger than 1 GiB", {}, "give it in smaller parts");
        }
    }
    return text;
}

LineReader::Status LineReader::next(std::string& line) {
    size_t searched = start_;
    while (true) {
        const size_t end = buffer_.find('\n', searched);
        if (end != std::string::npos) {
            line.assign(buffer_, start_, end - start_);
            start_ = end + 1;
            return Status::line;
        }
        if (has_ended_) {
            if (start_ == buffer_.size()) return Status::end;
            line.assign(buffer_, start_);
            start_ = buffer_.size();
            return Status::line;
        }
        buffer_.erase(0, start_);
        start_ = 0;
        searched = buffer_.size();
        has_ended_ = !read_more(buffer_);
        if (is_interrupted()) {
            buffer_.clear();
            return Status::interrupted;
        }
        if (buffer_.size() > kMaxInputBytes) throw Error(ErrorCode::resource, "a line of input is larger than 1 GiB");
    }
}

std::vector<int32_t> parse_ids(std::string_view text, const std::string& what) {
    const size_t first = text.find_first_not_of(kSeparators);
    if (first == std::string_view::npos) return {};
    if (text[first] == '[' || text[first] == '{') return parse_json_ids(text.substr(first), what);
    std::vector<int32_t> ids;
    size_t begin = first;
    while (begin != std::string_view::npos) {
        const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
        const std::string_view entry = text.substr(begin, end - begin);
        int32_t id = 0;
        const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), id);
        if (parsed.ec != std::errc{} || parsed.ptr != entry.data() + entry.size() || id < 0) {
            refuse_id(entry.substr(0, 40), what);
        }
        ids.push_back(id);
        begin = text.find_first_not_of(kSeparators, end);
    }
    return ids;
}

}  // namespace gemmatrace::cli
