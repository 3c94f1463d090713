// Writing downloads: every failure seen, nothing visible before it is whole.
#include "hub/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

// Calls take(bytes) for the whole of an open file.
template <typename Take>
void read_all(int descriptor, const fs::path& path, const std::function<void()>& check_stop, Take take) {
    std::vector<char> buffer(kReadBytes);
    uint64_t at = 0;
    while (true) {
        check_stop();
        const ssize_t got = ::pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw file_error("cannot read", path, errno);
        if (got == 0) return;
        take(std::string_view(buffer.data(), static_cast<size_t>(got)));
        at += static_cast<uint64_t>(got);
    }
}

void write_all_to(int descriptor, const fs::path& path, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw file_error("cannot write", path, errno);
        bytes.remove_prefix(static_cast<size_t>(written));
    }
}

void rename_to(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw file_error("cannot name the finished file", to, errno);
}

}  // namespace

Error file_error(const std::string& what, const fs::path& path, int failure) {
    const bool is_full = failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
    return Error(ErrorCode::resource, fmt::format("{}: {}", what, std::strerror(failure)), {{"file", path.string()}},
                 is_full
                     ? "free some disk, or choose another with HF_HUB_CACHE or --local-dir; what was fetched is kept"
                     : "check the permissions and the disk; HF_HUB_CACHE or --local-dir choose another place");
}

void make_folder(const fs::path& folder) {
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) throw file_error("cannot make the folder", folder, failure.value());
}

void write_small_file(const fs::path& path, std::string_view text) {
    make_folder(path.parent_path());
    const fs::path beside = path.string() + fmt::format(".{}.tmp", ::getpid());
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) throw file_error("cannot write", beside, errno);
    try {
        write_all_to(descriptor, beside, text);
    } catch (...) {
        ::close(descriptor);
        ::unlink(beside.c_str());
        throw;
    }
    ::close(descriptor);
    rename_to(beside, path);
}

std::string hash_of_file(const fs::path& path, const RemoteFile& file, const std::function<void()>& check_stop) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw file_error("cannot read", path, errno);
    try {
        ContentHash hash(file.hash(), file.bytes);
        read_all(descriptor, path, check_stop, [&](std::string_view bytes) { hash.update(bytes); });
        ::close(descriptor);
        return hash.finish();
    } catch (...) {
        ::close(descriptor);
        throw;
    }
}

PartialFile::PartialFile(fs::path path, const RemoteFile& file, const std::function<void()>& check_stop)
    : path_(std::move(path)), file_(file), hash_(file.hash(), file.bytes) {
    make_folder(path_.parent_path());
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0) throw file_error("cannot write", path_, errno);
    try {
        adopt_what_is_there(check_stop);
    } catch (...) {
        ::close(descriptor_);
        throw;
    }
}

PartialFile::~PartialFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void PartialFile::adopt_what_is_there(const std::function<void()>& check_stop) {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw file_error("cannot read", path_, errno);
    if (static_cast<uint64_t>(status.st_size) > file_.bytes) return restart();
    read_all(descriptor_, path_, check_stop, [&](std::string_view bytes) {
        hash_.update(bytes);
        bytes_ += bytes.size();
    });
    if (::lseek(descriptor_, static_cast<off_t>(bytes_), SEEK_SET) < 0) throw file_error("cannot write", path_, errno);
}

void PartialFile::append(std::string_view bytes) {
    require(bytes.size() <= file_.bytes - bytes_, "a file does not grow beyond its size");
    write_all_to(descriptor_, path_, bytes);
    hash_.update(bytes);
    bytes_ += bytes.size();
}

void PartialFile::restart() {
    if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) < 0) {
        throw file_error("cannot write", path_, errno);
    }
    bytes_ = 0;
    hash_ = ContentHash(file_.hash(), file_.bytes);
}

bool PartialFile::is_right() {
    return is_long_enough() && (file_.hash() == HashKind::none || hash_.finish() == file_.tag);
}

void PartialFile::finish(const fs::path& final_path) {
    if (::fsync(descriptor_) != 0) throw file_error("cannot write", path_, errno);
    ::close(std::exchange(descriptor_, -1));
    make_folder(final_path.parent_path());
    rename_to(path_, final_path);
}

}  // namespace gemmatrace::hub
