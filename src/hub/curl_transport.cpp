// HTTP by curl: redirects followed by hand, so that a token never leaves the host it was meant for.
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "hub/transport.h"

namespace gemmatrace::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr long kConnectSeconds = 15;
constexpr size_t kMostHeaders = 200;
constexpr long kBufferBytes = 512L << 10;

struct CurlUrl {
    CURLU* handle = curl_url();
    CurlUrl() = default;
    ~CurlUrl() { curl_url_cleanup(handle); }
    CurlUrl(const CurlUrl&) = delete;
    CurlUrl& operator=(const CurlUrl&) = delete;

    std::string part(CURLUPart which) const {
        char* text = nullptr;
        if (curl_url_get(handle, which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK || text == nullptr) return {};
        std::string copy(text);
        curl_free(text);
        return copy;
    }
};

// Scheme, host and port, as curl itself understands the address.
struct Origin {
    std::string scheme;
    std::string host;
    std::string port;
    bool operator==(const Origin&) const = default;
};

Origin origin_of(const std::string& url) {
    CurlUrl parsed;
    if (parsed.handle == nullptr || curl_url_set(parsed.handle, CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
    return {parsed.part(CURLUPART_SCHEME), parsed.part(CURLUPART_HOST), parsed.part(CURLUPART_PORT)};
}

bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The lines that go with one request; freed with it.
class HeaderLines {
  public:
    HeaderLines() = default;
    ~HeaderLines() { curl_slist_free_all(lines_); }
    HeaderLines(const HeaderLines&) = delete;
    HeaderLines& operator=(const HeaderLines&) = delete;

    void add(const std::string& line) {
        curl_slist* longer = curl_slist_append(lines_, line.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        lines_ = longer;
    }
    curl_slist* get() const { return lines_; }

  private:
    curl_slist* lines_ = nullptr;
};

std::string_view trimmed_line(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    return line;
}

class CurlTransport final : public Transport {
  public:
    CurlTransport(const Settings& settings, std::function<bool()> should_stop)
        : should_stop_(std::move(should_stop)), curl_(curl_easy_init()) {
        if (curl_ == nullptr) throw Error(ErrorCode::resource, "curl cannot be started", {}, "free some memory");
        set(CURLOPT_NOSIGNAL, 1L);  // signals are the program's, and there are several threads
        set(CURLOPT_FOLLOWLOCATION, 0L);
        set(CURLOPT_USERAGENT, "gemmatrace");
        set(CURLOPT_CONNECTTIMEOUT, std::min(kConnectSeconds, static_cast<long>(settings.stall_seconds)));
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings.stall_seconds));
        set(CURLOPT_BUFFERSIZE, kBufferBytes);
#if LIBCURL_VERSION_NUM >= 0x075500
        set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
        set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        if (!settings.certificates.empty()) set(CURLOPT_CAINFO, settings.certificates.c_str());
        set(CURLOPT_HEADERFUNCTION, &CurlTransport::on_header);
        set(CURLOPT_HEADERDATA, this);
        set(CURLOPT_WRITEFUNCTION, &CurlTransport::on_body);
        set(CURLOPT_WRITEDATA, this);
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_XFERINFOFUNCTION, &CurlTransport::on_progress);
        set(CURLOPT_XFERINFODATA, this);
    }
    ~CurlTransport() override { curl_easy_cleanup(curl_); }
    CurlTransport(const CurlTransport&) = delete;
    CurlTransport& operator=(const CurlTransport&) = delete;

    TransferResult transfer(const HttpRequest& request, ReplySink& sink) override {
        const Origin first = origin_of(request.url);
        std::string url = request.url;
        for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
            const Origin origin = origin_of(url);
            TransferResult result = one_transfer(request, url, origin == first, sink);
            result.is_from_other_host = !(origin == first);
            if (!is_redirect(result.reply.status) || result.end != TransferEnd::complete) return result;
            const std::string next = redirect_target();
            const Origin target = origin_of(next);
            if (!request.follows_to_other_hosts && !(target == first)) {
                sink.begin(result.reply);
                return result;
            }
            const bool is_downgrade = origin.scheme == "https" && target.scheme != "https";
            if (is_downgrade || (target.scheme != "https" && target.scheme != "http")) {
                result.end = TransferEnd::refused;
                result.detail = fmt::format("it redirects to an address that is not safe: {}", printable(next));
                return result;
            }
            url = next;
        }
        return {.reply = {}, .end = TransferEnd::refused, .detail = "it redirects in circles"};
    }

  private:
    template <typename Value>
    void set(CURLoption option, Value value) {
        const CURLcode code = curl_easy_setopt(curl_, option, value);
        if (code == CURLE_OK) return;
        throw Error(ErrorCode::unsupported, fmt::format("curl refuses a setting: {}", curl_easy_strerror(code)),
                    {{"curl_option", std::to_string(option)}}, "check the address and the version of libcurl");
    }

    TransferResult one_transfer(const HttpRequest& request, const std::string& url, bool is_first_host,
                                ReplySink& sink) {
        HeaderLines lines;
        if (request.token && is_first_host) lines.add("Authorization: Bearer " + *request.token);
        lines.add("Accept-Encoding: identity");  // sizes and ranges are those of the file itself
        if (request.if_range && request.first_byte > 0) lines.add("If-Range: \"" + *request.if_range + "\"");
        const std::string range = fmt::format("{}-", request.first_byte);
        set(CURLOPT_URL, url.c_str());
        set(CURLOPT_HTTPHEADER, lines.get());
        set(CURLOPT_HTTPGET, 1L);
        set(CURLOPT_NOBODY, request.is_head ? 1L : 0L);
        set(CURLOPT_RANGE, request.first_byte > 0 ? range.c_str() : static_cast<const char*>(nullptr));

        sink_ = &sink;
        result_ = {};
        has_begun_ = false;
        thrown_ = nullptr;
        const CURLcode code = curl_easy_perform(curl_);
        set(CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));  // `lines` ends here
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
        if (should_stop_()) throw Error(ErrorCode::interrupted, "interrupted");
        long status = 0;
        curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
        result_.reply.status = static_cast<int>(status);
        if (code != CURLE_OK) note_failure(code);
        if (result_.end == TransferEnd::complete && !is_redirect(result_.reply.status)) begin_once();
        return std::move(result_);
    }

    std::string redirect_target() const {
        char* url = nullptr;
        curl_easy_getinfo(curl_, CURLINFO_REDIRECT_URL, &url);
        return url == nullptr ? std::string() : std::string(url);
    }

    void note_failure(CURLcode code) {
        if (result_.end == TransferEnd::enough) return;  // the sink ended it, which curl calls a write error
        result_.detail = curl_easy_strerror(code);
        switch (code) {
            case CURLE_COULDNT_RESOLVE_HOST:
            case CURLE_COULDNT_RESOLVE_PROXY:
            case CURLE_COULDNT_CONNECT:
                result_.end = TransferEnd::unreachable;
                break;
            case CURLE_OPERATION_TIMEDOUT:
                result_.end =
                    result_.reply.status == 0 && !is_connected() ? TransferEnd::unreachable : TransferEnd::stalled;
                break;
            case CURLE_PEER_FAILED_VERIFICATION:
            case CURLE_SSL_CACERT_BADFILE:
            case CURLE_UNSUPPORTED_PROTOCOL:
            case CURLE_URL_MALFORMAT:
                result_.end = TransferEnd::refused;
                break;
            case CURLE_OUT_OF_MEMORY:
                throw std::bad_alloc();
            default:
                result_.end = TransferEnd::dropped;
                break;
        }
    }

    bool is_connected() const {
        double seconds = 0;
        curl_easy_getinfo(curl_, CURLINFO_CONNECT_TIME, &seconds);
        return seconds > 0;
    }

    void begin_once() {
        if (has_begun_) return;
        has_begun_ = true;
        sink_->begin(result_.reply);
    }

    // curl is C: nothing may be thrown through it, so what a callback throws is kept until perform has returned.
    template <typename Action>
    size_t guarded(size_t size, Action action) {
        try {
            return action() ? size : 0;
        } catch (...) {
            thrown_ = std::current_exception();
            return 0;
        }
    }

    static size_t on_header(char* data, size_t, size_t size, void* self) {
        auto& transport = *static_cast<CurlTransport*>(self);
        return transport.guarded(size, [&] { return transport.take_header({data, size}); });
    }

    bool take_header(std::string_view line) {
        HttpReply& reply = result_.reply;
        if (line.starts_with("HTTP/")) reply.headers.clear();  // of a proxy or an interim answer
        const size_t colon = line.find(':');
        if (colon == std::string_view::npos || reply.headers.size() >= kMostHeaders) return true;
        std::string name(line.substr(0, colon));
        for (char& c : name) {
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
        }
        reply.headers[name] = trimmed_line(line.substr(colon + 1));
        return true;
    }

    static size_t on_body(char* data, size_t, size_t size, void* self) {
        auto& transport = *static_cast<CurlTransport*>(self);
        return transport.guarded(size, [&] { return transport.take_body({data, size}); });
    }

    bool take_body(std::string_view bytes) {
        long status = 0;
        curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
        result_.reply.status = static_cast<int>(status);
        if (is_redirect(result_.reply.status)) return true;  // a page for people without redirects
        begin_once();
        if (sink_->take(bytes)) return true;
        result_.end = TransferEnd::enough;
        return false;
    }

    static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        return static_cast<CurlTransport*>(self)->should_stop_() ? 1 : 0;
    }

    std::function<bool()> should_stop_;
    CURL* curl_;
    ReplySink* sink_ = nullptr;
    TransferResult result_;
    bool has_begun_ = false;
    std::exception_ptr thrown_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(const Settings& settings, std::function<bool()> should_stop) {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (started != CURLE_OK) throw Error(ErrorCode::resource, "curl cannot be started", {}, "free some memory");
    return std::make_unique<CurlTransport>(settings, std::move(should_stop));
}

}  // namespace gemmatrace::hub
