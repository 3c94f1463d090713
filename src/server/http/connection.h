// One client's connection.
#pragma once

#include <utility>

#include <atomic>
#include <boost/asio/awaitable.hpp>
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

#include "server/http/exchange.h"
#include "server/http/server.h"

namespace gemmatrace::server {

struct ConnectionCount {
    std::atomic<size_t> open = 0;
    std::atomic<bool> is_closing = false;  // no connection is kept after its answer
};

// Lives as long as its coroutine or a wait of the socket needs it.
class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(boost::asio::ip::tcp::socket socket, const HttpOptions& options, RequestHandler& handler,
               boost::asio::thread_pool& workers, ConnectionCount& count);
    ~Connection();

    // Serves requests until the client leaves, a limit is met or the server closes.
    boost::asio::awaitable<void> run();

  private:
    using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

    boost::asio::awaitable<std::optional<HttpRequest>> read_request();
    boost::asio::awaitable<bool> answer(HttpRequest request);
    boost::asio::awaitable<bool> send_answer(Exchange& exchange);
    boost::asio::awaitable<bool> write(const std::string& bytes);
    boost::asio::awaitable<void> refuse(int status, std::string_view message, std::string_view code);
    boost::asio::awaitable<void> linger();
    HttpRequest to_request(Parser& parser) const;
    void watch_client();
    void on_readable();

    boost::beast::tcp_stream stream_;
    boost::beast::flat_buffer buffer_;
    boost::asio::steady_timer wake_;
    const HttpOptions& options_;
    RequestHandler& handler_;
    boost::asio::thread_pool& workers_;
    ConnectionCount& count_;
    std::string client_;
    std::shared_ptr<Exchange> exchange_;  // the answer that is being waited for
    bool is_http_1_1_ = true;
    bool wants_close_ = false;
    bool is_watching_ = false;
    bool is_client_gone_ = false;
};

}  // namespace gemmatrace::server
