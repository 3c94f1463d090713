// A queue of merges over a linked list of symbols (source: Word::merge_all and BPE::merge_word of tokenizers 0.22.2).
#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace gemmatrace::text {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr const char* kMergesRemedy = "fetch tokenizer.json again; an interrupted download can leave such a file";

// Spreads the bits of a pair of ids (the finaliser of MurmurHash3), because both ids are small numbers.
size_t hash_of(int32_t left, int32_t right) {
    uint64_t bits = (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdU;
    bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53U;
    return bits ^ (bits >> 33);
}

// The id of a side or of the result of a merge.
int32_t required_id(const Vocabulary& vocabulary, std::string_view token, size_t rank) {
    const std::optional<int32_t> id = vocabulary.find_in_model(token);
    if (id) return *id;
    throw Error(ErrorCode::corrupt, "a merge needs a token that the vocabulary lacks",
                {{"field", "model.merges"}, {"rank", std::to_string(rank)}, {"token", std::string(token)}},
                kMergesRemedy);
}

void append_symbol(std::vector<Bpe::Symbol>& symbols, int32_t id, bool is_content) {
    const uint32_t position = static_cast<uint32_t>(symbols.size());
    if (position > 0) symbols.back().next = position;
    symbols.push_back({id, position == 0 ? kNone : position - 1, kNone, false, is_content});
}

}  // namespace

void MergeList::add(std::string_view left, std::string_view right) {
    if (text_.size() + left.size() + right.size() > std::numeric_limits<uint32_t>::max()) {
        throw Error(ErrorCode::corrupt, "the merges hold more than 4 GiB of text", {{"field", "model.merges"}},
                    kMergesRemedy);
    }
    text_.append(left);
    ends_.push_back(static_cast<uint32_t>(text_.size()));
    text_.append(right);
    ends_.push_back(static_cast<uint32_t>(text_.size()));
}

Bpe::Bpe(const Vocabulary& vocabulary, const MergeList& merges, const BpeSettings& settings)
    : fuse_unk_(settings.fuse_unk), byte_fallback_(settings.byte_fallback), ignore_merges_(settings.ignore_merges) {
    bool has_all_bytes = byte_fallback_;
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
        byte_ids_[byte] = vocabulary.find_in_model(fmt::format("<0x{:02X}>", byte)).value_or(-1);
        has_all_bytes = has_all_bytes && byte_ids_[byte] >= 0;
    }
    if (settings.unk_token) unk_id_ = vocabulary.find_in_model(*settings.unk_token);
    if (settings.unk_token && !unk_id_ && !has_all_bytes) {
        throw Error(ErrorCode::corrupt, "the unknown token is not in the vocabulary",
                    {{"field", "model.unk_token"}, {"token", *settings.unk_token}}, kMergesRemedy);
    }
    entries_.resize(std::bit_ceil(2 * merges.size() + 2));
    results_.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        insert(required_id(vocabulary, merges.left(rank), rank), required_id(vocabulary, merges.right(rank), rank),
               static_cast<uint32_t>(rank));
        results_.push_back(required_id(vocabulary, merges.joined(rank), rank));
    }
}

size_t Bpe::place_of(int32_t left, int32_t right) const {
    const size_t mask = entries_.size() - 1;
    size_t at = hash_of(left, right) & mask;
    while (entries_[at].left >= 0 && (entries_[at].left != left || entries_[at].right != right)) at = (at + 1) & mask;
    return at;
}

// A pair listed twice has the later rank, as in the reference.
void Bpe::insert(int32_t left, int32_t right, uint32_t rank) { entries_[place_of(left, right)] = {left, right, rank}; }

std::optional<uint32_t> Bpe::rank_of(const Vocabulary& vocabulary, const Symbol& left, const Symbol& right) const {
    const Entry& entry = entries_[place_of(left.id, right.id)];
    if (entry.left < 0) return std::nullopt;
    if ((left.is_content || right.is_content) && vocabulary.is_control(results_[entry.rank])) return std::nullopt;
    return entry.rank;
}

// Appends one symbol a byte, or nothing and returns false when a byte has no token that may be used.
bool Bpe::append_bytes(const Vocabulary& vocabulary, std::string_view character, bool is_content,
                       std::vector<Symbol>& symbols) const {
    const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    const bool is_possible = std::all_of(character.begin(), character.end(), [&](char byte) {
        return id_of(byte) >= 0 && !(is_content && vocabulary.is_control(id_of(byte)));
    });
    if (!is_possible) return false;
    for (const char byte : character) append_symbol(symbols, id_of(byte), is_content);
    return true;
}

// The stretch as unmerged symbols. The unknown token waits until a character of the vocabulary follows, so that
// neighbours can be fused; bytes overtake it, and without an unknown token the character is left out. Both are what the
// reference does.
void Bpe::split(const Vocabulary& vocabulary, const TextView& stretch, std::vector<Symbol>& symbols) const {
    bool has_waiting = false;
    bool waiting_is_content = false;
    const auto flush = [&] {
        if (has_waiting) append_symbol(symbols, *unk_id_, waiting_is_content);
        has_waiting = waiting_is_content = false;
    };
    for (size_t at = 0; at < stretch.size();) {
        const size_t end = at + static_cast<size_t>(decode_utf8(stretch.text, at).length);
        const std::string_view character = stretch.text.substr(at, end - at);
        const bool is_content = stretch.has_content(at, end);
        const std::optional<int32_t> id = vocabulary.find_in_model(character);
        at = end;
        if (id && !(is_content && vocabulary.is_control(*id))) {
            flush();
            append_symbol(symbols, *id, is_content);
        } else if (byte_fallback_ && append_bytes(vocabulary, character, is_content, symbols)) {
            continue;
        } else if (unk_id_) {
            if (!fuse_unk_) flush();
            has_waiting = true;
            waiting_is_content = waiting_is_content || is_content;
        }
    }
    flush();
}

// Queues the merge of the symbol at `position` with its right neighbour: rank above, position below, so that the
// smallest number is the merge to make next.
void Bpe::queue_pair(const Vocabulary& vocabulary, uint32_t position, Workspace& workspace) const {
    if (position == kNone) return;
    const Symbol& left = workspace.symbols[position];
    if (left.next == kNone) return;
    const std::optional<uint32_t> rank = rank_of(vocabulary, left, workspace.symbols[left.next]);
    if (!rank) return;
    workspace.queue.push_back((static_cast<uint64_t>(*rank) << 32) | position);
    std::push_heap(workspace.queue.begin(), workspace.queue.end(), std::greater<>{});
}

void Bpe::merge(const Vocabulary& vocabulary, Workspace& workspace) const {
    std::vector<Symbol>& symbols = workspace.symbols;
    std::vector<uint64_t>& queue = workspace.queue;
    queue.clear();
    for (uint32_t position = 0; position + 1 < symbols.size(); ++position) {
        const std::optional<uint32_t> rank = rank_of(vocabulary, symbols[position], symbols[position + 1]);
        if (rank) queue.push_back((static_cast<uint64_t>(*rank) << 32) | position);
    }
    std::make_heap(queue.begin(), queue.end(), std::greater<>{});
    while (!queue.empty()) {
        std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
        const uint32_t queued_rank = static_cast<uint32_t>(queue.back() >> 32);
        const uint32_t position = static_cast<uint32_t>(queue.back());
        queue.pop_back();
        Symbol& left = symbols[position];
        if (left.is_removed || left.next == kNone) continue;
        Symbol& right = symbols[left.next];
        const std::optional<uint32_t> rank = rank_of(vocabulary, left, right);
        // An entry is out of date when the pair there now makes another token; like the reference, not when only the
        // rank differs.
        if (!rank || results_[*rank] != results_[queued_rank]) continue;
        left.id = results_[*rank];
        left.is_content = left.is_content || right.is_content;
        left.next = right.next;
        right.is_removed = true;
        if (right.next != kNone) symbols[right.next].previous = position;
        queue_pair(vocabulary, left.previous, workspace);
        queue_pair(vocabulary, position, workspace);
    }
}

void Bpe::encode(const Vocabulary& vocabulary, const TextView& stretch, Workspace& workspace,
                 std::vector<int32_t>& ids) const {
    if (stretch.empty()) return;
    if (ignore_merges_) {
        const std::optional<int32_t> id = vocabulary.find_in_model(stretch.text);
        if (id && !(vocabulary.is_control(*id) && stretch.has_content(0, stretch.size()))) {
            ids.push_back(*id);
            return;
        }
    }
    workspace.symbols.clear();
    split(vocabulary, stretch, workspace.symbols);
    merge(vocabulary, workspace);
    for (const Symbol& symbol : workspace.symbols) {
        if (!symbol.is_removed) ids.push_back(symbol.id);
    }
}

}  // namespace gemmatrace::text
