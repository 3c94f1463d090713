// Keys, entries and locks as files.
#include "neuron/graph_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_mapping.h"
#include "base/json.h"
#include "base/sha256.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kLargestEntry = size_t{4} << 30;
constexpr size_t kDigits = 64;

ordered_json ingredients_json(const CacheIngredients& ingredients) {
    return {{"schema", kCacheSchema},
            {"program_sha256", ingredients.program_sha256},
            {"flags", ingredients.flags},
            {"compiler", ingredients.compiler},
            {"islpy", ingredients.islpy}};
}

// Hash, line, NEFF; nothing when the file is not what it says, for this key.
std::optional<CacheEntry> parse_entry(const std::string& file, const std::string& key) {
    if (file.size() < kDigits + 1 || file[kDigits] != '\n') return std::nullopt;
    const std::string_view rest = std::string_view(file).substr(kDigits + 1);
    if (sha256(rest) != std::string_view(file).substr(0, kDigits)) return std::nullopt;
    const size_t line = rest.find('\n');
    if (line == std::string_view::npos) return std::nullopt;
    try {
        const ordered_json header = parse_json(rest.substr(0, line), "an entry of the cache", ErrorCode::corrupt);
        if (header.at("key") != key) return std::nullopt;  // a file that was renamed
        return CacheEntry{std::string(rest.substr(line + 1)), header.at("seconds").get<double>(),
                          header.at("peak_memory_bytes").get<uint64_t>()};
    } catch (const std::exception&) {  // whole, and yet none of ours: there is nothing to be had from it
        return std::nullopt;
    }
}

}  // namespace

std::string CacheIngredients::key() const { return sha256(dump_json(ingredients_json(*this))); }

fs::path default_cache_folder(const std::function<std::optional<std::string>(const char*)>& environment) {
    const auto xdg = environment("XDG_CACHE_HOME");
    if (xdg && xdg->starts_with('/')) return fs::path(*xdg) / "gemmatrace" / "neff";
    const auto home = environment("HOME");
    if (home && home->starts_with('/')) return fs::path(*home) / ".cache" / "gemmatrace" / "neff";
    throw Error(ErrorCode::bad_request, "there is no home directory to keep the cache in", {{"field", "--cache"}},
                "name a folder with --cache");
}

GraphCache::Lock::~Lock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}
GraphCache::Lock::Lock(Lock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
GraphCache::Lock& GraphCache::Lock::operator=(Lock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

GraphCache::GraphCache(fs::path folder, std::function<void(const std::string&)> remark,
                       std::function<int(const char*, const char*)> rename)
    : folder_(std::move(folder)), remark_(std::move(remark)), rename_(std::move(rename)) {}

fs::path GraphCache::file_of(const std::string& key) const {
    return folder_ / fmt::format("v{}", kCacheSchema) / (key + ".neff-entry");
}

// Gives a file its name; where the file system knows no rename, by copying, which the entry's hash makes safe.
void GraphCache::rename_or_copy(const fs::path& from, const fs::path& to) const {
    if (rename_(from.c_str(), to.c_str()) == 0) return;
    const int error = errno;
    if (error != EPERM && error != ENOSYS && error != EOPNOTSUPP && error != EINVAL && error != EXDEV) {
        fail_writing(to, error);
    }
    const std::string bytes = read_file(from, kLargestEntry);
    ::unlink(to.c_str());
    write_durably(to, bytes);
    ::unlink(from.c_str());
}

void GraphCache::remove_abandoned() const {
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
    std::error_code problem;
    for (fs::directory_iterator file(file_of("").parent_path(), problem), end; !problem && file != end;
         file.increment(problem)) {
        std::error_code ignored;
        const bool is_draft = file->path().stem().extension() == ".neff-entry";
        if (is_draft && file->path().extension() != ".lock" && file->last_write_time(ignored) < long_ago && !ignored) {
            fs::remove(file->path(), ignored);
        }
    }
}

std::optional<CacheEntry> GraphCache::find(const std::string& key) const {
    const fs::path path = file_of(key);
    std::error_code problem;
    if (!fs::exists(path, problem)) return std::nullopt;
    std::optional<CacheEntry> entry;
    try {
        entry = parse_entry(read_file(path, kLargestEntry), key);
    } catch (const Error& error) {
        remark_(fmt::format("an entry of the cache cannot be read: {}", error.what()));
        return std::nullopt;
    }
    if (entry) return entry;
    const bool is_gone = fs::remove(path, problem);
    remark_(
        fmt::format("a damaged entry of the cache {}: {}", is_gone ? "was removed" : "counts as none", path.string()));
    return std::nullopt;
}

void GraphCache::store(const CacheIngredients& ingredients, const std::string& program, const CacheEntry& entry) const {
    ordered_json header = {{"key", ingredients.key()}, {"program", program}};
    header.update(ingredients_json(ingredients));
    header["seconds"] = entry.seconds;
    header["peak_memory_bytes"] = entry.peak_memory_bytes;
    header["neff_bytes"] = entry.neff.size();
    const std::string rest = dump_json(header) + "\n" + entry.neff;
    const fs::path path = file_of(ingredients.key());
    try {
        std::error_code problem;
        fs::create_directories(path.parent_path(), problem);
        if (problem) fail_writing(path.parent_path(), problem.value());
        const std::string beside = fmt::format("{}.{:08x}", path.string(), std::random_device()());
        try {
            write_durably(beside, sha256(rest) + "\n" + rest);
            rename_or_copy(beside, path);
        } catch (...) {
            ::unlink(beside.c_str());
            throw;
        }
    } catch (const Error& error) {
        remark_(fmt::format("{} was not kept in the cache: {}", program, error.what()));
    }
}

std::optional<GraphCache::Lock> GraphCache::try_lock(const std::string& key) const {
    const fs::path path = file_of(key).string() + ".lock";
    std::error_code problem;
    fs::create_directories(path.parent_path(), problem);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0) return Lock(-1);  // no cache to write to: nobody to share with
    if (::flock(file, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return Lock(file);
    ::close(file);
    return std::nullopt;
}

fs::path GraphCache::keep_failure(const std::string& program, const std::string& key, std::string_view log) const {
    try {
        const fs::path folder = folder_ / "failed";
        std::error_code problem;
        fs::create_directories(folder, problem);
        const fs::path path = folder / fmt::format("{}-{}.log", program, key.substr(0, 12));
        fs::remove(path, problem);
        write_durably(path, log);
        return path;
    } catch (const Error& error) {
        remark_(fmt::format("the log was not kept: {}", error.what()));
        return {};
    }
}

}  // namespace gemmatrace::neuron
