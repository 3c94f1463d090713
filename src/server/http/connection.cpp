// The life of a connection: timers on every wait, limits on every read. Callbacks and no coroutines, which clang 14
// does not compile with this library.
#include "server/http/connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
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
constexpr int kLingerSeconds = 2;
constexpr size_t kLingerBytes = size_t{4} << 20;

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

// Path and query; the absolute form of a target names a host first.
std::string_view without_host(std::string_view target) {
    const size_t scheme = target.find("://");
    if (scheme == std::string_view::npos || target.front() == '/') return target;
    const size_t path = target.find('/', scheme + 3);
    return path == std::string_view::npos ? "/" : target.substr(path);
}

// What pages of other origins need to read an answer or an error.
std::string headers_for_origin(std::string_view origin) {
    if (origin.empty()) return {};
    return "Access-Control-Allow-Origin: *\r\n"
           "Access-Control-Expose-Headers: x-request-id, request-id, retry-after\r\n";
}

// Nobody is there to be answered.
bool is_client_away(const boost::system::error_code& failure) {
    return failure == beast::error::timeout || failure == http::error::end_of_stream ||
           failure == http::error::partial_message || failure.category() == asio::error::get_system_category();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const HttpOptions& options, RequestHandler& handler,
                       asio::thread_pool& workers, ConnectionCount& count)
    : stream_(std::move(socket)),
      silence_(stream_.get_executor()),
      options_(options),
      handler_(handler),
      workers_(workers),
      count_(count) {
    ++count_.open;
    Failure ignored;
    client_ = stream_.socket().remote_endpoint(ignored).address().to_string();
}

Connection::~Connection() { --count_.open; }

void Connection::start() { wait_for_request(); }

template <typename Next>
void Connection::write(std::string bytes, const Next& next) {
    sending_ = std::move(bytes);
    stream_.expires_after(std::chrono::seconds(options_.write_seconds));
    asio::async_write(stream_, asio::buffer(sending_),
                      [self = shared_from_this(), next](const Failure& failure, size_t) {
                          self->stream_.expires_never();
                          next(failure);
                      });
}

// --- a request comes in

void Connection::wait_for_request() {
    if (buffer_.size() > 0) return read_header();
    stream_.expires_after(std::chrono::seconds(options_.idle_seconds));
    stream_.async_read_some(buffer_.prepare(kReadAheadBytes),
                            [self = shared_from_this()](const Failure& failure, size_t count) {
                                if (failure) return self->close();
                                self->buffer_.commit(count);
                                self->read_header();
                            });
}

void Connection::read_header() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options_.max_header_bytes));
    parser_->body_limit(options_.max_body_bytes);
    stream_.expires_after(std::chrono::seconds(options_.header_seconds));
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](const Failure& failure, size_t) { self->on_header(failure); });
}

void Connection::on_header(const Failure& failure) {
    if (failure == http::error::header_limit) return refuse(431, "the headers are too large", "headers_too_large");
    if (failure == http::error::body_limit) {
        return refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes), "body_too_large");
    }
    if (failure) {
        if (is_client_away(failure)) return close();
        return refuse(400, fmt::format("this is not HTTP: {}", failure.message()), "bad_http");
    }
    if (refuse_header()) return;
    const auto& head = parser_->get();
    is_http_1_1_ = head.version() >= 11;
    wants_close_ = !head.keep_alive();
    if (!beast::iequals(head[http::field::expect], "100-continue")) return read_body();
    write("HTTP/1.1 100 Continue\r\n\r\n", [this](const Failure& unsent) {
        if (unsent) return close();
        read_body();
    });
}

// What two servers in a row could read differently, and what is too large by its own account.
bool Connection::refuse_header() {
    const auto& head = parser_->get();
    const size_t encodings = head.count(http::field::transfer_encoding);
    if (head.version() >= 11 && head.count(http::field::host) != 1) {
        refuse(400, "the request has no Host header, or several", "bad_http");
    } else if (head.count(http::field::content_length) > 0 && encodings > 0) {
        refuse(400, "a request has a Content-Length or a Transfer-Encoding, not both", "bad_http");
    } else if (encodings > 0 && !beast::iequals(head[http::field::transfer_encoding], "chunked")) {
        refuse(400, "a Transfer-Encoding other than chunked is not taken", "bad_http");
    } else if (parser_->content_length().value_or(0) > options_.max_body_bytes) {
        refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes), "body_too_large");
    } else {
        return false;
    }
    return true;
}

void Connection::read_body() {
    stream_.expires_after(std::chrono::seconds(options_.body_seconds));
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const Failure& failure, size_t) { self->on_body(failure); });
}

void Connection::on_body(const Failure& failure) {
    if (!failure) return answer(take_request());
    if (failure == http::error::body_limit) {
        refuse(413, fmt::format("the body is larger than {} bytes", options_.max_body_bytes), "body_too_large");
    } else if (failure == beast::error::timeout) {
        close();
    } else if (is_client_away(failure)) {
        close();
    } else {
        refuse(400, fmt::format("the body is broken: {}", failure.message()), "bad_http");
    }
}

HttpRequest Connection::take_request() {
    auto& message = parser_->get();
    HttpRequest request;
    request.method = as_view(message.method_string());
    const std::string_view target = without_host(as_view(message.target()));
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

// --- its answer goes out

void Connection::answer(HttpRequest request) {
    Exchange::Settings settings;
    settings.request_id = request.id;
    settings.is_head = request.method == "HEAD";
    settings.can_chunk = is_http_1_1_;
    settings.keeps_alive = !wants_close_ && !count_.is_closing;
    settings.max_unsent_bytes = options_.max_unsent_bytes;
    settings.more_headers = headers_for_origin(request.header("origin"));
    stream_.expires_never();
    exchange_ = std::make_shared<Exchange>(stream_.get_executor(), std::move(settings), [self = weak_from_this()] {
        if (const auto connection = self.lock()) connection->send_more();
    });
    watch_client();
    wait_in_silence();
    asio::post(workers_, [&handler = handler_, exchange = exchange_, request = std::move(request)]() mutable {
        handler.handle(std::move(request), exchange);
    });
}

// Sends what there is; called whenever something was added and when the last piece was sent.
void Connection::send_more() {
    if (!exchange_ || is_sending_) return;
    const bool is_complete = exchange_->is_complete();
    std::string bytes = exchange_->take();
    if (!bytes.empty()) {
        is_sending_ = true;
        return write(std::move(bytes), [this](const Failure& failure) { on_sent(failure); });
    }
    if (is_complete) finish_answer();
}

void Connection::on_sent(const Failure& failure) {
    is_sending_ = false;
    if (failure) return close();
    send_more();
    if (exchange_) wait_in_silence();
}

// A stream that has nothing to say for a while says so, for clients and proxies that would give up.
void Connection::wait_in_silence() {
    silence_.expires_after(std::chrono::seconds(options_.keep_alive_seconds));
    silence_.async_wait([self = shared_from_this()](const Failure& failure) {
        if (failure || !self->exchange_) return;
        if (self->exchange_->is_event_stream()) {
            self->exchange_->write(": still here\n\n");
        } else {
            self->wait_in_silence();
        }
    });
}

void Connection::finish_answer() {
    const bool goes_on = exchange_->keeps_alive();
    exchange_ = nullptr;
    silence_.cancel();
    if (!goes_on) return close();
    wait_for_request();
}

// While an answer is computed nothing is read, so a client that leaves is noticed here.
void Connection::watch_client() {
    if (is_watching_) return;
    is_watching_ = true;
    stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](const Failure& failure) {
        self->is_watching_ = false;
        if (!failure) self->on_readable();
    });
}

void Connection::on_readable() {
    if (!exchange_) return;                         // the next request is being read already
    if (buffer_.size() >= kReadAheadBytes) return;  // enough of later requests; a write will tell
    Failure failure;
    stream_.socket().non_blocking(true, failure);
    const size_t count = stream_.socket().receive(buffer_.prepare(kReadAheadBytes), 0, failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) {
        watch_client();
    } else if (failure || count == 0) {
        close();
    } else {
        buffer_.commit(count);
        watch_client();
    }
}

// --- the end

// A request that is no request: an answer, and the end of the connection.
void Connection::refuse(int status, std::string_view message, std::string_view code) {
    const Error error(ErrorCode::bad_request, std::string(message),
                      {{"status", std::to_string(status)}, {"code", std::string(code)}});
    const auto& head = parser_->get();  // as far as it was read
    const Dialect dialect = dialect_of(without_host(as_view(head.target())), as_view(head["anthropic-version"]));
    Exchange::Settings settings;
    settings.request_id = random_id("req_");
    settings.keeps_alive = false;
    settings.more_headers = headers_for_origin(as_view(head[http::field::origin]));
    const auto refusal = std::make_shared<Exchange>(stream_.get_executor(), settings, nullptr);
    refusal->send(error_response(error, dialect, settings.request_id));
    write(refusal->take(), [this](const Failure& failure) {
        if (failure) return close();
        Failure ignored;
        stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
        stream_.expires_after(std::chrono::seconds(kLingerSeconds));
        linger();
    });
}

// Reads on for a moment, so that the answer is not lost in a reset by what the client is still sending.
void Connection::linger() {
    stream_.async_read_some(asio::buffer(ignored_), [self = shared_from_this()](const Failure& failure, size_t count) {
        self->ignored_bytes_ += count;
        if (failure || self->ignored_bytes_ > kLingerBytes) return self->close();
        self->linger();
    });
}

void Connection::close() {
    if (exchange_) exchange_->leave();
    exchange_ = nullptr;
    silence_.cancel();
    Failure ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    stream_.close();
}

}  // namespace gemmatrace::server
