// Safetensors files for tests, written from scratch and without any code of the program.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::testing {

// One tensor of a file: what the header says of it and its bytes.
struct TensorToWrite {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
};

// A BF16 tensor whose values are the upper halves of the given floats.
inline TensorToWrite bf16_tensor(std::string name, std::vector<int64_t> shape, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) {
        const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        bytes.push_back(static_cast<char>(bits & 0xff));
        bytes.push_back(static_cast<char>(bits >> 8));
    }
    return {std::move(name), "BF16", std::move(shape), std::move(bytes)};
}

// A BF16 tensor of the shape with every element `value`.
inline TensorToWrite filled_tensor(std::string name, std::vector<int64_t> shape, float value) {
    int64_t count = 1;
    for (const int64_t dimension : shape) count *= dimension;
    return bf16_tensor(std::move(name), std::move(shape), std::vector<float>(static_cast<size_t>(count), value));
}

// Length, header and data as one string; the header is taken as it is, true or not.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
    std::string file;
    for (int byte = 0; byte < 8; ++byte) {
        file.push_back(static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * byte)));
    }
    file.append(header);
    file.append(data);
    return file;
}

// A correct file of the tensors, in their order.
inline std::string safetensors_file(const std::vector<TensorToWrite>& tensors) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const TensorToWrite& tensor : tensors) {
        nlohmann::ordered_json entry;
        entry["dtype"] = tensor.dtype;
        entry["shape"] = tensor.shape;
        entry["data_offsets"] = {data.size(), data.size() + tensor.bytes.size()};
        header[tensor.name] = entry;
        data += tensor.bytes;
    }
    return safetensors_file(header.dump(), data);
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace gemmatrace::testing
