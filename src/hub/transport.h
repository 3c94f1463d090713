// Asking a hub over HTTP, as the rest of this room sees it; curl does it, and tests stand in for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hub/settings.h"

namespace gemmatrace::hub {

struct HttpRequest {
    std::string url;
    // No body is wanted.
    bool is_head = false;
    // Sent to the scheme, host and port of `url`, never to where a redirect leads.
    std::optional<std::string> token = std::nullopt;
    // False: a redirect that leaves the host is itself the reply.
    bool follows_to_other_hosts = true;
    // The body from this byte on, and the entity tag that it must belong to.
    uint64_t first_byte = 0;
    std::optional<std::string> if_range = std::nullopt;
};

// The head of an answer. Names of headers are in lower case; of a header given twice the last one counts.
struct HttpReply {
    int status = 0;
    std::map<std::string, std::string, std::less<>> headers;

    // The value, or an empty text.
    std::string header(std::string_view name) const {
        const auto found = headers.find(name);
        return found == headers.end() ? std::string() : found->second;
    }
};

// Takes an answer as it comes. What these throw ends the transfer and leaves it.
class ReplySink {
  public:
    virtual ~ReplySink() = default;
    // The head of the answer that counts, before its body: not of redirects that were followed.
    virtual void begin(const HttpReply& reply) = 0;
    // Bytes of the body. False: enough, end the transfer.
    virtual bool take(std::string_view bytes) = 0;
};

enum class TransferEnd {
    complete,     // the whole answer, whatever its status
    enough,       // the sink said so
    dropped,      // the connection ended before the answer did
    stalled,      // nothing came for too long
    unreachable,  // no connection: name, address, refusal
    refused,      // by us: a redirect in circles or to an unsafe address, a certificate that is not trusted
};

struct TransferResult {
    HttpReply reply;  // status 0: none came
    TransferEnd end = TransferEnd::complete;
    std::string detail;               // what the library says, for people
    bool is_from_other_host = false;  // a redirect led to where the reply is from
};

// One connection's worth of requests, one after the other. Not for use from several threads.
class Transport {
  public:
    virtual ~Transport() = default;
    // Sends the request, follows redirects, hands the answer to the sink. Throws Error(interrupted) when the program
    // should stop, and what the sink throws.
    virtual TransferResult transfer(const HttpRequest& request, ReplySink& sink) = 0;
};

// A transport over curl. `should_stop` is asked about once a second and whenever data comes. Throws
// Error(unsupported) in a build without curl (GEMMATRACE_PULL=OFF).
std::unique_ptr<Transport> make_transport(const Settings& settings, std::function<bool()> should_stop);

}  // namespace gemmatrace::hub
