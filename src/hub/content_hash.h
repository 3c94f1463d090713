// What a file's content should hash to, and hashing it as it comes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gemmatrace::hub {

// How a hub names content: large files by SHA-256, small ones by git's SHA-1 of a blob; a mirror may have tags of its
// own that say nothing.
enum class HashKind { sha256, git_sha1, none };

// By the form of a tag: 64 hexadecimal digits, 40, or anything else.
inline HashKind hash_kind(std::string_view tag) {
    if (tag.find_first_not_of("0123456789abcdef") != std::string_view::npos) return HashKind::none;
    return tag.size() == 64 ? HashKind::sha256 : tag.size() == 40 ? HashKind::git_sha1 : HashKind::none;
}

class ContentHash {
  public:
    // total_bytes: of the whole content; git hashes it before the content. `none` hashes nothing. Throws
    // Error(unsupported) in a build without OpenSSL (GEMMATRACE_PULL=OFF).
    ContentHash(HashKind kind, uint64_t total_bytes);
    ~ContentHash();
    ContentHash(ContentHash&&) noexcept;
    ContentHash& operator=(ContentHash&&) noexcept;

    void update(std::string_view bytes);
    // The digest in lower-case hexadecimal digits, empty for `none`. Ends the hash.
    std::string finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gemmatrace::hub
