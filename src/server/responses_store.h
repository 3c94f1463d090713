// Responses that clients may come back to, by id; the least recently used ones make room for new ones.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace gemmatrace::server {

struct StoredResponse {
    std::string response;  // the response object as JSON text, as the client got it
    std::string input;     // the whole conversation that led to it as JSON text: a list of input items
};

// In memory, and gone with the process. May be used from any thread.
class ResponseStore {
  public:
    struct Limits {
        size_t max_entries = 1024;
        size_t max_bytes = size_t{256} << 20;  // of all texts
    };

    ResponseStore() : ResponseStore(Limits()) {}
    explicit ResponseStore(const Limits& limits) : limits_(limits) {}

    // Keeps an entry under an id that is not in use, and drops what has not been asked for longest where there is no
    // room. An entry that has no room even alone is not kept. item_ids: of the response's output items.
    void put(const std::string& id, StoredResponse entry, std::vector<std::string> item_ids);
    // Null when it is not there. Shared, because it may be dropped while somebody reads it.
    std::shared_ptr<const StoredResponse> find(const std::string& id);
    // The output item of any response that is there; nothing otherwise.
    std::optional<nlohmann::ordered_json> find_item(const std::string& item_id);
    // Answers whether it was there.
    bool erase(const std::string& id);

    size_t entries() const;
    size_t bytes() const;

  private:
    struct Entry {
        std::string id;
        std::shared_ptr<const StoredResponse> stored;
        std::vector<std::string> item_ids;
        size_t bytes = 0;
    };
    using Entries = std::list<Entry>;

    std::shared_ptr<const StoredResponse> use_locked(const std::string& id);
    void drop_locked(Entries::iterator entry);

    const Limits limits_;
    mutable std::mutex mutex_;
    Entries order_;  // the last one used first
    std::unordered_map<std::string, Entries::iterator> by_id_;
    std::unordered_map<std::string, std::string> response_of_item_;
    size_t bytes_ = 0;
};

// A text of the store read back. Throws Error(internal) when it is not JSON.
nlohmann::ordered_json parse_stored(const std::string& text);

}  // namespace gemmatrace::server
