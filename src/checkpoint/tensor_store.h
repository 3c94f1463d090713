// The stored tensors of a checkpoint, mapped where they lie: one safetensors file or shards named by an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_mapping.h"

namespace gemmatrace::checkpoint {

// Element types that safetensors files name and this program can describe; the format's others (sub-byte, complex) are
// refused when the header is read.
enum class Dtype { bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, f8_e4m3, f8_e5m2 };

std::string_view dtype_name(Dtype dtype);  // as safetensors writes it, e.g. "BF16"
size_t dtype_bytes(Dtype dtype);

// A tensor inside a mapped file. `data` is exactly shape x dtype long and lives as long as the store.
struct StoredTensor {
    std::string name;
    Dtype dtype = Dtype::bf16;
    std::vector<int64_t> shape;
    std::span<const std::byte> data;
    size_t file_index = 0;  // into TensorStore::files()
};

// Parses the header of one file that lies in memory. Every offset, shape and dtype is checked against the length before
// it is believed: the tensors must fill the data exactly, without gap or overlap. Tensors come in the order of their
// data; `data` points into `bytes`, which may be unaligned for the dtype. `name` names the file in errors.
// Throws Error(corrupt) naming file and tensor, Error(unsupported) for a dtype of the format that no code here reads.
std::vector<StoredTensor> read_safetensors_bytes(std::span<const std::byte> bytes, const std::string& name);

// The same for a mapped file.
std::vector<StoredTensor> read_safetensors(const FileMapping& file);

class TensorStore {
  public:
    // Opens `directory/model.safetensors` or, without it, the shards of `directory/model.safetensors.index.json` (the
    // order of 5.13). Every tensor that the index names must be in the shard it names, and the other way round, else
    // Error(mismatch); a missing shard is Error(not_found); shard names that are paths are Error(corrupt).
    static TensorStore open(const std::filesystem::path& directory);

    // Null when absent.
    const StoredTensor* find(const std::string& name) const;
    const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
    const std::vector<FileMapping>& files() const { return files_; }
    size_t total_bytes() const;  // of tensor data
    // Gives the memory behind a tensor back to the system, for one that will not be read again soon; it stays readable.
    void release(const StoredTensor& tensor) const { files_[tensor.file_index].release(tensor.data); }

  private:
    std::vector<FileMapping> files_;
    std::map<std::string, StoredTensor> tensors_;
};

}  // namespace gemmatrace::checkpoint
