// The two ways to run the forward pass: as Transformers rounds in bf16, or in fp32 as the judge.
#pragma once

#include <string_view>

namespace gemmatrace::model {

enum class Precision {
    bf16,  // weights and activations in bf16, rounded exactly where the reference rounds (gemma4.md 2)
    fp32,  // weights upcast, activations fp32: the judge
};

inline std::string_view precision_name(Precision precision) { return precision == Precision::bf16 ? "bf16" : "fp32"; }

}  // namespace gemmatrace::model
