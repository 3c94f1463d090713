// Any bytes as an HLO proto: a program that survives being written again, or an error that blames the file; and the
// verifier says something about every one, so that what it finds sound can be planned, counted and printed.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "hlo/proto.h"
#include "hlo/statistics.h"
#include "hlo/text.h"
#include "hlo/verifier.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gemmatrace::hlo;
    try {
        const Module module = read_proto(std::as_bytes(std::span(data, size)), "fuzz");
        const std::string bytes = write_proto(module);
        require(read_proto(std::as_bytes(std::span(bytes)), "fuzz") == module, "a program survives its file");
        for (const Finding& finding : verify(module, 2)) {
            if (!finding.is_sound) return 0;
        }
        require(!module_text(module).empty() && statistics_of(module).instructions > 0,
                "a sound program says something");
    } catch (const Error& error) {
        const ErrorCode code = error.code();
        if (code != ErrorCode::corrupt && code != ErrorCode::unsupported && code != ErrorCode::mismatch) throw;
    }
    return 0;
}
