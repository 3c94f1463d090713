// The listening socket, signals and the second's tick.
#include "server/http/server.h"

#include <fmt/format.h>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/error.h"
#include "server/generation_options.h"
#include "server/http/connection.h"

namespace gemmatrace::server {
namespace asio = boost::asio;
using tcp = asio::ip::tcp;

struct HttpServer::State {
    State(const HttpOptions& asked, RequestHandler& takes_requests)
        : options(asked),
          handler(takes_requests),
          acceptor(context),
          signals(context),
          tick(context),
          pause(context),
          workers(static_cast<size_t>(std::max(asked.workers, 1))) {}

    void listen();
    void accept_next();
    void tick_on(const std::function<void()>& on_tick);
    void wait_for_signals(const std::function<void(int)>& on_signal);

    HttpOptions options;
    RequestHandler& handler;
    asio::io_context context{1};
    tcp::acceptor acceptor;
    asio::signal_set signals;
    asio::steady_timer tick;
    asio::steady_timer pause;
    asio::thread_pool workers;
    ConnectionCount connections;
};

void HttpServer::State::listen() {
    boost::system::error_code failure;
    const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, failure);
    const tcp::endpoint endpoint(address, options.port);
    if (!failure) acceptor.open(endpoint.protocol(), failure);
    if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
    if (!failure) acceptor.bind(endpoint, failure);
    if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
    if (!failure) return;
    throw Error(ErrorCode::resource,
                fmt::format("cannot listen on {} port {}: {}", options.host, options.port, failure.message()),
                {{"field", "--port"}}, "choose another --port or --host (an IP address)");
}

void HttpServer::State::accept_next() {
    acceptor.async_accept([this](const boost::system::error_code& failure, tcp::socket socket) {
        if (failure == asio::error::operation_aborted || !acceptor.is_open()) return;
        if (failure) {  // out of file handles, most likely: wait for some to be closed
            pause.expires_after(std::chrono::milliseconds(50));
            pause.async_wait([this](const boost::system::error_code& stopped) {
                if (!stopped) accept_next();
            });
            return;
        }
        if (connections.open < options.max_connections) {  // otherwise it is closed here
            boost::system::error_code ignored;
            socket.set_option(tcp::no_delay(true), ignored);
            std::make_shared<Connection>(std::move(socket), options, handler, workers, connections)->start();
        }
        accept_next();
    });
}

void HttpServer::State::tick_on(const std::function<void()>& on_tick) {
    tick.expires_after(std::chrono::seconds(1));
    tick.async_wait([this, on_tick](const boost::system::error_code& failure) {
        if (failure) return;
        on_tick();
        tick_on(on_tick);
    });
}

void HttpServer::State::wait_for_signals(const std::function<void(int)>& on_signal) {
    signals.async_wait([this, on_signal](const boost::system::error_code& failure, int signal) {
        if (failure) return;
        on_signal(signal);
        wait_for_signals(on_signal);
    });
}

HttpServer::HttpServer(const HttpOptions& options, RequestHandler& handler)
    : state_(std::make_unique<State>(options, handler)) {
    state_->listen();
}

HttpServer::~HttpServer() {
    state_->workers.stop();
    state_->workers.join();
}

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

void HttpServer::run(const std::function<void(int)>& on_signal, const std::function<void()>& on_tick) {
    State& state = *state_;
    state.signals.add(SIGINT);
    state.signals.add(SIGTERM);
    state.wait_for_signals(on_signal);
    state.tick_on(on_tick);
    state.accept_next();
    state.context.run();
}

void HttpServer::close_door() {
    state_->connections.is_closing = true;
    asio::post(state_->context, [this] {
        boost::system::error_code ignored;
        state_->acceptor.close(ignored);
    });
}

void HttpServer::stop() { state_->context.stop(); }

size_t HttpServer::connections() const { return state_->connections.open; }

}  // namespace gemmatrace::server
