// Runs of origin kept minimal: no empty runs, no two neighbours of one origin.
#include "text/marked_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gemmatrace::text {
namespace {

// Lengthens the last run or begins a new one.
void add_run(std::vector<MarkedText::Run>& runs, Origin origin, size_t length) {
    if (length == 0) return;
    if (!runs.empty() && runs.back().origin == origin) {
        runs.back().length += length;
    } else {
        runs.push_back({origin, length});
    }
}

}  // namespace

MarkedText::MarkedText(std::string text, Origin origin) : text_(std::move(text)) {
    add_run(runs_, origin, text_.size());
}

void MarkedText::append(const MarkedText& other) {
    if (&other == this) return append(MarkedText(other));  // a text may be appended to itself
    text_ += other.text_;
    for (const Run& run : other.runs_) add_run(runs_, run.origin, run.length);
}

void MarkedText::append(std::string_view text, Origin origin) {
    text_.append(text);
    add_run(runs_, origin, text.size());
}

MarkedText MarkedText::slice(size_t begin, size_t length) const {
    require(begin <= text_.size() && length <= text_.size() - begin, "a slice lies within its text");
    MarkedText part;
    part.text_ = text_.substr(begin, length);
    const size_t end = begin + length;
    size_t run_begin = 0;
    for (const Run& run : runs_) {
        const size_t run_end = run_begin + run.length;
        if (run_begin >= end) break;
        const size_t shared_begin = std::max(begin, run_begin);
        const size_t shared_end = std::min(end, run_end);
        if (shared_begin < shared_end) add_run(part.runs_, run.origin, shared_end - shared_begin);
        run_begin = run_end;
    }
    return part;
}

Origin MarkedText::origin_at(size_t at) const {
    require(at < text_.size(), "an origin is asked for a byte of the text");
    size_t run_end = 0;
    for (const Run& run : runs_) {
        run_end += run.length;
        if (at < run_end) return run.origin;
    }
    return Origin::content;
}

}  // namespace gemmatrace::text
