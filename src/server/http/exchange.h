// One answer on its way from any thread to its connection.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "server/http_message.h"

namespace gemmatrace::server {

// The connection takes what is ready to be sent; the handler's side only appends and wakes it.
class Exchange : public ResponseWriter, public std::enable_shared_from_this<Exchange> {
  public:
    struct Settings {
        std::string request_id;
        bool is_head = false;     // the body is left out
        bool can_chunk = true;    // HTTP/1.1
        bool keeps_alive = true;  // the connection goes on afterwards
        size_t max_unsent_bytes = 0;
        std::string more_headers;  // CORS and the like, as lines
    };
    // `wake` is called on the connection's thread after something was added.
    Exchange(boost::asio::any_io_executor executor, Settings settings, std::function<void()> wake);

    void send(HttpResponse response) override;
    void start(HttpResponse response) override;
    void write(std::string piece) override;
    void end() override;
    void on_gone(std::function<void()> gone) override;

    // --- the connection's side
    // Bytes to be sent now; empties the queue.
    std::string take();
    bool is_complete() const;      // nothing will be added any more
    bool is_event_stream() const;  // begun and not ended
    bool keeps_alive() const;
    int status() const;
    size_t body_bytes() const;
    // The client is gone or the connection failed: the handler is told.
    void leave();

  private:
    void add(std::string bytes);
    void notify();
    std::string head(const HttpResponse& response, bool is_stream) const;

    boost::asio::any_io_executor executor_;
    Settings settings_;
    std::function<void()> wake_;
    mutable std::mutex mutex_;
    std::string ready_;
    std::function<void()> gone_;
    int status_ = 0;
    size_t body_bytes_ = 0;
    bool is_begun_ = false;
    bool is_stream_ = false;
    bool is_events_ = false;
    bool is_complete_ = false;
    bool is_left_ = false;
    bool is_wake_posted_ = false;
};

}  // namespace gemmatrace::server
