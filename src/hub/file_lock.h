// A lock between processes, so that two of them never write the same download.
#pragma once

#include <filesystem>
#include <functional>

namespace gemmatrace::hub {

// Holds an exclusive flock on a file of its own, the way Hugging Face's libraries lock a blob. The system lets it go
// when the process dies.
class FileLock {
  public:
    // Makes the file and its folder where needed and waits for the lock; on_wait is called once when another process
    // has it, pause between two looks; pause throws when the program should stop. Throws Error(resource) when the file
    // cannot be made.
    FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait,
             const std::function<void()>& pause);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    int descriptor_ = -1;
};

}  // namespace gemmatrace::hub
