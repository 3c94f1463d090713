// A SAX handler: 32 MB of vocabulary and merges would cost ten times as much memory as a tree of JSON values.
#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gemmatrace::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxMerges = size_t{1} << 23;
constexpr size_t kMaxValues = size_t{1} << 20;  // outside the two tables
constexpr const char* kFetchAgain = "fetch tokenizer.json again; an interrupted download leaves such a file";

[[noreturn]] void fail(const std::string& message, Error::Context context = {}) {
    throw Error(ErrorCode::corrupt, message, std::move(context), kFetchAgain);
}

// Receives the events of the parser (names and signatures are the library's) and throws our errors.
class Handler {
  public:
    explicit Handler(TokenizerFile& file, size_t text_bytes) : file_(file), text_bytes_(text_bytes) {}

    bool null() { return value(Json()); }
    bool boolean(bool is_true) { return value(Json(is_true)); }
    bool number_integer(int64_t number) { return value(Json(number)); }
    bool number_float(double number, const std::string&) { return value(Json(number)); }
    bool binary(Json::binary_t&) { return true; }
    bool number_unsigned(uint64_t number);
    bool string(std::string& text);
    bool start_object(size_t);
    bool key(std::string& name);
    bool end_object();
    bool start_array(size_t);
    bool end_array();
    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&);

  private:
    // Which table the parser is in.
    enum class Table { none, vocabulary, merges, pair, skipped };

    bool value(Json scalar);
    Json* place(Json element);
    bool open(Json container, Table table);
    bool close(Table table);
    bool is_at(std::string_view name) const;
    void add_merge(std::string_view left, std::string_view right);
    void add_legacy_merge(const std::string& text);

    TokenizerFile& file_;
    size_t text_bytes_;
    Table table_ = Table::none;
    size_t depth_ = 0;
    size_t skipped_depth_ = 0;        // depth at which the skipped value began
    std::vector<Json*> containers_;   // open ones of the document
    std::vector<std::string> keys_;   // the last key of each open container
    size_t values_ = 0;               // in the document
    std::string token_;               // key in the vocabulary
    std::vector<std::string> sides_;  // of the pair being read
    bool has_text_merges_ = false;
    bool has_pair_merges_ = false;
};

// Whether the next value is the member `name` of `model`.
bool Handler::is_at(std::string_view name) const {
    return depth_ == 2 && keys_.size() == 2 && keys_[0] == "model" && keys_[1] == name && containers_[1]->is_object();
}

// Puts an element where the document stands; returns its address.
Json* Handler::place(Json element) {
    if (++values_ > kMaxValues) fail(fmt::format("more than {} values outside vocabulary and merges", kMaxValues));
    if (containers_.empty()) return &(file_.rest = std::move(element));
    Json& container = *containers_.back();
    if (container.is_array()) return &container.emplace_back(std::move(element));
    return &(container[keys_.back()] = std::move(element));
}

bool Handler::value(Json scalar) {
    if (table_ == Table::skipped) return true;
    if (table_ == Table::vocabulary) fail("the id of a token is not a whole number", {{"token", token_}});
    if (table_ != Table::none || is_at("merges")) {
        fail("the merges are not a list of pairs", {{"field", "model.merges"}});
    }
    place(std::move(scalar));
    return true;
}

bool Handler::number_unsigned(uint64_t number) {
    if (table_ != Table::vocabulary) return value(Json(number));
    file_.vocabulary.add_model_token(std::move(token_), number);
    return true;
}

bool Handler::string(std::string& text) {
    if (table_ == Table::pair) {
        if (sides_.size() == 2) fail("a merge has more than two sides", {{"field", "model.merges"}});
        sides_.push_back(std::move(text));
        return true;
    }
    if (table_ != Table::merges) return value(Json(std::move(text)));
    add_legacy_merge(text);
    return true;
}

// "left right", the form of older files; a line that begins with #version is a heading there.
void Handler::add_legacy_merge(const std::string& text) {
    has_text_merges_ = true;
    if (text.starts_with("#version")) return;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
        fail("a merge is not two pieces with a space between", {{"field", "model.merges"}, {"merge", text}});
    }
    add_merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
}

void Handler::add_merge(std::string_view left, std::string_view right) {
    if (file_.merges.size() == kMaxMerges) {
        fail(fmt::format("more than {} merges", kMaxMerges), {{"field", "model.merges"}});
    }
    file_.merges.add(left, right);
}

bool Handler::open(Json container, Table table) {
    if (++depth_ > kMaxDepth) fail(fmt::format("the JSON is nested deeper than {} levels", kMaxDepth));
    if (table_ == Table::skipped) return true;
    if (table != Table::none) {
        table_ = table;
        return true;
    }
    containers_.push_back(place(std::move(container)));
    keys_.emplace_back();
    return true;
}

// Leaves a container; `table` is where the parser stands after one that belongs to a table.
bool Handler::close(Table table) {
    --depth_;
    if (table_ == Table::skipped) {
        if (depth_ == skipped_depth_) table_ = Table::none;
    } else if (table_ != Table::none) {
        table_ = table;
    } else {
        containers_.pop_back();
        keys_.pop_back();
    }
    return true;
}

bool Handler::start_object(size_t) {
    if (table_ == Table::vocabulary) fail("the id of a token is not a whole number", {{"token", token_}});
    if (table_ == Table::merges || table_ == Table::pair || is_at("merges")) {
        fail("the merges are not a list of pairs", {{"field", "model.merges"}});
    }
    if (!is_at("vocab")) return open(Json::object(), Table::none);
    file_.has_vocabulary = true;
    return open({}, Table::vocabulary);
}

bool Handler::key(std::string& name) {
    if (table_ == Table::skipped) return true;
    if (table_ == Table::vocabulary) {
        token_ = std::move(name);
        return true;
    }
    const bool is_table = depth_ == 2 && keys_[0] == "model" && (name == "vocab" || name == "merges");
    if (containers_.back()->contains(name) ||
        (is_table && (name == "vocab" ? file_.has_vocabulary : file_.has_merges))) {
        fail("a field is there twice", {{"field", name}});
    }
    keys_.back() = std::move(name);
    return true;
}

bool Handler::end_object() { return close(Table::none); }

bool Handler::start_array(size_t) {
    if (table_ == Table::vocabulary) fail("the id of a token is not a whole number", {{"token", token_}});
    if (table_ == Table::pair) fail("a side of a merge is not a string", {{"field", "model.merges"}});
    if (table_ == Table::merges) {
        has_pair_merges_ = true;
        sides_.clear();
        return open({}, Table::pair);
    }
    if (is_at("merges")) {
        file_.has_merges = true;
        return open({}, Table::merges);
    }
    if (table_ == Table::none && is_at("vocab")) {
        skipped_depth_ = depth_;
        return open({}, Table::skipped);
    }
    return open(Json::array(), Table::none);
}

bool Handler::end_array() {
    if (table_ == Table::pair) {
        if (sides_.size() != 2) fail("a merge has fewer than two sides", {{"field", "model.merges"}});
        add_merge(sides_[0], sides_[1]);
        return close(Table::merges);
    }
    if (table_ == Table::merges && has_text_merges_ && has_pair_merges_) {
        fail("the merges mix pairs and strings", {{"field", "model.merges"}});
    }
    return close(Table::none);
}

bool Handler::parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    fail(position > text_bytes_ ? "the JSON ends in the middle" : "this is not valid JSON",
         {{"byte", std::to_string(position)}, {"bytes", std::to_string(text_bytes_)}});
}

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) fail("the file is empty");
    if (text.size() > kMaxBytes) {
        fail(fmt::format("the file has {} bytes, more than the {} allowed", text.size(), kMaxBytes));
    }
    TokenizerFile file;
    Handler handler(file, text.size());
    Json::sax_parse(text.data(), text.data() + text.size(), &handler);
    if (!file.rest.is_object()) fail("the file is not a JSON object");
    return file;
}

}  // namespace gemmatrace::text
