// Opening a checkpoint's weight files: one file, or shards and the index that names them.
#include "checkpoint/tensor_store.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "checkpoint/fields.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

bool is_file(const std::filesystem::path& path) {
    std::error_code problem;
    return std::filesystem::is_regular_file(path, problem);
}

// weight_map of an index: which shard holds which tensor.
using WeightMap = std::map<std::string, std::string>;

// A shard lies beside its index: anything that could lead elsewhere is refused.
void check_shard_name(const std::string& index, const std::string& tensor, const std::string& shard) {
    const bool is_plain = shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (is_plain && shard.ends_with(".safetensors")) return;
    throw Error(ErrorCode::corrupt, "the index names a shard that is no plain .safetensors file name",
                {{"file", index}, {"tensor", printable(tensor)}}, "fetch the index again; shards must lie beside it");
}

WeightMap read_index(const std::filesystem::path& path) {
    const auto document = read_json_file(path);
    const std::string file = path.string();
    const Fields top(document, file, "");
    const auto* listed = top.find("weight_map");
    if (listed == nullptr) {
        throw top.error(ErrorCode::corrupt, "weight_map", "is missing", "fetch the index again");
    }
    const Fields fields(*listed, file, "weight_map");
    WeightMap shards;
    for (const auto& [tensor, value] : listed->items()) {
        const std::string shard = fields.text(tensor, "");
        check_shard_name(file, tensor, shard);
        shards.emplace(tensor, shard);
    }
    if (shards.empty()) throw top.error(ErrorCode::corrupt, "weight_map", "is empty", "fetch the index again");
    return shards;
}

// A tensor that lies in a shard must be what the index says of it.
void check_listed(const WeightMap& index, const StoredTensor& tensor, const std::filesystem::path& shard) {
    const auto entry = index.find(tensor.name);
    if (entry != index.end() && entry->second == shard.filename().string()) return;
    const std::string said = entry == index.end() ? "does not name it" : fmt::format("says {}", entry->second);
    throw Error(ErrorCode::mismatch, fmt::format("this shard holds a tensor, but the index {}", said),
                {{"file", shard.string()}, {"tensor", printable(tensor.name)}},
                "fetch the index and the shards again from one revision");
}

FileMapping open_shard(const std::filesystem::path& path, const WeightMap& index) {
    if (is_file(path)) return FileMapping(path);
    size_t tensors = 0;
    for (const auto& entry : index) tensors += entry.second == path.filename().string() ? 1 : 0;
    throw Error(ErrorCode::not_found, fmt::format("shard {} is missing", path.filename().string()),
                {{"file", path.string()}, {"tensors", std::to_string(tensors)}},
                "fetch the missing shard; the index names it");
}

}  // namespace

TensorStore TensorStore::open(const std::filesystem::path& directory) {
    TensorStore store;
    const auto add_file = [&](FileMapping mapping, const WeightMap* index) {
        for (StoredTensor& tensor : read_safetensors(mapping)) {
            if (index != nullptr) check_listed(*index, tensor, mapping.path());
            tensor.file_index = store.files_.size();
            store.tensors_.emplace(tensor.name, tensor);
        }
        store.files_.push_back(std::move(mapping));
    };
    if (is_file(directory / kSingleFile)) {
        add_file(FileMapping(directory / kSingleFile), nullptr);
        return store;
    }
    if (!is_file(directory / kIndexFile)) {
        throw Error(ErrorCode::not_found, "there are no weights here", {{"folder", directory.string()}},
                    fmt::format("{} or {} with its shards must lie in the folder", kSingleFile, kIndexFile));
    }
    const WeightMap index = read_index(directory / kIndexFile);
    std::set<std::string> shards;
    for (const auto& entry : index) shards.insert(entry.second);
    for (const std::string& shard : shards) add_file(open_shard(directory / shard, index), &index);
    for (const auto& [tensor, shard] : index) {
        if (store.tensors_.contains(tensor)) continue;
        throw Error(ErrorCode::mismatch, fmt::format("the index says {} holds a tensor that is not there", shard),
                    {{"file", (directory / shard).string()}, {"tensor", printable(tensor)}},
                    "fetch the index and the shards again from one revision");
    }
    return store;
}

const StoredTensor* TensorStore::find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

size_t TensorStore::total_bytes() const {
    size_t bytes = 0;
    for (const auto& entry : tensors_) bytes += entry.second.data.size();
    return bytes;
}

}  // namespace gemmatrace::checkpoint
