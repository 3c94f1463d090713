// Asking until there is an answer, and fetching until a file is whole.
#include "hub/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "hub/file_lock.h"
#include "hub/names.h"
#include "hub/partial_file.h"

namespace gemmatrace::hub {
namespace {

constexpr size_t kMostAnswerBytes = size_t{32} << 20;
constexpr double kLockPauseS = 0.1;

Subject subject_of(const FetchContext& context, const std::string& repository, const std::string& revision,
                   const std::string& file = {}) {
    return {.endpoint = context.settings.endpoint,
            .repository = repository,
            .revision = revision,
            .file = file,
            .has_token = context.settings.token.has_value()};
}

std::string file_url(const Settings& settings, const Manifest& manifest, const std::string& name) {
    return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, url_repository(manifest.repository), manifest.commit,
                       url_part(name));
}

// The whole of a small answer; more than kMostAnswerBytes ends the transfer.
class TextSink final : public ReplySink {
  public:
    void begin(const HttpReply&) override {}
    bool take(std::string_view bytes) override {
        if (text_.size() + bytes.size() > kMostAnswerBytes) {
            is_too_long_ = true;
            return false;
        }
        text_ += bytes;
        return true;
    }
    const std::string& text() const { return text_; }
    bool is_too_long() const { return is_too_long_; }

  private:
    std::string text_;
    bool is_too_long_ = false;
};

std::optional<uint64_t> parse_number(std::string_view text) {
    uint64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// An entity tag without its quotes and its mark of weakness.
std::string plain_tag(std::string tag) {
    if (tag.starts_with("W/")) tag.erase(0, 2);
    if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') tag = tag.substr(1, tag.size() - 2);
    return tag;
}

// Size and tag of a file from the head of its answer; large files lie elsewhere, and the redirect there tells both.
RemoteFile measure_file(Transport& transport, const FetchContext& context, const Manifest& manifest,
                        const std::string& name) {
    const Subject subject = subject_of(context, manifest.repository, manifest.revision, name);
    Patience patience(context.retry, subject);
    HttpRequest request{.url = file_url(context.settings, manifest, name), .is_head = true};
    request.token = context.settings.token;
    request.follows_to_other_hosts = false;
    while (true) {
        TextSink sink;
        const TransferResult result = transport.transfer(request, sink);
        const HttpReply& reply = result.reply;
        const bool is_redirect = result.end == TransferEnd::complete && reply.status >= 300 && reply.status < 400;
        if (!is_redirect && transfer_error(result, subject)) {
            patience.wait_or_throw(result);
            continue;
        }
        const std::string linked_size = reply.header("x-linked-size");
        const std::string linked_tag = reply.header("x-linked-etag");
        const auto bytes =
            parse_number(linked_size.empty() && !is_redirect ? reply.header("content-length") : linked_size);
        const std::string tag = plain_tag(linked_tag.empty() && !is_redirect ? reply.header("etag") : linked_tag);
        if (bytes && !tag.empty()) return {.name = name, .bytes = *bytes, .tag = tag};
        throw Error(ErrorCode::corrupt, fmt::format("the hub does not say what size and content {} has", name),
                    {{"repo", manifest.repository}, {"file", name}, {"status", std::to_string(reply.status)}},
                    "check that the endpoint is a hub of Hugging Face's kind");
    }
}

// Appends an answer to a partial file as far as it is what was asked for.
class FileSink final : public ReplySink {
  public:
    FileSink(PartialFile& partial, const RemoteFile& file, std::atomic<int64_t>& fetched_bytes)
        : partial_(partial), file_(file), fetched_bytes_(fetched_bytes), asked_from_(partial.bytes()) {}

    void begin(const HttpReply& reply) override {
        if (reply.status == 206) {
            check_range(reply.header("content-range"));
        } else if (reply.status == 200) {
            check_length(reply.header("content-length"));
            begin_whole();
        } else if (reply.status == 416) {
            contradiction_ = "the hub says the file is shorter than it said before";
        } else {
            is_content_ = false;  // a page about the failure
        }
    }

    bool take(std::string_view bytes) override {
        if (!contradiction_.empty()) return false;
        if (!is_content_) return (ignored_ += bytes.size()) < kMostAnswerBytes;
        const size_t repeated = std::min<uint64_t>(to_skip_, bytes.size());
        to_skip_ -= repeated;
        bytes.remove_prefix(repeated);
        if (bytes.size() > file_.bytes - partial_.bytes()) {
            contradiction_ = fmt::format("more than its {} bytes came", file_.bytes);
            return false;
        }
        partial_.append(bytes);
        fetched_bytes_ += static_cast<int64_t>(bytes.size());
        return true;
    }

    // Why the answer cannot be the file, or empty.
    const std::string& contradiction() const { return contradiction_; }

  private:
    // "bytes 100-199/200": from where was asked, of a file of the size that was listed.
    void check_range(const std::string& range) {
        if (range.starts_with(fmt::format("bytes {}-", asked_from_)) &&
            range.ends_with(fmt::format("/{}", file_.bytes))) {
            return;
        }
        contradiction_ = fmt::format("the hub sent '{}' where bytes from {} of {} were asked for", printable(range),
                                     asked_from_, file_.bytes);
    }

    void check_length(const std::string& length) {
        const auto bytes = parse_number(length);
        if (bytes && *bytes != file_.bytes) {
            contradiction_ = fmt::format("the hub sends {} bytes where it listed {}", *bytes, file_.bytes);
        }
    }

    // A server without ranges sends all again. What is here already is read over, since the tag pins the content; only
    // where the tag is no hash the file may have changed (If-Range), and begins anew.
    void begin_whole() {
        if (asked_from_ == 0) return;
        if (file_.hash() == HashKind::none) {
            fetched_bytes_ -= static_cast<int64_t>(asked_from_);
            partial_.restart();
        } else {
            to_skip_ = asked_from_;
        }
    }

    PartialFile& partial_;
    const RemoteFile& file_;
    std::atomic<int64_t>& fetched_bytes_;
    uint64_t asked_from_;
    uint64_t to_skip_ = 0;
    uint64_t ignored_ = 0;
    bool is_content_ = true;
    std::string contradiction_;
};

// Requests until the partial file is long enough. Answers what contradicts the listing, or an empty text.
std::string fill_partial(Transport& transport, const FetchContext& context, const Manifest& manifest,
                         const RemoteFile& file, PartialFile& partial, std::atomic<int64_t>& fetched_bytes) {
    const Subject subject = subject_of(context, manifest.repository, manifest.revision, file.name);
    Patience patience(context.retry, subject);
    while (!partial.is_long_enough()) {
        HttpRequest request{.url = file_url(context.settings, manifest, file.name)};
        request.token = context.settings.token;
        request.first_byte = partial.bytes();
        if (file.hash() == HashKind::none) request.if_range = file.tag;
        FileSink sink(partial, file, fetched_bytes);
        const uint64_t before = partial.bytes();
        TransferResult result = transport.transfer(request, sink);
        if (!sink.contradiction().empty()) return sink.contradiction();
        if (partial.is_long_enough()) break;
        if (partial.bytes() > before) patience.progressed();
        // Without a length, an answer that was cut looks like one that ended.
        if (!transfer_error(result, subject)) result.end = TransferEnd::dropped;
        patience.wait_or_throw(result);
    }
    return {};
}

}  // namespace

Manifest fetch_manifest(Transport& transport, const FetchContext& context, const std::string& repository,
                        const std::string& revision) {
    check_repository_name(repository);
    check_revision(revision);
    const Subject subject = subject_of(context, repository, revision);
    Patience patience(context.retry, subject);
    HttpRequest request{.url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", context.settings.endpoint,
                                           url_repository(repository), url_part(revision))};
    request.token = context.settings.token;
    while (true) {
        TextSink sink;
        const TransferResult result = transport.transfer(request, sink);
        if (sink.is_too_long()) {
            throw Error(ErrorCode::corrupt, fmt::format("the hub's answer is longer than {} bytes", kMostAnswerBytes),
                        {{"repo", repository}}, "check that the endpoint is a hub of Hugging Face's kind");
        }
        if (transfer_error(result, subject)) {
            patience.wait_or_throw(result);
            continue;
        }
        Manifest manifest = parse_manifest(sink.text(), repository, revision);
        for (const std::string& name : manifest.unmeasured) {
            manifest.add(measure_file(transport, context, manifest, name));
        }
        return manifest;
    }
}

bool fetch_file(Transport& transport, const FetchContext& context, const Manifest& manifest, const RemoteFile& file,
                const Store& store, std::atomic<int64_t>& fetched_bytes) {
    const FilePlace place = store.place(file);
    const FileLock lock(
        place.lock, [&] { context.retry.note(fmt::format("{}: another process is fetching it; waiting", file.name)); },
        [&] { context.retry.sleep(kLockPauseS); });
    if (store.has(file, context.check_stop)) return false;
    PartialFile partial(place.incomplete, file, context.check_stop);
    for (bool is_second = false;; is_second = true) {
        std::string fault = fill_partial(transport, context, manifest, file, partial, fetched_bytes);
        if (fault.empty() && partial.is_right()) break;
        if (fault.empty()) fault = "its hash is not the one that the hub lists";
        fetched_bytes -= static_cast<int64_t>(partial.bytes());
        partial.restart();
        if (is_second) {
            std::error_code ignored;
            std::filesystem::remove(place.incomplete, ignored);
            throw Error(ErrorCode::corrupt, fmt::format("{} came wrong twice: {}", file.name, fault),
                        {{"repo", manifest.repository}, {"file", file.name}, {"commit", manifest.commit}},
                        "try again later or from another endpoint; nothing of it was kept");
        }
        context.retry.note(fmt::format("{}: {}; fetching it anew", file.name, fault));
    }
    partial.finish(place.final);
    store.record(file, manifest);
    return true;
}

}  // namespace gemmatrace::hub
