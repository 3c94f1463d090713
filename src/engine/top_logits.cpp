// Partial selection of the k best logits.
#include "engine/top_logits.h"

#include <algorithm>

namespace gemmatrace::engine {

std::vector<std::pair<int32_t, float>> best_logits(std::span<const float> logits, int32_t k) {
    using Entry = std::pair<int32_t, float>;
    // "less" of the heap: the better entry is the smaller one, so that the worst of the kept ones is at the front.
    const auto is_better = [](const Entry& left, const Entry& right) {
        return left.second > right.second || (left.second == right.second && left.first < right.first);
    };
    std::vector<Entry> kept;
    if (k <= 0) return kept;
    const size_t limit = std::min(static_cast<size_t>(k), logits.size());
    kept.reserve(limit);
    for (size_t id = 0; id < logits.size(); ++id) {
        const Entry entry{static_cast<int32_t>(id), logits[id]};
        if (kept.size() < limit) {
            kept.push_back(entry);
            std::push_heap(kept.begin(), kept.end(), is_better);
        } else if (entry.second > kept.front().second) {  // ids ascend: an equal one that comes later is never better
            std::pop_heap(kept.begin(), kept.end(), is_better);
            kept.back() = entry;
            std::push_heap(kept.begin(), kept.end(), is_better);
        }
    }
    std::sort_heap(kept.begin(), kept.end(), is_better);
    return kept;
}

}  // namespace gemmatrace::engine
