// The safetensors format: eight bytes of header length, a JSON header, then the data of all tensors without a gap.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "checkpoint/tensor_store.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // as the reference library limits it
constexpr std::string_view kFetchAgain = "the file is damaged or was cut short: fetch it again and compare its size";

struct DtypeRow {
    Dtype dtype;
    std::string_view name;
    size_t bytes;
};
constexpr std::array kDtypes{
    DtypeRow{Dtype::bf16, "BF16", 2},    DtypeRow{Dtype::f16, "F16", 2},         DtypeRow{Dtype::f32, "F32", 4},
    DtypeRow{Dtype::f64, "F64", 8},      DtypeRow{Dtype::i8, "I8", 1},           DtypeRow{Dtype::i16, "I16", 2},
    DtypeRow{Dtype::i32, "I32", 4},      DtypeRow{Dtype::i64, "I64", 8},         DtypeRow{Dtype::u8, "U8", 1},
    DtypeRow{Dtype::u16, "U16", 2},      DtypeRow{Dtype::u32, "U32", 4},         DtypeRow{Dtype::u64, "U64", 8},
    DtypeRow{Dtype::boolean, "BOOL", 1}, DtypeRow{Dtype::f8_e4m3, "F8_E4M3", 1}, DtypeRow{Dtype::f8_e5m2, "F8_E5M2", 1},
};
constexpr std::array<std::string_view, 7> kUnreadDtypes{"F4",          "F6_E2M3",     "F6_E3M2", "F8_E8M0",
                                                        "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};

const DtypeRow& row_of(Dtype dtype) {
    const auto row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& r) { return r.dtype == dtype; });
    require(row != kDtypes.end(), "every dtype has a row");
    return *row;
}

Error damaged(const std::string& file, std::string message) {
    return {ErrorCode::corrupt, std::move(message), {{"file", file}}, std::string(kFetchAgain)};
}

Error damaged(const std::string& file, const std::string& tensor, std::string message) {
    return {ErrorCode::corrupt,
            std::move(message),
            {{"file", file}, {"tensor", printable(tensor)}},
            std::string(kFetchAgain)};
}

// One header entry as written, before anything is believed.
struct Entry {
    std::string name;
    std::optional<std::string> dtype;
    std::optional<std::vector<uint64_t>> shape;
    std::optional<std::vector<uint64_t>> offsets;
};

// Takes the header event by event: no tree is built, so a header of many megabytes costs no more than its entries, and
// duplicate names are seen, which a tree would hide. What the format does not know is refused where it stands.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit HeaderReader(const std::string& file) : file_(file) {}
    std::vector<Entry>&& take_entries() { return std::move(entries_); }

    bool start_object(size_t) override {
        if (depth_ > 1) throw unexpected("an object");
        ++depth_;
        if (depth_ == 2 && !in_metadata_) entries_.push_back({key_, {}, {}, {}});
        return true;
    }
    bool end_object() override {
        if (depth_ == 2 && !in_metadata_) check_complete();
        --depth_;
        return true;
    }
    bool key(std::string& text) override {
        if (depth_ == 1) {
            if (!names_.insert(text).second) throw damaged(file_, text, "the header names this tensor twice");
            key_ = text;
            in_metadata_ = text == "__metadata__";
        } else {
            field_ = text;
        }
        return true;
    }
    bool string(std::string& text) override {
        if (depth_ == 2 && in_metadata_) return true;
        if (depth_ != 2 || field_ != "dtype" || list_ != nullptr) throw unexpected("a string");
        store(entries_.back().dtype, text);
        return true;
    }
    bool start_array(size_t) override {
        if (depth_ != 2 || in_metadata_ || list_ != nullptr) throw unexpected("a list");
        if (field_ == "shape") {
            list_ = &store(entries_.back().shape, {});
        } else if (field_ == "data_offsets") {
            list_ = &store(entries_.back().offsets, {});
        } else {
            throw unexpected("a list");
        }
        return true;
    }
    bool end_array() override {
        list_ = nullptr;
        return true;
    }
    bool number_unsigned(uint64_t value) override {
        if (list_ == nullptr) throw unexpected("a number");
        list_->push_back(value);
        return true;
    }
    bool number_integer(int64_t) override { throw unexpected("a negative number"); }
    bool number_float(double, const std::string&) override { throw unexpected("a number that is no 64-bit integer"); }
    bool null() override { throw unexpected("null"); }
    bool boolean(bool) override { throw unexpected("true or false"); }
    bool binary(nlohmann::json::binary_t&) override { throw unexpected("binary data"); }
    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
        throw damaged(file_, fmt::format("the header is not valid JSON at its byte {}", position));
    }

  private:
    // Keeps the first value of a field; a second one is a lie.
    template <typename Value>
    Value& store(std::optional<Value>& slot, Value value) {
        if (slot) throw damaged(file_, key_, fmt::format("the header states {} twice", printable(field_)));
        return slot.emplace(std::move(value));
    }

    Error unexpected(std::string_view what) const {
        if (depth_ == 0) return damaged(file_, fmt::format("the header is {} instead of an object", what));
        if (depth_ == 1) return damaged(file_, key_, fmt::format("the header has {} instead of an entry", what));
        return damaged(file_, key_, fmt::format("the header has {} where {} stands", what, printable(field_)));
    }

    void check_complete() const {
        const Entry& entry = entries_.back();
        const std::string_view missing = !entry.dtype ? "dtype" : !entry.shape ? "shape" : "data_offsets";
        if (!entry.dtype || !entry.shape || !entry.offsets) {
            throw damaged(file_, entry.name, fmt::format("the header does not state {}", missing));
        }
        if (entry.offsets->size() != 2) throw damaged(file_, entry.name, "data_offsets is not a pair");
    }

    const std::string& file_;
    int depth_ = 0;
    bool in_metadata_ = false;
    std::string key_;
    std::string field_;
    std::vector<uint64_t>* list_ = nullptr;
    std::vector<Entry> entries_;
    std::set<std::string> names_;
};

Dtype parse_dtype(const std::string& file, const Entry& entry) {
    for (const DtypeRow& row : kDtypes) {
        if (row.name == *entry.dtype) return row.dtype;
    }
    if (std::find(kUnreadDtypes.begin(), kUnreadDtypes.end(), *entry.dtype) != kUnreadDtypes.end()) {
        throw Error(ErrorCode::unsupported, fmt::format("tensors of dtype {} are not read", *entry.dtype),
                    {{"file", file}, {"tensor", printable(entry.name)}},
                    "use the checkpoint with bf16, f16 or f32 weights");
    }
    throw damaged(file, entry.name, "the header states an unknown dtype");
}

// Checks an entry against the data that lies behind the header and points it there.
StoredTensor place(const std::string& file, const Entry& entry, std::span<const std::byte> data) {
    StoredTensor tensor;
    tensor.name = entry.name;
    tensor.dtype = parse_dtype(file, entry);
    for (const uint64_t dimension : *entry.shape) {
        if (dimension > static_cast<uint64_t>(INT64_MAX)) throw damaged(file, entry.name, "a dimension is too large");
        tensor.shape.push_back(static_cast<int64_t>(dimension));
    }
    const auto count = element_count(tensor.shape);
    const auto bytes = count ? checked_multiply(*count, static_cast<int64_t>(dtype_bytes(tensor.dtype))) : std::nullopt;
    if (!bytes) throw damaged(file, entry.name, "the shape is too large to be true");
    const uint64_t begin = entry.offsets->front();
    const uint64_t end = entry.offsets->back();
    if (begin > end) throw damaged(file, entry.name, fmt::format("data_offsets run backwards, {} to {}", begin, end));
    if (end > data.size()) {
        throw damaged(file, entry.name,
                      fmt::format("the data ends at byte {}, but the file has {} of data", end, data.size()));
    }
    if (end - begin != static_cast<uint64_t>(*bytes)) {
        throw damaged(file, entry.name,
                      fmt::format("the shape needs {} bytes, data_offsets give {}", *bytes, end - begin));
    }
    tensor.data = data.subspan(begin, end - begin);
    return tensor;
}

// The tensors must tile the data: no byte belongs to two of them, none to nobody.
void check_tiling(const std::string& file, const std::vector<StoredTensor>& tensors, std::span<const std::byte> data) {
    const std::byte* next = data.data();
    for (const StoredTensor& tensor : tensors) {
        if (tensor.data.data() < next) throw damaged(file, tensor.name, "its data overlaps that of another tensor");
        if (tensor.data.data() > next) {
            throw damaged(file, tensor.name,
                          fmt::format("{} bytes before its data belong to no tensor", tensor.data.data() - next));
        }
        next += tensor.data.size();
    }
    const auto rest = static_cast<size_t>(data.data() + data.size() - next);
    if (rest != 0) throw damaged(file, fmt::format("{} bytes at the end belong to no tensor", rest));
}

// The header's text, its length checked against the file and the limit.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with("version https://git-lfs")) {
        throw Error(ErrorCode::corrupt, "this is a Git LFS pointer, not the weights", {{"file", file}},
                    "run git lfs pull in the folder, or download the file itself");
    }
    if (bytes.size() < kLengthBytes) {
        throw damaged(file, fmt::format("the file has {} bytes, too few for a header", bytes.size()));
    }
    uint64_t length = 0;
    for (size_t byte = 0; byte < kLengthBytes; ++byte) {
        length |= static_cast<uint64_t>(bytes[byte]) << (8 * byte);  // little-endian on every host
    }
    if (length > kLongestHeader) {
        throw damaged(file,
                      fmt::format("the header claims {} bytes, more than the {} allowed", length, kLongestHeader));
    }
    if (length > bytes.size() - kLengthBytes) {
        throw damaged(file, fmt::format("the header claims {} bytes, but the file has {} behind its length", length,
                                        bytes.size() - kLengthBytes));
    }
    return text.substr(kLengthBytes, length);
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return row_of(dtype).name; }

size_t dtype_bytes(Dtype dtype) { return row_of(dtype).bytes; }

std::vector<StoredTensor> read_safetensors_bytes(std::span<const std::byte> bytes, const std::string& name) {
    const std::string_view header = header_text(bytes, name);
    if (!header.starts_with('{')) throw damaged(name, "the header is not a JSON object");
    // The parser takes a zero byte for the end of the text.
    if (header.find('\0') != std::string_view::npos) throw damaged(name, "the header is not valid JSON: zero bytes");
    HeaderReader reader(name);
    nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
    const auto data = bytes.subspan(kLengthBytes + header.size());
    std::vector<StoredTensor> tensors;
    for (const Entry& entry : reader.take_entries()) tensors.push_back(place(name, entry, data));
    std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
    });
    check_tiling(name, tensors, data);
    return tensors;
}

std::vector<StoredTensor> read_safetensors(const FileMapping& file) {
    return read_safetensors_bytes(file.bytes(), file.path().string());
}

}  // namespace gemmatrace::checkpoint
