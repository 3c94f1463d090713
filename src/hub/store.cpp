// The two layouts of fetched files.
#include "hub/store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/json.h"
#include "hub/names.h"
#include "hub/partial_file.h"

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReferenceBytes = 256;
constexpr size_t kMetadataBytes = 4096;
constexpr std::string_view kIncomplete = ".incomplete";

bool has_size(const fs::path& path, uint64_t bytes) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           static_cast<uint64_t>(status.st_size) == bytes;
}

// Makes `link` point at `target` (relative to the link's folder), replacing what was there in one step. A file system
// without symbolic links gets a second name of the same file.
void point_link(const fs::path& link, const fs::path& target) {
    std::error_code failure;
    if (fs::read_symlink(link, failure) == target && !failure) return;
    make_folder(link.parent_path());
    const fs::path beside = link.string() + fmt::format(".{}.tmp", ::getpid());
    fs::remove(beside, failure);
    fs::create_symlink(target, beside, failure);
    if (failure) fs::create_hard_link(link.parent_path() / target, beside, failure);
    if (!failure) fs::rename(beside, link, failure);
    if (failure) throw file_error("cannot link", link, failure.value());
}

class CacheStore final : public Store {
  public:
    CacheStore(const fs::path& cache, const std::string& repository)
        : folder_(cache / cache_folder_name(repository)), locks_(cache / ".locks" / cache_folder_name(repository)) {}

    fs::path directory(const Manifest& manifest) const override { return folder_ / "snapshots" / manifest.commit; }

    FilePlace place(const RemoteFile& file) const override {
        const fs::path blob = folder_ / "blobs" / file.tag;
        return {blob, blob.string() + std::string(kIncomplete), locks_ / (file.tag + ".lock")};
    }

    // A blob gets its name only after it was verified.
    bool has(const RemoteFile& file, const std::function<void()>&) const override {
        return has_size(place(file).final, file.bytes);
    }

    void record(const RemoteFile&, const Manifest&) const override {}

    // config.json comes last: where it is, all is.
    void publish(const Manifest& manifest) const override {
        const auto link = [&](const RemoteFile& file) {
            point_link(directory(manifest) / file.name, fs::path("..") / ".." / "blobs" / file.tag);
        };
        for (const RemoteFile& file : manifest.files) {
            if (file.name != "config.json") link(file);
        }
        for (const RemoteFile& file : manifest.files) {
            if (file.name == "config.json") link(file);
        }
        if (manifest.revision != manifest.commit) {
            write_small_file(folder_ / "refs" / manifest.revision, manifest.commit);
        }
    }

  private:
    fs::path folder_;
    fs::path locks_;
};

class FolderStore final : public Store {
  public:
    explicit FolderStore(fs::path folder)
        : folder_(std::move(folder)), notes_(folder_ / ".cache" / "huggingface" / "download") {}

    fs::path directory(const Manifest&) const override { return folder_; }

    FilePlace place(const RemoteFile& file) const override {
        return {folder_ / file.name, notes_ / fmt::format("{}.{}{}", file.name, file.tag, kIncomplete),
                notes_ / (file.name + ".lock")};
    }

    bool has(const RemoteFile& file, const std::function<void()>& check_stop) const override {
        const fs::path path = place(file).final;
        if (!has_size(path, file.bytes)) return false;
        if (is_recorded(file)) return true;
        return file.hash() != HashKind::none && hash_of_file(path, file, check_stop) == file.tag;
    }

    void record(const RemoteFile& file, const Manifest& manifest) const override {
        write_small_file(note_path(file), fmt::format("{}\n{}\n{}\n", manifest.commit, file.tag, std::time(nullptr)));
    }

    void publish(const Manifest&) const override {}

  private:
    fs::path note_path(const RemoteFile& file) const { return notes_ / (file.name + ".metadata"); }

    // Whether the file was recorded with this content and not changed since. Three lines: commit, tag, time.
    bool is_recorded(const RemoteFile& file) const {
        std::error_code failure;
        if (!fs::is_regular_file(note_path(file), failure)) return false;
        std::istringstream note(read_file(note_path(file), kMetadataBytes));
        std::string commit;
        std::string tag;
        double time = 0;
        struct stat status {};
        return note >> commit >> tag >> time && tag == file.tag &&
               ::stat((folder_ / file.name).c_str(), &status) == 0 &&
               static_cast<double>(status.st_mtime) <= time + 1.0;  // times are kept in whole seconds
    }

    fs::path folder_;
    fs::path notes_;
};

// The commit a revision stood for when it was last fetched.
std::string cached_commit(const fs::path& folder, const std::string& revision) {
    if (is_commit(revision)) return revision;
    const fs::path reference = folder / "refs" / revision;
    std::error_code failure;
    if (!fs::is_regular_file(reference, failure)) return {};
    std::string commit = read_file(reference, kReferenceBytes);
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
    return is_commit(commit) ? commit : std::string();
}

bool has_weights_without_index(const fs::path& directory) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(directory, failure)) {
        if (entry.path().extension() == ".safetensors" && fs::exists(entry.path(), failure)) return true;
    }
    return false;
}

}  // namespace

std::unique_ptr<Store> make_cache_store(const fs::path& cache, const std::string& repository) {
    return std::make_unique<CacheStore>(cache, repository);
}

std::unique_ptr<Store> make_folder_store(const fs::path& folder) { return std::make_unique<FolderStore>(folder); }

bool is_whole_checkpoint(const fs::path& directory) {
    std::error_code failure;
    if (!fs::exists(directory / "config.json", failure)) return false;
    if (fs::exists(directory / "model.safetensors", failure)) return true;
    const fs::path index = directory / "model.safetensors.index.json";
    if (!fs::exists(index, failure)) return has_weights_without_index(directory);
    const auto document = read_json_file(index);
    if (!document.is_object() || !document.contains("weight_map") || !document["weight_map"].is_object()) return false;
    const auto& shards = document["weight_map"];
    return std::all_of(shards.begin(), shards.end(), [&](const auto& shard) {
        return shard.is_string() && is_safe_file_name(shard.template get<std::string>()) &&
               fs::exists(directory / shard.template get<std::string>(), failure);
    });
}

std::optional<fs::path> find_in_cache(const fs::path& cache, const std::string& repository,
                                      const std::string& revision) {
    const fs::path folder = cache / cache_folder_name(repository);
    const std::string commit = cached_commit(folder, revision);
    if (commit.empty()) return std::nullopt;
    fs::path snapshot = folder / "snapshots" / commit;
    if (!is_whole_checkpoint(snapshot)) return std::nullopt;
    return snapshot;
}

}  // namespace gemmatrace::hub
