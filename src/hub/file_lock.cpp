// Locking by flock.
#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "hub/partial_file.h"

namespace gemmatrace::hub {

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait,
                   const std::function<void()>& pause) {
    make_folder(path.parent_path());
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0) throw file_error("cannot make the lock", path, errno);
    bool is_told = false;
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        const int failure = errno;
        // A file system without locks: two processes would waste work there, but contents are still verified.
        if (failure == ENOLCK || failure == EOPNOTSUPP || failure == ENOSYS) return;
        try {
            if (failure != EWOULDBLOCK && failure != EINTR) throw file_error("cannot lock", path, failure);
            if (!is_told) on_wait();
            is_told = true;
            pause();
        } catch (...) {
            ::close(descriptor_);
            throw;
        }
    }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace gemmatrace::hub
