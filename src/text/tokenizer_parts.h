// The pipeline of tokenizer.json understood: each part either becomes steps of ours or is refused by name.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/tokenizer_fields.h"
#include "text/tokenizer_pipeline.h"

namespace gemmatrace::text {

// Each takes the whole document (without vocabulary and merges). All throw Error(unsupported) for what is valid in
// Hugging Face tokenizers and not supported here, Error(corrupt) for what is not valid there.

// normalizer: null, Sequence, Replace, Prepend.
std::vector<NormalizerStep> read_normalizer(const Fields& file);
// pre_tokenizer: null, Sequence, Split by a string, Metaspace.
std::vector<PreTokenizerStep> read_pre_tokenizer(const Fields& file, bool has_normalizer);
// decoder: null, Sequence, Replace, ByteFallback, Fuse, Strip, Metaspace.
Decoder read_decoder(const Fields& file);
// model: BPE without dropout and affixes.
BpeSettings read_bpe_settings(const Fields& file);
// version, truncation, padding, post_processor: nothing that would change ids without special tokens added.
void check_remaining_parts(const Fields& file);

}  // namespace gemmatrace::text
