// The instruction sets the kernels are written for, and the choice among them at run time.
#pragma once

#include <string_view>
#include <vector>

namespace gemmatrace::cpu {

enum class Isa { scalar, avx2, avx512 };

std::string_view isa_name(Isa isa);
// The best one this machine has.
Isa best_isa();
// All this machine has, slowest first.
std::vector<Isa> available_isas();
// "auto", "scalar", "avx2", "avx512". Throws Error(bad_request) for another word, Error(unsupported) when the machine
// lacks it: never a silent fallback.
Isa parse_isa(std::string_view name);

}  // namespace gemmatrace::cpu
