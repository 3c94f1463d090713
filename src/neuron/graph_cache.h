// What the compiler has made, kept by everything that decides it, so that nothing is compiled twice.
//
// An entry is one file, KEY.neff-entry: the SHA-256 of the rest, a line of JSON that says what it is, and the NEFF. It
// is written beside its place and renamed, and believed only when the hash is right; so a copy that was cut, a killed
// process or a mount without renames cannot bring a wrong one. Only successes are kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::neuron {

inline constexpr int32_t kCacheSchema = 1;  // raised when entries, or what decides them, change

// All that decides what the compiler makes.
struct CacheIngredients {
    std::string program_sha256;  // of the HLO's bytes
    std::vector<std::string> flags;
    std::string compiler;  // its version as it says it, build and all
    std::string islpy;

    // 64 hexadecimal digits over all of this and kCacheSchema.
    std::string key() const;
};

struct CacheEntry {
    std::string neff;
    double seconds = 0.0;  // that its compile took
    uint64_t peak_memory_bytes = 0;
};

// The cache's folder unless one is named: gemmatrace/neff in XDG_CACHE_HOME, or in ~/.cache. Throws Error(bad_request)
// where neither is known.
std::filesystem::path default_cache_folder(const std::function<std::optional<std::string>(const char*)>& environment);

class GraphCache {
  public:
    // Held while a program is compiled, so that two processes on one machine do not compile the same.
    class Lock {
      public:
        explicit Lock(int descriptor) : descriptor_(descriptor) {}
        ~Lock();
        Lock(Lock&& other) noexcept;
        Lock& operator=(Lock&& other) noexcept;
        Lock(const Lock&) = delete;
        Lock& operator=(const Lock&) = delete;

      private:
        int descriptor_;
    };

    // `remark` is told what went wrong without harm: a damaged entry, a folder that cannot be written. `rename` gives a
    // file its name as rename(2) does; replaced in tests by that of a mount that cannot.
    GraphCache(std::filesystem::path folder, std::function<void(const std::string&)> remark,
               std::function<int(const char* from, const char* to)> rename = ::rename);

    const std::filesystem::path& folder() const { return folder_; }

    // Removes files that killed processes left half written, when they are an hour old.
    void remove_abandoned() const;

    // The entry of a key, verified; a damaged one is removed and counts as none.
    std::optional<CacheEntry> find(const std::string& key) const;
    // Keeps an entry. A cache that cannot be written is remarked on, not an error.
    void store(const CacheIngredients& ingredients, const std::string& program, const CacheEntry& entry) const;
    // The lock of a key, or nothing while another process has it. Without a file system that locks, always a lock.
    std::optional<Lock> try_lock(const std::string& key) const;
    // Keeps the log of a failed compile; answers where, or nothing when it cannot be written.
    std::filesystem::path keep_failure(const std::string& program, const std::string& key, std::string_view log) const;

  private:
    std::filesystem::path file_of(const std::string& key) const;
    void rename_or_copy(const std::filesystem::path& from, const std::filesystem::path& to) const;

    std::filesystem::path folder_;
    std::function<void(const std::string&)> remark_;
    std::function<int(const char*, const char*)> rename_;
};

}  // namespace gemmatrace::neuron
