// A download that is not whole yet: a file that grows, hashed as it does, and takes its name only when it is right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hub/content_hash.h"
#include "hub/manifest.h"

namespace gemmatrace::hub {

// Error(resource) naming the file and what errno says about it.
Error file_error(const std::string& what, const std::filesystem::path& path, int failure);

// Makes a folder and those above it; Error(resource) when that fails.
void make_folder(const std::filesystem::path& folder);

// Writes a small file so that it is there whole or not at all: beside it, then renamed.
void write_small_file(const std::filesystem::path& path, std::string_view text);

// The hash of a file on disk as `file` names content. check_stop is called now and then and may throw.
std::string hash_of_file(const std::filesystem::path& path, const RemoteFile& file,
                         const std::function<void()>& check_stop);

class PartialFile {
  public:
    // Opens or makes it, and hashes what an earlier try left. What is longer than the file can be is dropped.
    // Throws Error(resource).
    PartialFile(std::filesystem::path path, const RemoteFile& file, const std::function<void()>& check_stop);
    ~PartialFile();
    PartialFile(const PartialFile&) = delete;
    PartialFile& operator=(const PartialFile&) = delete;

    uint64_t bytes() const { return bytes_; }
    bool is_long_enough() const { return bytes_ == file_.bytes; }

    // Throws Error(resource) when the disk is full or fails; what was written before stays.
    void append(std::string_view bytes);
    // Back to nothing.
    void restart();

    // Whether the content is what its name says, once it is long enough; always for names that are no hash. May be
    // called once between two restarts.
    bool is_right();
    // Makes it durable and gives it its name in one step. Throws Error(resource).
    void finish(const std::filesystem::path& final_path);

  private:
    void adopt_what_is_there(const std::function<void()>& check_stop);

    std::filesystem::path path_;
    RemoteFile file_;
    ContentHash hash_;
    int descriptor_ = -1;
    uint64_t bytes_ = 0;
};

}  // namespace gemmatrace::hub
