// Response bytes: status line, headers, chunks.
#include "server/http/exchange.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <utility>

namespace gemmatrace::server {
namespace {

std::string_view reason_phrase(int status) {
    const auto phrase = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
    return {phrase.data(), phrase.size()};
}

std::string chunk_of(std::string_view piece) { return fmt::format("{:x}\r\n{}\r\n", piece.size(), piece); }

}  // namespace

Exchange::Exchange(boost::asio::any_io_executor executor, Settings settings, std::function<void()> wake)
    : executor_(std::move(executor)), settings_(std::move(settings)), wake_(std::move(wake)) {}

std::string Exchange::head(const HttpResponse& response, bool is_stream) const {
    std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
    text += fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(std::time(nullptr)));
    text += fmt::format("x-request-id: {}\r\n", settings_.request_id);
    if (!response.content_type.empty()) text += fmt::format("Content-Type: {}\r\n", response.content_type);
    for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
    text += settings_.more_headers;
    if (!is_stream) {
        text += fmt::format("Content-Length: {}\r\n", response.body.size());
    } else if (settings_.can_chunk) {
        text += "Transfer-Encoding: chunked\r\n";
    }
    text += settings_.keeps_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
    return text + "\r\n";
}

void Exchange::send(HttpResponse response) {
    std::string bytes;
    {
        const std::lock_guard lock(mutex_);
        if (is_begun_ || is_left_) return;
        is_begun_ = true;
        is_complete_ = true;
        status_ = response.status;
        body_bytes_ = response.body.size();
        ready_ = head(response, false);
        if (!settings_.is_head) ready_ += response.body;
        gone_ = nullptr;
    }
    notify();
}

void Exchange::start(HttpResponse response) {
    {
        const std::lock_guard lock(mutex_);
        if (is_begun_ || is_left_) return;
        is_begun_ = true;
        is_stream_ = true;
        is_events_ = response.content_type == "text/event-stream";
        if (!settings_.can_chunk) settings_.keeps_alive = false;
        status_ = response.status;
        ready_ = head(response, true);
    }
    if (response.body.empty()) {
        notify();
    } else {
        write(std::move(response.body));
    }
}

void Exchange::write(std::string piece) {
    if (piece.empty()) return;
    std::function<void()> gone;
    {
        const std::lock_guard lock(mutex_);
        if (!is_stream_ || is_complete_ || is_left_) return;
        body_bytes_ += piece.size();
        if (!settings_.is_head) ready_ += settings_.can_chunk ? chunk_of(piece) : piece;
        if (ready_.size() > settings_.max_unsent_bytes) {
            is_left_ = true;
            gone = std::exchange(gone_, nullptr);
        }
    }
    if (gone) gone();
    notify();
}

void Exchange::end() {
    {
        const std::lock_guard lock(mutex_);
        if (!is_stream_ || is_complete_) return;
        is_complete_ = true;
        if (settings_.can_chunk && !settings_.is_head) ready_ += "0\r\n\r\n";
        gone_ = nullptr;
    }
    notify();
}

void Exchange::on_gone(std::function<void()> gone) {
    {
        const std::lock_guard lock(mutex_);
        if (is_complete_) return;
        if (!is_left_) {
            gone_ = std::move(gone);
            return;
        }
    }
    gone();
}

void Exchange::notify() {
    {
        const std::lock_guard lock(mutex_);
        if (is_wake_posted_) return;
        is_wake_posted_ = true;
    }
    boost::asio::post(executor_, [self = shared_from_this()] {
        {
            const std::lock_guard lock(self->mutex_);
            self->is_wake_posted_ = false;
        }
        if (self->wake_) self->wake_();
    });
}

std::string Exchange::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ready_, {});
}

bool Exchange::is_complete() const {
    const std::lock_guard lock(mutex_);
    return is_complete_ || is_left_;
}

bool Exchange::is_event_stream() const {
    const std::lock_guard lock(mutex_);
    return is_events_ && !is_complete_;
}

bool Exchange::keeps_alive() const {
    const std::lock_guard lock(mutex_);
    return settings_.keeps_alive && is_complete_ && !is_left_;
}

int Exchange::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

size_t Exchange::body_bytes() const {
    const std::lock_guard lock(mutex_);
    return body_bytes_;
}

void Exchange::leave() {
    std::function<void()> gone;
    {
        const std::lock_guard lock(mutex_);
        wake_ = nullptr;
        if (!is_complete_) {
            is_left_ = true;
            gone = std::exchange(gone_, nullptr);
        }
    }
    if (gone) gone();
}

}  // namespace gemmatrace::server
