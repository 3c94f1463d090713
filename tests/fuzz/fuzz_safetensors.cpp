// Any bytes as a safetensors file: tensors that lie inside it, or one of the errors that blame the file.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "checkpoint/tensor_store.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    try {
        size_t total = 0;
        for (const auto& tensor : gemmatrace::checkpoint::read_safetensors_bytes(bytes, "fuzz")) {
            require(tensor.data.data() >= bytes.data(), "a tensor begins inside the file");
            require(tensor.data.data() + tensor.data.size() <= bytes.data() + size, "a tensor ends inside the file");
            total += tensor.data.size();
        }
        require(total + 8 <= size, "the tensors do not overlap");
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported) throw;
    }
    return 0;
}
