// A stable merge sort that stays within its bounds whatever the comparison answers or throws.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gemmatrace::text::jinja {

// The comparison may throw and need not be an order (NaN, undefined): std::stable_sort promises nothing then.
template <class Item, class Less>
void stable_sort(std::vector<Item>& items, const Less& less) {
    std::vector<Item> merged(items.size());
    for (size_t width = 1; width < items.size(); width *= 2) {
        for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
            const size_t middle = std::min(begin + width, items.size());
            const size_t end = std::min(begin + 2 * width, items.size());
            size_t left = begin;
            size_t right = middle;
            for (size_t at = begin; at < end; ++at) {
                const bool is_right = left == middle || (right < end && less(items[right], items[left]));
                merged[at] = std::move(items[is_right ? right++ : left++]);
            }
        }
        items.swap(merged);
    }
}

}  // namespace gemmatrace::text::jinja
