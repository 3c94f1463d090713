// The life of a connection: timers on every wait, limits on every read. Awaiting stands in statements of its own: gcc
// 12 compiles it wrongly inside a condition with operands.
#include "server/http/connection.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "server/api_error.h"
#include "server/generation_options.h"

namespace gemmatrace::server {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

// Bytes of later requests that are read ahead while an answer is computed.
constexpr size_t kReadAheadBytes = size_t{64} << 10;

int hex_digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

std::string percent_decoded(std::string_view text) {
    std::string decoded;
    for (size_t at = 0; at < text.size(); ++at) {
        const int high = text[at] == '%' && at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
        const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
        if (low >= 0) {
            decoded += static_cast<char>(high * 16 + low);
            at += 2;
        } else {
            decoded += text[at];
        }
    }
    return decoded;
}

std::string lower_case(std::string_view text) {
    std::string lowered(text);
    for (char& letter : lowered) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return lowered;
}

std::string_view as_view(beast::string_view text) { return {text.data(), text.size()}; }

// Nobody is there to be answered.
bool is_client_away(const boost::system::error_code& failure) {
    return failure == beast::error::timeout || failure == http::error::end_of_stream ||
           failure == http::error::partial_message || failure.category() == asio::error::get_system_category();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const HttpOptions& options, RequestHandler& handler,
                       asio::thread_pool& workers, ConnectionCount& count)
    : stream_(std::move(socket)),
      wake_(stream_.get_executor()),
      options_(options),
      handler_(handler),
      workers_(workers),
      count_(count) {
    ++count_.open;
    boost::system::error_code ignored;
    client_ = stream_.socket().remote_endpoint(ignored).address().to_string();
}

Connection::~Connection() { --count_.open; }

asio::awaitable<void> Connection::run() {
    try {
        while (true) {
            auto request = co_await read_request();
            if (!request) break;
            const bool goes_on = co_await answer(std::move(*request));
            if (!goes_on) break;
        }
    } catch (const std::exception&) {
        // a broken connection; what it asked for is cancelled below
    }
    if (exchange_) exchange_->leave();
    exchange_ = nullptr;
    boost::system::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    stream_.close();
}

// Nothing when the connection is to be closed; a fault of the client's has been answered then.
asio::awaitable<std::optional<HttpRequest>> Connection::read_request() {
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
    parser.body_limit(options_.max_body_bytes);
    boost::system::error_code failure;
    if (buffer_.size() == 0) {
        stream_.expires_after(std::chrono::seconds(options_.idle_seconds));
        const size_t count = co_await stream_.async_read_some(buffer_.prepare(kReadAheadBytes),
                                                              asio::redirect_error(asio::use_awaitable, failure));
        if (failure) co_return std::nullopt;
        buffer_.commit(count);
    }
    stream_.expires_after(std::chrono::seconds(options_.header_seconds));
    co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, failure));
    if (failure == http::error::header_limit) {
        co_await refuse(431, "the headers are too large", "headers_too_large");
        co_return std::nullopt;
    }
    if (failure == http::error::body_limit) {
        co_await refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes),
                        "body_too_large");
        co_return std::nullopt;
    }
    if (failure) {
        if (!is_client_away(failure)) {
            co_await refuse(400, fmt::format("this is not HTTP: {}", failure.message()), "bad_http");
        }
        co_return std::nullopt;
    }
    const auto& head = parser.get();
    is_http_1_1_ = head.version() >= 11;
    wants_close_ = !head.keep_alive();
    if (is_http_1_1_ && head.count(http::field::host) != 1) {
        co_await refuse(400, "the request has no Host header, or several", "bad_http");
        co_return std::nullopt;
    }
    if (head.count(http::field::content_length) > 0 && head.count(http::field::transfer_encoding) > 0) {
        co_await refuse(400, "a request has a Content-Length or a Transfer-Encoding, not both", "bad_http");
        co_return std::nullopt;
    }
    if (head.count(http::field::transfer_encoding) > 0 &&
        !beast::iequals(head[http::field::transfer_encoding], "chunked")) {
        co_await refuse(400, "a Transfer-Encoding other than chunked is not taken", "bad_http");
        co_return std::nullopt;
    }
    if (const auto length = parser.content_length(); length && *length > options_.max_body_bytes) {
        co_await refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes),
                        "body_too_large");
        co_return std::nullopt;
    }
    if (beast::iequals(head[http::field::expect], "100-continue")) {
        const bool is_sent = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
        if (!is_sent) co_return std::nullopt;
    }
    stream_.expires_after(std::chrono::seconds(options_.body_seconds));
    co_await http::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, failure));
    if (failure == http::error::body_limit) {
        co_await refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes),
                        "body_too_large");
        co_return std::nullopt;
    }
    if (failure == beast::error::timeout) {
        co_await refuse(408, "the body did not come in time", "request_timeout");
        co_return std::nullopt;
    }
    if (failure) {
        if (!is_client_away(failure))
            co_await refuse(400, fmt::format("the body is broken: {}", failure.message()), "bad_http");
        co_return std::nullopt;
    }
    co_return to_request(parser);
}

HttpRequest Connection::to_request(Parser& parser) const {
    auto& message = parser.get();
    HttpRequest request;
    request.method = as_view(message.method_string());
    std::string_view target = as_view(message.target());
    // An absolute form names a host first.
    if (const size_t scheme = target.find("://"); scheme != std::string_view::npos && target.front() != '/') {
        const size_t path = target.find('/', scheme + 3);
        target = path == std::string_view::npos ? "/" : target.substr(path);
    }
    const size_t question = target.find('?');
    request.path = percent_decoded(target.substr(0, question));
    if (question != std::string_view::npos) request.query = target.substr(question + 1);
    for (const auto& field : message.base()) {
        request.headers.emplace_back(lower_case(as_view(field.name_string())), std::string(as_view(field.value())));
    }
    request.body = std::move(message.body());
    request.client = client_;
    request.id = random_id("req_");
    return request;
}

// Whether the connection goes on.
asio::awaitable<bool> Connection::answer(HttpRequest request) {
    Exchange::Settings settings;
    settings.request_id = request.id;
    settings.is_head = request.method == "HEAD";
    settings.can_chunk = is_http_1_1_;
    settings.keeps_alive = !wants_close_ && !count_.is_closing;
    settings.max_unsent_bytes = options_.max_unsent_bytes;
    if (!request.header("origin").empty()) {
        settings.more_headers =
            "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: x-request-id, retry-after\r\n";
    }
    auto exchange = std::make_shared<Exchange>(stream_.get_executor(), std::move(settings), [self = weak_from_this()] {
        if (const auto connection = self.lock()) connection->wake_.cancel();
    });
    exchange_ = exchange;
    watch_client();
    asio::post(workers_, [&handler = handler_, exchange, request = std::move(request)]() mutable {
        handler.handle(std::move(request), exchange);
    });
    const bool is_sent = co_await send_answer(*exchange);
    exchange_ = nullptr;
    if (!is_sent) exchange->leave();
    co_return is_sent && exchange->keeps_alive() && !is_client_gone_;
}

// Sends what comes until the answer is complete; false when the client is gone.
asio::awaitable<bool> Connection::send_answer(Exchange& exchange) {
    while (true) {
        if (is_client_gone_) co_return false;
        const bool is_complete = exchange.is_complete();
        const std::string bytes = exchange.take();
        if (!bytes.empty()) {
            const bool is_sent = co_await write(bytes);
            if (!is_sent) co_return false;
        }
        if (is_complete) co_return exchange.keeps_alive() || exchange.status() != 0;
        if (!bytes.empty()) continue;
        boost::system::error_code woken;
        wake_.expires_after(std::chrono::seconds(options_.keep_alive_seconds));
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
        if (!woken && exchange.is_event_stream()) exchange.write(": still here\n\n");
    }
}

asio::awaitable<bool> Connection::write(const std::string& bytes) {
    boost::system::error_code failure;
    stream_.expires_after(std::chrono::seconds(options_.write_seconds));
    co_await asio::async_write(stream_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, failure));
    stream_.expires_never();
    co_return !failure;
}

// A request that is no request: an answer, and the end of the connection.
asio::awaitable<void> Connection::refuse(int status, std::string_view message, std::string_view code) {
    const Error error(ErrorCode::bad_request, std::string(message),
                      {{"status", std::to_string(status)}, {"code", std::string(code)}});
    Exchange::Settings settings;
    settings.request_id = random_id("req_");
    settings.keeps_alive = false;
    auto exchange = std::make_shared<Exchange>(stream_.get_executor(), settings, nullptr);
    exchange->send(error_response(error, Dialect::openai, settings.request_id));
    const std::string bytes = exchange->take();
    const bool is_sent = co_await write(bytes);
    if (is_sent) co_await linger();
}

// Reads on for a moment, so that the answer is not lost in a reset by what the client is still sending.
asio::awaitable<void> Connection::linger() {
    boost::system::error_code failure;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failure);
    std::array<char, 16384> ignored;
    size_t total = 0;
    stream_.expires_after(std::chrono::seconds(2));
    while (!failure && total < (size_t{4} << 20)) {
        total +=
            co_await stream_.async_read_some(asio::buffer(ignored), asio::redirect_error(asio::use_awaitable, failure));
    }
}

// While an answer is computed nothing is read, so a client that leaves is noticed here.
void Connection::watch_client() {
    if (is_watching_) return;
    is_watching_ = true;
    stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                                [self = shared_from_this()](const boost::system::error_code& failure) {
                                    self->is_watching_ = false;
                                    if (!failure) self->on_readable();
                                });
}

void Connection::on_readable() {
    if (!exchange_) return;  // the next request is being read already
    boost::system::error_code failure;
    if (buffer_.size() >= kReadAheadBytes) return;  // enough of later requests; a write will tell
    stream_.socket().non_blocking(true, failure);
    const size_t count = stream_.socket().receive(buffer_.prepare(kReadAheadBytes), 0, failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) {
        watch_client();
    } else if (failure || count == 0) {
        is_client_gone_ = true;
        exchange_->leave();
        wake_.cancel();
    } else {
        buffer_.commit(count);
        watch_client();
    }
}

}  // namespace gemmatrace::server
