// Reading a hub's description of a repository without believing it.
#include "hub/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "hub/names.h"

namespace gemmatrace::hub {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFiles = 10'000;
constexpr uint64_t kMostBytes = uint64_t{1} << 46;       // 70 TB: beyond any checkpoint, far from an overflow
constexpr uint64_t kMostOtherBytes = uint64_t{1} << 30;  // of a file that holds no weights
constexpr size_t kMostListed = 100'000;

Error wrong_answer(std::string message, const std::string& repository) {
    return Error(ErrorCode::corrupt, std::move(message), {{"repo", repository}},
                 "check that the endpoint is a hub of Hugging Face's kind");
}

std::string text_member(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<uint64_t> size_member(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
}

// Size and tag of one entry; nothing where the hub does not say both.
std::optional<RemoteFile> measured_file(const Json& entry, const std::string& name) {
    const auto lfs = entry.find("lfs");
    const bool is_large = lfs != entry.end() && lfs->is_object();
    const Json& source = is_large ? *lfs : entry;
    const auto bytes = size_member(source, "size");
    std::string tag = text_member(source, is_large ? "sha256" : "blobId");
    if (is_large && tag.empty()) tag = text_member(source, "oid");
    if (!bytes || tag.empty()) return std::nullopt;
    return RemoteFile{name, *bytes, std::move(tag)};
}

void check_holds_checkpoint(const Manifest& manifest, const std::vector<std::string>& names) {
    const auto has = [&](std::string_view ending) {
        return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.ends_with(ending); });
    };
    if (std::find(names.begin(), names.end(), "config.json") != names.end() && has(".safetensors")) return;
    throw Error(ErrorCode::not_found, fmt::format("'{}' holds no checkpoint in safetensors", manifest.repository),
                {{"repo", manifest.repository}, {"revision", manifest.revision}},
                "name the repository that has config.json and *.safetensors, not a conversion to another format");
}

}  // namespace

void Manifest::add(RemoteFile file) {
    const uint64_t limit = file.name.ends_with(".safetensors") ? kMostBytes : kMostOtherBytes;
    if (file.bytes > limit || files.size() >= kMostFiles || total_bytes() + file.bytes > kMostBytes) {
        throw wrong_answer(fmt::format("the hub says that {} has {} bytes, which cannot be", file.name, file.bytes),
                           repository)
            .add_context("file", file.name);
    }
    if (!is_blob_name(file.tag)) {
        throw wrong_answer(fmt::format("the hub names the content of {} '{}'", file.name, printable(file.tag)),
                           repository)
            .add_context("file", file.name);
    }
    const auto place =
        std::lower_bound(files.begin(), files.end(), file.name,
                         [](const RemoteFile& other, const std::string& name) { return other.name < name; });
    if (place != files.end() && place->name == file.name) {
        throw wrong_answer(fmt::format("the hub lists {} twice", file.name), repository);
    }
    files.insert(place, std::move(file));
}

uint64_t Manifest::total_bytes() const {
    uint64_t total = 0;
    for (const RemoteFile& file : files) total += file.bytes;
    return total;
}

Manifest parse_manifest(std::string_view json, const std::string& repository, const std::string& revision) {
    const Json document = parse_json(json, "the hub's answer", ErrorCode::corrupt);
    if (!document.is_object() || !document.contains("siblings") || !document["siblings"].is_array()) {
        throw wrong_answer("the hub's answer does not describe a repository", repository);
    }
    Manifest manifest{.repository = repository, .revision = revision, .commit = text_member(document, "sha")};
    if (!is_commit(manifest.commit)) {
        throw wrong_answer(fmt::format("the hub names the commit '{}'", printable(manifest.commit)), repository);
    }
    if (is_commit(revision) && manifest.commit != revision) {
        throw wrong_answer(fmt::format("commit {} was asked for, and the hub describes {}", revision, manifest.commit),
                           repository);
    }
    if (document["siblings"].size() > kMostListed) {
        throw wrong_answer(fmt::format("the hub lists {} files", document["siblings"].size()), repository);
    }
    std::vector<std::string> names;
    for (const Json& entry : document["siblings"]) {
        const std::string name = entry.is_object() ? text_member(entry, "rfilename") : std::string();
        if (!is_honest_path(name) || (is_checkpoint_file(name) && !is_safe_file_name(name))) {
            throw wrong_answer(
                fmt::format("the hub lists a file named '{}', which no repository can hold", printable(name)),
                repository);
        }
        if (!is_checkpoint_file(name)) continue;
        names.push_back(name);
        if (auto file = measured_file(entry, name)) {
            manifest.add(std::move(*file));
        } else {
            manifest.unmeasured.push_back(name);
        }
    }
    if (names.size() > kMostFiles) throw wrong_answer(fmt::format("the hub lists {} files", names.size()), repository);
    check_holds_checkpoint(manifest, names);
    return manifest;
}

}  // namespace gemmatrace::hub
