// Requests and responses as the routes see them; what carries them is the business of server/http.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemmatrace::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
    std::string id;      // ours, unique: x-request-id
    std::string method;  // upper case
    std::string path;    // percent-decoded, without the query
    std::string query;
    Headers headers;  // names in lower case
    std::string body;
    std::string client;  // address, for the log

    // Empty when there is none.
    std::string_view header(std::string_view lower_case_name) const;
};

struct HttpResponse {
    int status = 200;
    std::string content_type = "application/json";
    Headers headers;  // beside content type, length, date and the request id
    std::string body;
};

// The answer to one request; may be used from any thread, and after the client left, when it does nothing. One of
// send() and start() is called, once; after start() comes end().
class ResponseWriter {
  public:
    virtual ~ResponseWriter() = default;
    virtual void send(HttpResponse response) = 0;
    // Begins a stream: status and headers now, `response.body` as the first piece.
    virtual void start(HttpResponse response) = 0;
    virtual void write(std::string piece) = 0;
    virtual void end() = 0;
    // Called once, on any thread, if the client leaves before the end, or at once if it has left. Replaces an earlier
    // one.
    virtual void on_gone(std::function<void()> gone) = 0;
};

// Takes requests off the connection's thread.
class RequestHandler {
  public:
    virtual ~RequestHandler() = default;
    // Must not throw. The writer is answered now or later.
    virtual void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) = 0;
};

inline std::string_view HttpRequest::header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers) {
        if (name == lower_case_name) return value;
    }
    return {};
}

}  // namespace gemmatrace::server
