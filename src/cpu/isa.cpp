// Which instruction sets this machine and this build have.
#include "cpu/isa.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "cpu/kernels.h"

namespace gemmatrace::cpu {
namespace {

bool has_isa(Isa isa) {
#if defined(__x86_64__)
    switch (isa) {
        case Isa::scalar:
            return true;
        case Isa::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        case Isa::avx512:
            return has_isa(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    return false;
#else
    return isa == Isa::scalar;
#endif
}

}  // namespace

std::string_view isa_name(Isa isa) {
    switch (isa) {
        case Isa::scalar:
            return "scalar";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
    }
    return "scalar";
}

std::vector<Isa> available_isas() {
    std::vector<Isa> isas;
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
        if (has_isa(isa)) isas.push_back(isa);
    }
    return isas;
}

Isa best_isa() { return available_isas().back(); }

Isa parse_isa(std::string_view name) {
    if (name == "auto") return best_isa();
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
        if (name != isa_name(isa)) continue;
        if (has_isa(isa)) return isa;
        throw Error(ErrorCode::unsupported, fmt::format("this machine has no {} instructions", name),
                    {{"best", std::string(isa_name(best_isa()))}}, "leave --isa out: the best set is chosen by itself");
    }
    throw Error(ErrorCode::bad_request, fmt::format("\"{}\" is no instruction set", name), {{"option", "--isa"}},
                "use auto, scalar, avx2 or avx512");
}

const Kernels& kernels(Isa isa) {
    const Kernels* table = nullptr;
    switch (isa) {
        case Isa::scalar:
            table = scalar_kernels();
            break;
        case Isa::avx2:
            table = avx2_kernels();
            break;
        case Isa::avx512:
            table = avx512_kernels();
            break;
    }
    require(table != nullptr && has_isa(isa), "kernels are only asked for where they run");
    return *table;
}

}  // namespace gemmatrace::cpu
