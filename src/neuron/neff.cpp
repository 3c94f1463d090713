// The header field by field; the list of variables as a stream of JSON events, as it may have hundreds of thousands.
#include "neuron/neff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "neuron/archive.h"

namespace gemmatrace::neuron {
namespace {

constexpr std::string_view kDefinition = "sg00/def.json";
constexpr size_t kMostVariables = 2'000'000;
constexpr size_t kDeepestJson = 256;
constexpr uint64_t kLargestVariable = uint64_t{1} << 48;  // bytes

[[noreturn]] void fail_neff(const std::string& where, std::string fault) {
    throw Error(ErrorCode::corrupt, std::move(fault), {{"file", printable(where)}},
                "compile the program again; if the file was copied, copy it again");
}

uint64_t little_endian(std::span<const std::byte> file, size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t place = bytes; place-- > 0;) value = value << 8 | std::to_integer<uint64_t>(file[at + place]);
    return value;
}

std::string header_text(std::span<const std::byte> file, size_t at, size_t length) {
    const std::string_view field(reinterpret_cast<const char*>(file.data()) + at, length);
    return printable(field.substr(0, field.find('\0')));
}

NeffInfo read_header(std::span<const std::byte> file, const std::string& where) {
    if (file.size() < kNeffHeaderBytes) {
        fail_neff(where, fmt::format("this is no NEFF: it has {} bytes, and the header alone {}", file.size(),
                                     kNeffHeaderBytes));
    }
    const uint64_t header_bytes = little_endian(file, 8, 8);
    const uint64_t data_bytes = little_endian(file, 16, 8);
    if (header_bytes != kNeffHeaderBytes) {
        fail_neff(where, fmt::format("this is no NEFF: its header says it has {} bytes, not {}", header_bytes,
                                     kNeffHeaderBytes));
    }
    if (data_bytes != file.size() - kNeffHeaderBytes) {
        fail_neff(where, fmt::format("the NEFF's header speaks of {} bytes after it, and there are {}", data_bytes,
                                     file.size() - kNeffHeaderBytes));
    }
    NeffInfo info;
    info.version_major = little_endian(file, 24, 8);
    info.version_minor = little_endian(file, 32, 8);
    info.build_version = header_text(file, 40, 128);
    info.name = header_text(file, 220, 256);
    info.feature_bits = little_endian(file, 544, 8);
    info.lnc_size = static_cast<uint32_t>(little_endian(file, 552, 4));
    return info;
}

// Takes {"var": {NAME: {"type": …, "size": …, "backing_variable_off": …}}} out of the events of a JSON text; all else
// passes by. Answers false to stop at the first fault.
class VariableReader : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit VariableReader(NeffInfo& info) : info_(info) {}

    const std::string& fault() const { return fault_; }
    bool has_list() const { return has_list_; }

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return number(std::nullopt); }
    bool number_unsigned(number_unsigned_t value) override { return number(value); }
    bool number_float(number_float_t, const string_t&) override { return number(std::nullopt); }
    bool string(string_t& value) override {
        if (depth_ == kFields && open_ == depth_ && key_ == "type") type_ = value;
        return true;
    }
    bool binary(binary_t&) override { return true; }
    bool start_object(size_t) override { return enter(true); }
    bool end_object() override { return leave(); }
    bool start_array(size_t) override { return enter(false); }
    bool end_array() override { return leave(); }
    bool key(string_t& name) override {
        if (open_ == depth_) key_ = name;
        return true;
    }
    bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
        return fail(fmt::format("the list of variables is no JSON at byte {}", at));
    }

  private:
    static constexpr size_t kFields = 3;  // objects around the members of a variable

    bool fail(std::string fault) {
        fault_ = std::move(fault);
        return false;
    }

    // depth_ counts the objects on the way to a variable; open_ all that is open, so that they differ inside what
    // passes by.
    bool enter(bool is_object) {
        if (open_ >= kDeepestJson) return fail("the list of variables is nested too deeply");
        const bool is_on_way =
            is_object && open_ == depth_ && (depth_ == 0 || (depth_ == 1 && key_ == "var") || depth_ == 2);
        ++open_;
        if (!is_on_way) return true;
        if (++depth_ == 2) {
            if (has_list_) return fail("there are two lists of variables");
            has_list_ = true;
        }
        if (depth_ == kFields) {
            name_ = key_;
            type_.clear();
            bytes_ = offset_ = std::nullopt;
        }
        return true;
    }

    bool leave() {
        if (open_-- != depth_) return true;
        return depth_-- != kFields || take_variable();
    }

    bool number(std::optional<uint64_t> value) {
        if (depth_ != kFields || open_ != depth_) return true;
        if (key_ == "size") bytes_ = value;
        if (key_ == "backing_variable_off") offset_ = value;
        return true;
    }

    bool take_variable() {
        NeffTensor tensor{name_, NeffTensor::Kind::other, bytes_.value_or(0)};
        if (type_ == "input") tensor.kind = NeffTensor::Kind::input;
        if (type_ == "output") tensor.kind = NeffTensor::Kind::output;
        if (type_ == "virtual") tensor.kind = NeffTensor::Kind::scratch;
        const bool is_interface = tensor.kind == NeffTensor::Kind::input || tensor.kind == NeffTensor::Kind::output;
        if (is_interface && !bytes_) return fail(fmt::format("the size of {} is missing", printable(name_)));
        if (tensor.bytes > kLargestVariable || offset_.value_or(0) > kLargestVariable) {
            return fail(fmt::format("the size of {} is impossible", printable(name_)));
        }
        if (info_.tensors.size() == kMostVariables) return fail("there are too many variables");
        if (is_interface && !interface_.insert({tensor.kind, name_}).second) {
            return fail(fmt::format("{} stands there twice", printable(name_)));
        }
        if (tensor.kind == NeffTensor::Kind::scratch) {
            info_.scratchpad_bytes = std::max(info_.scratchpad_bytes, offset_.value_or(0) + tensor.bytes);
        }
        info_.tensors.push_back(std::move(tensor));
        return true;
    }

    NeffInfo& info_;
    size_t depth_ = 0;
    size_t open_ = 0;
    bool has_list_ = false;
    std::string key_;
    std::string name_;
    std::string type_;
    std::optional<uint64_t> bytes_;
    std::optional<uint64_t> offset_;
    std::set<std::pair<NeffTensor::Kind, std::string>> interface_;
    std::string fault_;
};

void read_variables(const std::string& text, NeffInfo& info, const std::string& where) {
    VariableReader reader(info);
    if (!nlohmann::json::sax_parse(text, &reader)) fail_neff(where, reader.fault());
    if (!reader.has_list()) fail_neff(where, fmt::format("{} has no list of variables", kDefinition));
}

}  // namespace

NeffInfo read_neff(std::span<const std::byte> file, const std::string& where) {
    NeffInfo info = read_header(file, where);
    int found = 0;
    read_archive(
        file.subspan(kNeffHeaderBytes), where, [](std::string_view name) { return name == kDefinition; },
        [&](const std::string&, const std::string& content) {
            if (++found == 1) read_variables(content, info, where);
        });
    if (found != 1) fail_neff(where, fmt::format("the NEFF's archive has {} members {}", found, kDefinition));
    return info;
}

std::optional<TensorDifference> first_difference(const NeffInfo& info, std::span<const NeffTensor> expected) {
    std::map<std::pair<NeffTensor::Kind, std::string_view>, uint64_t> found;
    for (const NeffTensor& tensor : info.tensors) found[{tensor.kind, tensor.name}] = tensor.bytes;
    for (const NeffTensor& tensor : expected) {
        const auto entry = found.find({tensor.kind, tensor.name});
        if (entry == found.end()) return TensorDifference{tensor.kind, tensor.name, {}, tensor.bytes};
        if (entry->second != tensor.bytes) {
            return TensorDifference{tensor.kind, tensor.name, entry->second, tensor.bytes};
        }
        found.erase(entry);
    }
    for (const NeffTensor& tensor : info.tensors) {
        const bool is_interface = tensor.kind == NeffTensor::Kind::input || tensor.kind == NeffTensor::Kind::output;
        if (is_interface && found.contains({tensor.kind, tensor.name})) {
            return TensorDifference{tensor.kind, tensor.name, tensor.bytes, {}};
        }
    }
    return std::nullopt;
}

void check_neff_tensors(const NeffInfo& info, std::span<const NeffTensor> expected, const std::string& where) {
    const auto difference = first_difference(info, expected);
    if (!difference) return;
    const std::string fault = !difference->bytes_in_neff ? "is not in the NEFF"
                              : !difference->bytes_expected
                                  ? "of the NEFF is not in the program"
                                  : fmt::format("has {} bytes in the NEFF, and {} in the program",
                                                *difference->bytes_in_neff, *difference->bytes_expected);
    throw Error(ErrorCode::mismatch, fmt::format("{} {} {}", difference->side(), printable(difference->name), fault),
                {{"file", printable(where)}}, "compile the bundle again, with a compiler of the list that is known");
}

std::string neff_member(std::span<const std::byte> file, std::string_view member, const std::string& where) {
    read_header(file, where);
    std::optional<std::string> found;
    read_archive(
        file.subspan(kNeffHeaderBytes), where, [&](std::string_view name) { return name == member && !found; },
        [&](const std::string&, std::string content) { found = std::move(content); });
    if (!found) {
        throw Error(ErrorCode::not_found, fmt::format("the NEFF has no member {}", printable(member)),
                    {{"file", printable(where)}}, "use a NEFF that was made by the compiler that this needs");
    }
    return *std::move(found);
}

}  // namespace gemmatrace::neuron
