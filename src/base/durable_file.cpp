// write, fsync, close, with every failure seen.
#include "base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gemmatrace {

void fail_writing(const std::filesystem::path& path, int error) {
    throw Error(ErrorCode::resource, fmt::format("cannot write: {}", std::strerror(error)), {{"file", path.string()}},
                "free disk space, or choose another folder");
}

void write_durably(const std::filesystem::path& path, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) fail_writing(path, errno);
    int error = 0;
    while (!bytes.empty() && error == 0) {
        const ssize_t count = ::write(file, bytes.data(), bytes.size());
        if (count > 0)
            bytes.remove_prefix(static_cast<size_t>(count));
        else if (count < 0 && errno != EINTR)
            error = errno;
    }
    if (error == 0 && ::fsync(file) != 0) error = errno;
    if (::close(file) != 0 && error == 0) error = errno;
    if (error != 0) fail_writing(path, error);
}

}  // namespace gemmatrace
