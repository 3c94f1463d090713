// Failures of transfers: their errors, and the waits between tries.
#include "hub/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/printable.h"
#include "base/progress.h"

namespace gemmatrace::hub {
namespace {

// Even a server that gives a few bytes each time is given up at last.
constexpr int kMostFailures = 1000;

Error::Context context_of(const Subject& subject, const HttpReply& reply) {
    Error::Context context = {{"repo", subject.repository}};
    if (!subject.revision.empty()) context.emplace_back("revision", subject.revision);
    if (!subject.file.empty()) context.emplace_back("file", subject.file);
    context.emplace_back("endpoint", subject.endpoint);
    if (reply.status != 0) context.emplace_back("status", std::to_string(reply.status));
    return context;
}

std::string page_of(const Subject& subject) { return subject.endpoint + "/" + subject.repository; }

constexpr const char* kHowToGiveToken = "set HF_TOKEN to an access token";

Error not_allowed(const Subject& subject, const HttpReply& reply) {
    const std::string hub_code = reply.header("x-error-code");
    const auto context = context_of(subject, reply);
    if (hub_code == "GatedRepo") {
        return Error(
            ErrorCode::bad_request,
            fmt::format("'{}' is gated: the hub gives it only to those who accepted its licence", subject.repository),
            context,
            fmt::format("accept the licence at {}, then {}", page_of(subject),
                        subject.has_token ? "try again; the token must belong to the same account"
                                          : "set HF_TOKEN to an access token of the same account"));
    }
    if (subject.has_token) {
        return Error(ErrorCode::bad_request,
                     fmt::format("the hub does not accept the access token for '{}'", subject.repository), context,
                     fmt::format("check that the token is valid and may read it, or accept its licence at {}",
                                 page_of(subject)));
    }
    // The hub does not tell strangers whether a private repository exists.
    return Error(
        ErrorCode::not_found,
        fmt::format("the hub shows no '{}' without a token: it is private, gated, or not there", subject.repository),
        context, fmt::format("check the name at {}; if it is right, {}", page_of(subject), kHowToGiveToken));
}

Error not_there(const Subject& subject, const HttpReply& reply) {
    const std::string hub_code = reply.header("x-error-code");
    const auto context = context_of(subject, reply);
    if (hub_code == "RevisionNotFound") {
        return Error(ErrorCode::not_found,
                     fmt::format("'{}' has no revision '{}'", subject.repository, subject.revision), context,
                     fmt::format("see its branches and tags at {}", page_of(subject)));
    }
    if (!subject.file.empty() && hub_code != "RepoNotFound") {
        return Error(ErrorCode::not_found,
                     fmt::format("the hub lists {} in '{}' but does not have it", subject.file, subject.repository),
                     context, "try again later; the repository may just be changing");
    }
    return Error(
        ErrorCode::not_found, fmt::format("there is no repository '{}'", subject.repository), context,
        fmt::format("check the name at {}; a private one needs a token: {}", page_of(subject), kHowToGiveToken));
}

// Large files lie on another host, which the hub opens by a signed address for a short time; it knows no repositories.
bool is_refused_by_storage(const TransferResult& result) {
    return result.is_from_other_host && result.reply.status >= 400 && result.reply.status < 500 &&
           result.reply.status != 416 && result.reply.status != 429;
}

std::optional<Error> status_error(const TransferResult& result, const Subject& subject) {
    const HttpReply& reply = result.reply;
    const int status = reply.status;
    if (status == 200 || status == 206 || status == 416) return std::nullopt;
    if (is_refused_by_storage(result)) {
        return Error(ErrorCode::not_ready,
                     fmt::format("the hub's storage refuses {} with status {}", subject.file, status),
                     context_of(subject, reply), "try again later; what was fetched is kept");
    }
    if (status == 401 || status == 403) return not_allowed(subject, reply);
    if (status == 404 || status == 410) return not_there(subject, reply);
    const auto context = context_of(subject, reply);
    if (status == 429) {
        return Error(ErrorCode::overloaded, "the hub has had too many requests from here", context,
                     subject.has_token ? "try again in some minutes"
                                       : "try again in some minutes; with a token (HF_TOKEN) more are allowed");
    }
    if (status == 408 || status == 504) {
        return Error(ErrorCode::timeout, "the hub took too long to answer", context,
                     "try again; what was fetched is kept");
    }
    if (status >= 500) {
        return Error(ErrorCode::not_ready, fmt::format("the hub failed with status {}", status), context,
                     "try again later; what was fetched is kept");
    }
    return Error(ErrorCode::corrupt, fmt::format("the hub answered with status {}", status), context,
                 "check that the endpoint is a hub of Hugging Face's kind");
}

}  // namespace

std::optional<Error> transfer_error(const TransferResult& result, const Subject& subject) {
    const std::string& detail = result.detail;
    auto context = context_of(subject, result.reply);
    if (!detail.empty()) context.emplace_back("detail", printable(detail));
    switch (result.end) {
        case TransferEnd::complete:
        case TransferEnd::enough:
            return status_error(result, subject);
        case TransferEnd::dropped:
            return Error(ErrorCode::not_ready, "the connection to the hub was lost", context,
                         "try again; what was fetched is kept");
        case TransferEnd::stalled:
            return Error(ErrorCode::timeout, "the hub sent nothing for too long", context,
                         "try again; HF_HUB_DOWNLOAD_TIMEOUT sets how many seconds are waited");
        case TransferEnd::unreachable:
            return Error(ErrorCode::not_ready, fmt::format("the hub cannot be reached at {}", subject.endpoint),
                         context, "check the network, the proxy (https_proxy) and the endpoint (HF_ENDPOINT)");
        case TransferEnd::refused:
            return Error(
                ErrorCode::not_ready, "the hub's answer cannot be trusted", context,
                "check the endpoint and the system's certificates (package ca-certificates, or SSL_CERT_FILE)");
    }
    return std::nullopt;
}

bool may_pass(const TransferResult& result) {
    const int status = result.reply.status;
    switch (result.end) {
        case TransferEnd::complete:
        case TransferEnd::enough:
            return status == 408 || status == 429 || status >= 500 || is_refused_by_storage(result);
        case TransferEnd::dropped:
        case TransferEnd::stalled:
        case TransferEnd::unreachable:
            return true;
        case TransferEnd::refused:
            return false;
    }
    return false;
}

std::optional<double> asked_wait_s(const HttpReply& reply, double now) {
    const std::string text = reply.header("retry-after");
    uint32_t seconds = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (fault == std::errc{} && end == text.data() + text.size()) return seconds;
    std::tm date{};
    const char* rest = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (rest == nullptr || *rest != '\0') return std::nullopt;
    const auto at = static_cast<double>(::timegm(&date));
    return std::max(0.0, at - now);
}

void Patience::wait_or_throw(const TransferResult& result) {
    ++failures_;
    ++all_failures_;
    auto error = transfer_error(result, subject_);
    require(error.has_value(), "only failures are waited for");
    double wait = std::min(policy_.longest_wait_s, policy_.first_wait_s * std::pow(2.0, failures_ - 1));
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const auto asked = asked_wait_s(result.reply, now);
    if (asked) {
        error->add_context("retry_after", format_duration(*asked));
        wait = std::max(wait, *asked);
    }
    const bool is_used_up = failures_ > policy_.tries_more || all_failures_ > kMostFailures;
    if (!may_pass(result) || is_used_up || (asked && *asked > policy_.longest_asked_s)) throw std::move(*error);
    if (policy_.note) {
        policy_.note(fmt::format("{}{}: {}; trying again in {}", subject_.repository,
                                 subject_.file.empty() ? "" : "/" + subject_.file, error->message(),
                                 format_duration(wait)));
    }
    policy_.sleep(wait);
}

}  // namespace gemmatrace::hub
