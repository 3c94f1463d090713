// SHA-256 and git's SHA-1 by OpenSSL.
#include "hub/content_hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace gemmatrace::hub {

struct ContentHash::State {
    EVP_MD_CTX* context = nullptr;

    State() = default;
    ~State() { EVP_MD_CTX_free(context); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
};

ContentHash::ContentHash(HashKind kind, uint64_t total_bytes) : state_(std::make_unique<State>()) {
    if (kind == HashKind::none) return;
    state_->context = EVP_MD_CTX_new();
    const EVP_MD* algorithm = kind == HashKind::sha256 ? EVP_sha256() : EVP_sha1();
    if (state_->context == nullptr || EVP_DigestInit_ex(state_->context, algorithm, nullptr) != 1) {
        throw Error(ErrorCode::unsupported, "OpenSSL does not offer the hash that the hub names files by",
                    {{"hash", kind == HashKind::sha256 ? "SHA-256" : "SHA-1"}}, "check OpenSSL's configuration");
    }
    if (kind == HashKind::git_sha1) {
        const std::string head = fmt::format("blob {}", total_bytes);
        update({head.c_str(), head.size() + 1});  // git ends it with a zero
    }
}

ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;

void ContentHash::update(std::string_view bytes) {
    if (state_->context == nullptr) return;
    require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "hashing takes all bytes");
}

std::string ContentHash::finish() {
    if (state_->context == nullptr) return {};
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    require(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1, "a hash can be finished once");
    std::string text;
    for (unsigned int byte = 0; byte < length; ++byte) text += fmt::format("{:02x}", digest[byte]);
    return text;
}

}  // namespace gemmatrace::hub
