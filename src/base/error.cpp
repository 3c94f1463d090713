// Names and exit codes of the error family, and the one line an error prints.
#include "base/error.h"

#include <fmt/format.h>

namespace gemmatrace {

std::string_view error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::bad_request:
            return "bad_request";
        case ErrorCode::too_long:
            return "too_long";
        case ErrorCode::not_found:
            return "not_found";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::mismatch:
            return "mismatch";
        case ErrorCode::corrupt:
            return "corrupt";
        case ErrorCode::overloaded:
            return "overloaded";
        case ErrorCode::not_ready:
            return "not_ready";
        case ErrorCode::resource:
            return "resource";
        case ErrorCode::device:
            return "device";
        case ErrorCode::timeout:
            return "timeout";
        case ErrorCode::interrupted:
            return "interrupted";
        case ErrorCode::internal:
            return "internal";
    }
    return "internal";
}

int exit_status(ErrorCode code) {
    switch (code) {
        case ErrorCode::bad_request:
        case ErrorCode::too_long:
            return 2;
        case ErrorCode::not_found:
            return 3;
        case ErrorCode::unsupported:
            return 4;
        case ErrorCode::mismatch:
        case ErrorCode::corrupt:
            return 5;
        case ErrorCode::overloaded:
        case ErrorCode::not_ready:
            return 6;
        case ErrorCode::resource:
            return 7;
        case ErrorCode::device:
            return 8;
        case ErrorCode::timeout:
            return 9;
        case ErrorCode::interrupted:
            return 130;
        case ErrorCode::internal:
            return 70;
    }
    return 70;
}

Error::Error(ErrorCode code, std::string message, Context context, std::string remedy)
    : code_(code), message_(std::move(message)), context_(std::move(context)), remedy_(std::move(remedy)) {
    build_text();
}

Error& Error::add_context(std::string key, std::string value) {
    for (const auto& entry : context_) {
        if (entry.first == key) return *this;
    }
    context_.emplace_back(std::move(key), std::move(value));
    build_text();
    return *this;
}

void Error::build_text() {
    text_ = fmt::format("{}: {}", error_code_name(code_), message_);
    if (!context_.empty()) {
        text_ += " [";
        for (size_t entry = 0; entry < context_.size(); ++entry) {
            text_ += fmt::format("{}{}={}", entry == 0 ? "" : ", ", context_[entry].first, context_[entry].second);
        }
        text_ += "]";
    }
    if (!remedy_.empty()) text_ += " Remedy: " + remedy_;
}

void require(bool condition, std::string_view assumption, const char* file, int line) {
    if (condition) return;
    throw Error(ErrorCode::internal, fmt::format("an assumption of the program does not hold: {}", assumption),
                {{"at", fmt::format("{}:{}", file, line)}}, "please report this with the command that led to it");
}

}  // namespace gemmatrace
