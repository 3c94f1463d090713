// What stands in for curl and OpenSSL in a build without them: what was fetched before is found, nothing new is
// fetched.
#include "base/error.h"
#include "hub/content_hash.h"
#include "hub/transport.h"

namespace gemmatrace::hub {
namespace {

[[noreturn]] void throw_left_out() {
    throw Error(ErrorCode::unsupported, "this build cannot fetch checkpoints: it was made without curl",
                {{"option", "GEMMATRACE_PULL=OFF"}},
                "configure with -DGEMMATRACE_PULL=ON, or fetch the checkpoint by other means and give its directory");
}

}  // namespace

struct ContentHash::State {};

ContentHash::ContentHash(HashKind, uint64_t) { throw_left_out(); }
ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;
void ContentHash::update(std::string_view) { throw_left_out(); }
std::string ContentHash::finish() { throw_left_out(); }

std::unique_ptr<Transport> make_transport(const Settings&, std::function<bool()>) { throw_left_out(); }

}  // namespace gemmatrace::hub
