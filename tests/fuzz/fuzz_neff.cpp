// Any bytes as a NEFF, and as the archive of one: tensors whose sizes add up, or an error that blames the file.
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "neuron/neff.h"
#include "standin/neff_writer.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;

namespace {

void read_file_bytes(std::span<const std::byte> file) {
    using namespace gemmatrace::neuron;
    try {
        for (const NeffTensor& tensor : read_neff(file, "fuzz").tensors) {
            require(tensor.bytes < uint64_t{1} << 50, "no tensor is larger than any memory");
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt) throw;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    read_file_bytes(bytes);
    // A changed length never passes the header, so what follows gets a header of its own.
    const size_t header = gemmatrace::neuron::kNeffHeaderBytes;
    if (size <= header) return 0;
    const std::string archive(reinterpret_cast<const char*>(data) + header, size - header);
    const std::string file = gemmatrace::standin::with_neff_header({}, archive);
    read_file_bytes(std::as_bytes(std::span(file)));
    return 0;
}
