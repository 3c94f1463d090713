// What a repository holds of a checkpoint at one commit, as the hub says, with every name and size checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/content_hash.h"

namespace gemmatrace::hub {

struct RemoteFile {
    std::string name;
    uint64_t bytes = 0;
    std::string tag;  // names the content: SHA-256 of large files, git's SHA-1 of small ones

    HashKind hash() const { return hash_kind(tag); }
};

struct Manifest {
    std::string repository;
    std::string revision;
    std::string commit;
    std::vector<RemoteFile> files = {};        // by name
    std::vector<std::string> unmeasured = {};  // files of which the hub did not say size and tag

    // Adds a file; throws Error(corrupt) for a size beyond all reason or a tag that cannot be a name.
    void add(RemoteFile file);
    uint64_t total_bytes() const;  // cannot overflow: add() bounds it
};

// From the answer to GET /api/models/REPOSITORY/revision/REVISION?blobs=true. Throws Error(corrupt) for an answer that
// is none or holds names that would leave a folder; Error(not_found) when the repository holds no checkpoint in
// safetensors.
Manifest parse_manifest(std::string_view json, const std::string& repository, const std::string& revision);

}  // namespace gemmatrace::hub
