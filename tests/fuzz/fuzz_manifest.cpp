// Any text as a manifest.json: one that survives being written again, or an error that blames the file.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "trace/manifest.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gemmatrace::trace;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const Manifest manifest = parse_manifest(text, "fuzz");
        require(parse_manifest(manifest_text(manifest), "fuzz") == manifest, "a manifest survives its file");
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::mismatch) throw;
    }
    return 0;
}
