// HTTP/1.1 over TCP: connections, limits and timers on one thread; what to answer is the handler's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http_message.h"

namespace gemmatrace::server {

struct HttpOptions {
    std::string host = "127.0.0.1";
    uint16_t port = 8080;  // 0: any free one
    size_t max_header_bytes = size_t{64} << 10;
    size_t max_body_bytes = size_t{32} << 20;
    size_t max_connections = 4096;
    size_t max_unsent_bytes = size_t{8} << 20;  // of one answer, before a client that does not read counts as gone
    int header_seconds = 15;                    // from a request's first byte to the end of its header
    int body_seconds = 60;                      // for its body
    int idle_seconds = 90;                      // between two requests of a connection
    int write_seconds = 30;                     // for a piece of an answer to be taken
    int keep_alive_seconds = 5;                 // silence in an event stream before a comment is sent
    int workers = 2;                            // threads on which the handler is called
};

class HttpServer {
  public:
    // Binds and listens. Throws Error(resource) when the address cannot be used.
    HttpServer(const HttpOptions& options, RequestHandler& handler);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    uint16_t port() const;
    // Serves until stop(). `on_signal` is called on this thread with SIGINT and SIGTERM, which it takes over; `on_tick`
    // once a second.
    void run(const std::function<void(int)>& on_signal, const std::function<void()>& on_tick);
    // No new connections, and none is kept after its answer.
    void close_door();
    // Ends run() at once; open connections are cut.
    void stop();
    size_t connections() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gemmatrace::server
