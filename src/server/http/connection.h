// One client's connection.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"
#include "server/http/server.h"

namespace gemmatrace::server {

struct ConnectionCount {
    std::atomic<size_t> open = 0;
    std::atomic<bool> is_closing = false;  // no connection is kept after its answer
};

// Waits for a request, reads it, has it answered, sends the answer, and again. Each step is a function that starts an
// operation and names the function that goes on; whatever is under way keeps the connection alive. Everything runs on
// the server's one thread.
class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(boost::asio::ip::tcp::socket socket, const HttpOptions& options, RequestHandler& handler,
               boost::asio::thread_pool& workers, ConnectionCount& count);
    ~Connection();

    // Serves requests until the client leaves, a limit is met or the server closes.
    void start();

  private:
    using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
    using Failure = boost::system::error_code;

    // --- a request comes in
    void wait_for_request();
    void read_header();
    void on_header(const Failure& failure);
    bool refuse_header();
    void read_body();
    void on_body(const Failure& failure);
    HttpRequest take_request();

    // --- its answer goes out
    void answer(HttpRequest request);
    void send_more();
    void on_sent(const Failure& failure);
    void wait_in_silence();
    void finish_answer();
    void watch_client();
    void on_readable();

    // --- the end
    void refuse(int status, std::string_view message, std::string_view code);
    void linger();
    void close();

    // Writes `sending_` and calls `next` with the result.
    template <typename Next>
    void write(std::string bytes, const Next& next);

    boost::beast::tcp_stream stream_;
    boost::beast::flat_buffer buffer_;
    boost::asio::steady_timer silence_;
    const HttpOptions& options_;
    RequestHandler& handler_;
    boost::asio::thread_pool& workers_;
    ConnectionCount& count_;
    std::string client_;
    std::optional<Parser> parser_;
    std::string sending_;
    std::array<char, 16384> ignored_;
    size_t ignored_bytes_ = 0;
    std::shared_ptr<Exchange> exchange_;  // the answer that is being waited for
    bool is_http_1_1_ = true;
    bool wants_close_ = false;
    bool is_watching_ = false;
    bool is_sending_ = false;
};

}  // namespace gemmatrace::server
