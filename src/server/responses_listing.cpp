// Items in the form in which they are listed, and pages of them.
#include "server/responses_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kUsualPage = 20;
constexpr size_t kLargestPage = 100;

// As it was sent: ids and words need no escapes. Empty when it is not there.
std::string_view query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), pair.size() + 1));
        if (pair.substr(0, pair.find('=')) == name) return pair.substr(std::min(pair.size(), name.size() + 1));
    }
    return {};
}

Error wrong_parameter(const char* name, const std::string& what, std::string remedy) {
    return {ErrorCode::bad_request, fmt::format("{}: {}", name, what), {{"field", name}}, std::move(remedy)};
}

size_t page_size(std::string_view query) {
    const std::string_view text = query_value(query, "limit");
    if (text.empty()) return kUsualPage;
    size_t size = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (failure != std::errc() || end != text.data() + text.size() || size < 1 || size > kLargestPage) {
        throw wrong_parameter("limit", "a whole number is expected", fmt::format("use 1 to {}", kLargestPage));
    }
    return size;
}

bool is_oldest_first(std::string_view query) {
    const std::string_view order = query_value(query, "order");
    if (!order.empty() && order != "asc" && order != "desc") {
        throw wrong_parameter("order", "this order is unknown", "use asc or desc");
    }
    return order == "asc";
}

ordered_json text_parts(const std::string& text, bool is_reply) {
    ordered_json part;
    part["type"] = is_reply ? "output_text" : "input_text";
    part["text"] = text;
    if (is_reply) part["annotations"] = ordered_json::array();
    return ordered_json::array({std::move(part)});
}

ordered_json shown_item(const ordered_json& item, std::string_view response_id, size_t index) {
    ordered_json shown = item;
    if (!shown.contains("type") || shown["type"].is_null()) shown["type"] = "message";
    if (!shown.contains("id") || !shown["id"].is_string()) shown["id"] = fmt::format("item_{}_{}", response_id, index);
    if (shown["type"] == "message" && shown["content"].is_string()) {
        const bool is_reply = shown["role"] == "assistant";
        shown["content"] = text_parts(shown["content"].get<std::string>(), is_reply);
        if (!shown.contains("status")) shown["status"] = "completed";
    }
    return shown;
}

}  // namespace

ordered_json listed_items(const ordered_json& items, std::string_view response_id, std::string_view query) {
    const size_t size = page_size(query);
    ordered_json all = ordered_json::array();
    for (size_t index = 0; index < items.size(); ++index) all.push_back(shown_item(items[index], response_id, index));
    if (!is_oldest_first(query)) std::reverse(all.begin(), all.end());
    size_t begin = 0;
    if (const std::string_view after = query_value(query, "after"); !after.empty()) {
        // The last one, so that every page goes on from the one before, whatever ids a client gave.
        for (size_t index = 0; index < all.size(); ++index) {
            if (all[index]["id"] == after) begin = index + 1;
        }
        if (begin == 0) throw wrong_parameter("after", "there is no such item", "use an id of this list");
    }
    const size_t end = std::min(all.size(), begin + size);
    ordered_json page;
    page["object"] = "list";
    page["data"] = ordered_json::array();
    for (size_t index = begin; index < end; ++index) page["data"].push_back(std::move(all[index]));
    page["first_id"] = begin < end ? page["data"].front()["id"] : ordered_json();
    page["last_id"] = begin < end ? page["data"].back()["id"] : ordered_json();
    page["has_more"] = end < all.size();
    return page;
}

}  // namespace gemmatrace::server
