// mmap and plain reading of checkpoint files.
#include "base/file_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace gemmatrace {
namespace {

// Closes a descriptor at the end of a scope.
class Descriptor {
  public:
    explicit Descriptor(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0) {
            throw Error(ErrorCode::not_found, fmt::format("cannot open the file: {}", std::strerror(errno)),
                        {{"file", path.string()}}, "check the path and the permissions");
        }
    }
    ~Descriptor() { ::close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }

    // Size in bytes of a regular file.
    size_t size(const std::filesystem::path& path) const {
        struct stat status {};
        if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
            throw Error(ErrorCode::not_found, "this is not a regular file", {{"file", path.string()}},
                        "give the path of a file");
        }
        return static_cast<size_t>(status.st_size);
    }

  private:
    int fd_;
};

}  // namespace

FileMapping::FileMapping(const std::filesystem::path& path) : path_(path) {
    const Descriptor descriptor(path);
    size_ = descriptor.size(path);
    if (size_ == 0) return;
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (address == MAP_FAILED) {
        throw Error(ErrorCode::resource, fmt::format("cannot map the file: {}", std::strerror(errno)),
                    {{"file", path.string()}, {"bytes", std::to_string(size_)}},
                    "check the address space limit (ulimit -v)");
    }
    data_ = static_cast<const std::byte*>(address);
}

FileMapping::~FileMapping() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

void FileMapping::release(std::span<const std::byte> part) const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (static_cast<size_t>(part.data() - data_) + page - 1) / page * page;
    const auto end = static_cast<size_t>(part.data() + part.size() - data_) / page * page;
    if (begin >= end) return;
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
    // Only advice: without the file all is as before.
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::posix_fadvise(descriptor, static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
    ::close(descriptor);
}

std::string read_file(const std::filesystem::path& path, size_t limit_bytes) {
    const Descriptor descriptor(path);
    const size_t size = descriptor.size(path);
    if (size > limit_bytes) {
        throw Error(ErrorCode::corrupt,
                    fmt::format("the file has {} bytes, more than the {} allowed", size, limit_bytes),
                    {{"file", path.string()}}, "check that this is the file its name says");
    }
    std::string content(size, '\0');
    size_t done = 0;
    while (done < size) {
        const ssize_t count = ::read(descriptor.get(), content.data() + done, size - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            throw Error(ErrorCode::corrupt, fmt::format("read {} of {} bytes, then failed", done, size),
                        {{"file", path.string()}}, "check the disk, or fetch the file again");
        }
        done += static_cast<size_t>(count);
    }
    return content;
}

}  // namespace gemmatrace
