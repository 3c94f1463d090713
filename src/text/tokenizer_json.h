// tokenizer.json read in one pass: the two large tables straight into compact form, the rest as a small document.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "text/bpe.h"
#include "text/tokenizer_vocabulary.h"

namespace gemmatrace::text {

struct TokenizerFile {
    Vocabulary vocabulary;  // model.vocab
    MergeList merges;       // model.merges
    bool has_vocabulary = false;
    bool has_merges = false;
    nlohmann::json rest;  // everything else; `model` without the two
};

// Throws Error(corrupt) when the text is empty, no JSON, too large or deep, or the two tables are not what a BPE model
// has. A vocabulary that is no object (as other kinds of models have) is passed over: the model's type will tell.
TokenizerFile read_tokenizer_file(std::string_view text);

}  // namespace gemmatrace::text
