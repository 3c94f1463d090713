// What a loaded tokenizer consists of.
#pragma once

#include <cstdint>
#include <optional>

#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_pipeline.h"
#include "text/tokenizer_vocabulary.h"

namespace gemmatrace::text {

// The parts in the order in which a text passes them.
struct Tokenizer::Data {
    Vocabulary vocabulary;
    AddedTokenMatcher raw_added;  // matched in the text as it came
    Normalizer normalizer;
    AddedTokenMatcher normalized_added;  // matched in what the normaliser made
    PreTokenizer pre_tokenizer;
    Bpe bpe;
    Decoder decoder;
    std::optional<int32_t> bos_id;
    std::optional<int32_t> eos_id;
};

}  // namespace gemmatrace::text
