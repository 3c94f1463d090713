// Where fetched files lie: in the cache that Hugging Face's libraries share, or in a folder of the user's.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hub/manifest.h"
#include "hub/settings.h"

namespace gemmatrace::hub {

// The paths of one file while it is fetched and afterwards.
struct FilePlace {
    std::filesystem::path final;
    std::filesystem::path incomplete;
    std::filesystem::path lock;
};

class Store {
  public:
    virtual ~Store() = default;
    // The directory that the checkpoint will be read from.
    virtual std::filesystem::path directory(const Manifest& manifest) const = 0;
    virtual FilePlace place(const RemoteFile& file) const = 0;
    // Whether the file is there, whole and of this content. May read it; check_stop is called meanwhile.
    virtual bool has(const RemoteFile& file, const std::function<void()>& check_stop) const = 0;
    // Notes where a file that was just finished came from.
    virtual void record(const RemoteFile& file, const Manifest& manifest) const = 0;
    // Called when every file is there: makes the checkpoint visible as a whole.
    virtual void publish(const Manifest& manifest) const = 0;
};

// models--org--name/{blobs,refs,snapshots} under `cache`: a blob is named by the tag of its content, a snapshot of a
// commit holds links to blobs, a reference holds the commit of a revision. Laid out as huggingface_hub does, so each
// finds what the other fetched.
std::unique_ptr<Store> make_cache_store(const std::filesystem::path& cache, const std::string& repository);

// Plain files in `folder`; what is not whole yet, and where files came from, in its .cache/huggingface.
std::unique_ptr<Store> make_folder_store(const std::filesystem::path& folder);

// The directory of a repository's revision in the cache when it is there and whole (is_whole_checkpoint); no network.
// revision: a name or a commit.
std::optional<std::filesystem::path> find_in_cache(const std::filesystem::path& cache, const std::string& repository,
                                                   const std::string& revision);

// Whether a directory holds config.json and all weights: each shard that its index names, or safetensors without one.
bool is_whole_checkpoint(const std::filesystem::path& directory);

}  // namespace gemmatrace::hub
