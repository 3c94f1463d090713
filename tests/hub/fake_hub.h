// A hub made of answers: what stands in for curl in these tests.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hub/content_hash.h"
#include "hub/manifest.h"
#include "hub/transport.h"

namespace gemmatrace::testing {

inline constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

struct FakeAnswer {
    int status = 200;
    std::map<std::string, std::string, std::less<>> headers = {};
    std::string body = {};
    hub::TransferEnd end = hub::TransferEnd::complete;  // how it ends after the body
};

using FakeServer = std::function<FakeAnswer(const hub::HttpRequest&)>;

// Hands each request to a server and notes it.
class FakeTransport final : public hub::Transport {
  public:
    FakeTransport(FakeServer server, std::vector<hub::HttpRequest>* log) : server_(std::move(server)), log_(log) {}

    hub::TransferResult transfer(const hub::HttpRequest& request, hub::ReplySink& sink) override {
        if (log_ != nullptr) log_->push_back(request);
        const FakeAnswer answer = server_(request);
        hub::TransferResult result;
        result.reply = {answer.status, answer.headers};
        result.end = answer.end;
        if (answer.status == 0) return result;
        sink.begin(result.reply);
        constexpr size_t kChunk = 7;  // no size of ours, so that borders fall anywhere
        for (size_t at = 0; at < answer.body.size() && !request.is_head; at += kChunk) {
            if (sink.take(std::string_view(answer.body).substr(at, kChunk))) continue;
            result.end = hub::TransferEnd::enough;
            break;
        }
        return result;
    }

  private:
    FakeServer server_;
    std::vector<hub::HttpRequest>* log_;
};

inline std::string hash_of(std::string_view content, hub::HashKind kind) {
    hub::ContentHash hash(kind, content.size());
    hash.update(content);
    return hash.finish();
}

inline hub::RemoteFile large_file(std::string name, std::string_view content) {
    return {std::move(name), content.size(), hash_of(content, hub::HashKind::sha256)};
}

// The rest of the content from the byte that was asked for, as an honest server sends it.
inline FakeAnswer honest_answer(const hub::HttpRequest& request, const std::string& content) {
    if (request.first_byte == 0) return {200, {{"content-length", std::to_string(content.size())}}, content};
    const std::string range = "bytes " + std::to_string(request.first_byte) + "-" + std::to_string(content.size() - 1) +
                              "/" + std::to_string(content.size());
    return {206, {{"content-range", range}}, content.substr(request.first_byte)};
}

}  // namespace gemmatrace::testing
