// HLO modules as the bytes of XLA's HloModuleProto: what the accelerator's compiler and XLA read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// Larger files are refused: our programs stay below 20 MB.
inline constexpr size_t kLargestProtoBytes = size_t{32} << 20;

// The file's bytes, the same for equal modules. Ids are dense from 1 in order, for instructions over the whole module
// and for computations; layouts are row-major. The module is one that verify finds sound.
std::string write_proto(const Module& module);

// Reads what write_proto writes; where: the file, for messages. Nothing is skipped: a field, an opcode, an element type
// or a layout that Module cannot hold is refused with its instruction. What it returns is not yet verified, but
// operands, roots and called computations are places that exist. Throws Error(corrupt) when the bytes are no such
// proto, Error(unsupported) for valid HLO outside our subset, Error(mismatch) as check_shape does.
Module read_proto(std::span<const std::byte> bytes, std::string_view where);

}  // namespace gemmatrace::hlo
