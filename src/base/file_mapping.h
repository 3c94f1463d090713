// A file mapped read-only into memory, and whole small files read with a size limit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace gemmatrace {

// Owns one read-only mapping; moving keeps the address, so views into it stay valid.
class FileMapping {
  public:
    // Throws Error(not_found) when the file cannot be opened, Error(resource) when it cannot be mapped.
    explicit FileMapping(const std::filesystem::path& path);
    ~FileMapping();
    FileMapping(FileMapping&& other) noexcept;
    FileMapping& operator=(FileMapping&& other) noexcept;
    FileMapping(const FileMapping&) = delete;
    FileMapping& operator=(const FileMapping&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    const std::filesystem::path& path() const { return path_; }

    // Gives the whole pages of a part of bytes() back: out of this process's resident set and, unless another process
    // has mapped them, out of the system's cache. The part stays readable, from the disk.
    void release(std::span<const std::byte> part) const;

  private:
    std::filesystem::path path_;
    const std::byte* data_ = nullptr;
    size_t size_ = 0;
};

// The whole file as bytes. Throws Error(not_found) when it is not there or not a file, Error(corrupt) when it is larger
// than limit_bytes (the limit protects against a wrong file, e.g. weights named config.json).
std::string read_file(const std::filesystem::path& path, size_t limit_bytes);

}  // namespace gemmatrace
