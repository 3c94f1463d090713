// Keeping, finding and dropping.
#include "server/responses_store.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace gemmatrace::server {
namespace {

// What was in a request comes back one or two levels deeper than a request may be.
constexpr JsonLimits kStoredLimits = {.max_bytes = size_t{512} << 20, .max_depth = 160};

}  // namespace

nlohmann::ordered_json parse_stored(const std::string& text) {
    return parse_json(text, "a stored response", ErrorCode::internal, kStoredLimits);
}

void ResponseStore::put(const std::string& id, StoredResponse entry, std::vector<std::string> item_ids) {
    size_t bytes = id.size() + entry.response.size() + entry.input.size();
    for (const std::string& item_id : item_ids) bytes += item_id.size();
    const std::lock_guard lock(mutex_);
    if (bytes > limits_.max_bytes || limits_.max_entries == 0) return;
    while (!order_.empty() && (order_.size() >= limits_.max_entries || bytes_ + bytes > limits_.max_bytes)) {
        drop_locked(std::prev(order_.end()));
    }
    order_.push_front({id, std::make_shared<const StoredResponse>(std::move(entry)), std::move(item_ids), bytes});
    by_id_[id] = order_.begin();
    for (const std::string& item_id : order_.front().item_ids) response_of_item_[item_id] = id;
    bytes_ += bytes;
}

std::shared_ptr<const StoredResponse> ResponseStore::use_locked(const std::string& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->stored;
}

void ResponseStore::drop_locked(Entries::iterator entry) {
    bytes_ -= entry->bytes;
    for (const std::string& item_id : entry->item_ids) response_of_item_.erase(item_id);
    by_id_.erase(entry->id);
    order_.erase(entry);
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return use_locked(id);
}

std::optional<nlohmann::ordered_json> ResponseStore::find_item(const std::string& item_id) {
    std::shared_ptr<const StoredResponse> stored;
    {
        const std::lock_guard lock(mutex_);
        const auto found = response_of_item_.find(item_id);
        if (found == response_of_item_.end()) return std::nullopt;
        stored = use_locked(found->second);
    }
    const nlohmann::ordered_json response = parse_stored(stored->response);
    for (const nlohmann::ordered_json& item : response.at("output")) {
        if (item.value("id", "") == item_id) return item;
    }
    return std::nullopt;
}

bool ResponseStore::erase(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return false;
    drop_locked(found->second);
    return true;
}

size_t ResponseStore::entries() const {
    const std::lock_guard lock(mutex_);
    return order_.size();
}

size_t ResponseStore::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

}  // namespace gemmatrace::server
