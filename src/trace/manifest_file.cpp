// manifest.json written and read; what is read is believed only member by member.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "hlo/proto.h"
#include "trace/manifest.h"

namespace gemmatrace::trace {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kLargestSize = int64_t{1} << 40;  // of a dimension or a count of bytes
constexpr size_t kLongestName = 200;
constexpr size_t kMostEntries = 100'000;  // of any list
constexpr size_t kLineColumns = 118;

constexpr std::array<const char*, 3> kKinds = {"prefill", "decode", "copy"};
constexpr std::array<const char*, 2> kPrecisions = {"bf16", "fp32"};
constexpr std::array<const char*, 3> kRoles = {"weight", "cache", "step"};

// One line where it fits, otherwise a line an entry.
std::string laid_out(const ordered_json& value, size_t indent) {
    std::string line = dump_json(value);
    if (indent + line.size() <= kLineColumns || value.empty() || !value.is_structured()) return line;
    std::string text = value.is_object() ? "{" : "[";
    const std::string margin(indent + 1, ' ');
    for (auto entry = value.begin(); entry != value.end(); ++entry) {
        text += (entry == value.begin() ? "\n" : ",\n") + margin;
        if (value.is_object()) text += dump_json(entry.key()) + ":";
        text += laid_out(*entry, indent + 1);
    }
    return text + "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

ordered_json tensors_json(const std::vector<ProgramTensor>& tensors) {
    auto list = ordered_json::array();
    for (const ProgramTensor& tensor : tensors) {
        list.push_back({{"name", tensor.name},
                        {"role", kRoles[static_cast<size_t>(tensor.role)]},
                        {"type", hlo::type_name(tensor.shape.type)},
                        {"shape", tensor.shape.dimensions}});
    }
    return list;
}

ordered_json program_json(const ProgramEntry& program) {
    auto aliases = ordered_json::array();
    for (const hlo::Alias& alias : program.aliases) {
        aliases.push_back({{"output", alias.output}, {"input", alias.parameter}});
    }
    return {{"kind", kKinds[static_cast<size_t>(program.spec.kind)]},
            {"bucket", program.spec.bucket},
            {"file", program.file()},
            {"bytes", program.bytes},
            {"sha256", program.sha256},
            {"inputs", tensors_json(program.inputs)},
            {"outputs", tensors_json(program.outputs)},
            {"aliases", std::move(aliases)}};
}

ordered_json pieces_json(const std::vector<RecipePiece>& pieces) {
    auto list = ordered_json::array();
    for (const RecipePiece& piece : pieces) {
        list.push_back({{"tensor", piece.tensor},
                        {"rows", {piece.row_begin, piece.rows}},
                        {"columns", {piece.column_begin, piece.columns}}});
    }
    return list;
}

// What all ranks hold alike is written once.
ordered_json recipe_json(const WeightRecipe& recipe) {
    auto ranks = ordered_json::array();
    const auto is_first = [&](const auto& pieces) { return pieces == recipe.pieces.front(); };
    const size_t count = std::ranges::all_of(recipe.pieces, is_first) ? 1 : recipe.pieces.size();
    for (size_t rank = 0; rank < count; ++rank) ranks.push_back(pieces_json(recipe.pieces[rank]));
    return {{"name", recipe.name},
            {"shape", recipe.dimensions},
            {"outer", recipe.outer},
            {"pieces_by_rank", std::move(ranks)}};
}

// An object of the manifest, and where it stands there.
class Members {
  public:
    Members(const ordered_json& object, const std::string& where, std::string field)
        : object_(object), where_(where), field_(std::move(field)) {
        if (!object.is_object()) fail("", "is no object");
    }

    const ordered_json& at(const char* name) const {
        const auto found = object_.find(name);
        if (found == object_.end()) fail(name, "is missing");
        return *found;
    }
    int64_t integer(const char* name, int64_t low, int64_t high) const { return as_integer(at(name), name, low, high); }
    std::string text(const char* name) const {
        const ordered_json& value = at(name);
        if (!value.is_string()) fail(name, "is no text");
        auto text = value.get<std::string>();
        if (text.empty() || text.size() > kLongestName) fail(name, "is no name");
        return text;
    }
    size_t choice(const char* name, std::span<const char* const> choices) const {
        const std::string chosen = text(name);
        const auto found = std::ranges::find(choices, chosen);
        if (found == choices.end())
            fail(name, fmt::format("is \"{}\", which this program does not know", printable(chosen)));
        return static_cast<size_t>(found - choices.begin());
    }
    const ordered_json& list(const char* name) const {
        check_list(at(name), name);
        return at(name);
    }
    std::vector<int64_t> integers(const char* name, int64_t low, int64_t high) const {
        std::vector<int64_t> numbers;
        for (const ordered_json& entry : list(name)) numbers.push_back(as_integer(entry, name, low, high));
        return numbers;
    }
    Members object(const char* name) const { return {at(name), where_, path(name)}; }
    // Calls read(Members) for each object of a list.
    template <typename Read>
    void each(const char* name, const Read& read) const {
        each_of(at(name), name, read);
    }
    template <typename Read>
    void each_of(const ordered_json& list, const std::string& name, const Read& read) const {
        check_list(list, name);
        size_t index = 0;
        for (const ordered_json& entry : list) read(Members(entry, where_, fmt::format("{}[{}]", path(name), index++)));
    }
    [[noreturn]] void fail(const std::string& name, const std::string& fault) const {
        throw Error(ErrorCode::corrupt, fmt::format("{} {}", path(name), fault),
                    {{"file", printable(where_)}, {"field", path(name)}},
                    "make the bundle again with `gemmatrace compile`");
    }

  private:
    void check_list(const ordered_json& value, const std::string& name) const {
        if (!value.is_array() || value.size() > kMostEntries) fail(name, "is no list of an allowed length");
    }
    std::string path(const std::string& name) const {
        if (name.empty()) return field_.empty() ? "the manifest" : field_;
        return field_.empty() ? name : field_ + "." + name;
    }
    int64_t as_integer(const ordered_json& value, const char* name, int64_t low, int64_t high) const {
        const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kLargestSize);
        if (!value.is_number_integer() || is_large || value.get<int64_t>() < low || value.get<int64_t>() > high) {
            fail(name, fmt::format("is {}, not a whole number from {} to {}", printable(dump_json(value)), low, high));
        }
        return value.get<int64_t>();
    }

    const ordered_json& object_;
    const std::string& where_;
    std::string field_;
};

std::vector<ProgramTensor> read_tensors(const Members& program, const char* name) {
    std::vector<ProgramTensor> tensors;
    constexpr std::array kTypes = {hlo::ElementType::pred, hlo::ElementType::s32, hlo::ElementType::f32,
                                   hlo::ElementType::bf16};
    program.each(name, [&](const Members& entry) {
        ProgramTensor tensor{entry.text("name"), static_cast<ProgramTensor::Role>(entry.choice("role", kRoles)), {}};
        const std::string type = entry.text("type");
        const auto found = std::ranges::find(kTypes, type, hlo::type_name);
        if (found == kTypes.end()) entry.fail("type", fmt::format("is \"{}\"", printable(type)));
        tensor.shape = hlo::Shape(*found, entry.integers("shape", 1, kLargestSize));
        try {
            hlo::check_shape(tensor.shape);
        } catch (const Error& error) {
            entry.fail("shape", "is impossible: " + error.message());
        }
        tensors.push_back(std::move(tensor));
    });
    return tensors;
}

void read_aliases(const Members& members, ProgramEntry& program) {
    members.each("aliases", [&](const Members& entry) {
        program.aliases.push_back({entry.integer("output", 0, std::ssize(program.outputs) - 1),
                                   entry.integer("input", 0, std::ssize(program.inputs) - 1)});
    });
}

ProgramEntry read_program(const Members& members, const Manifest& manifest) {
    ProgramEntry program;
    program.spec.kind = static_cast<ProgramKind>(members.choice("kind", kKinds));
    program.spec.bucket = members.integer("bucket", 1, kLargestSize);
    if (!std::ranges::binary_search(manifest.buckets, program.spec.bucket))
        members.fail("bucket", "is none of the buckets");
    if (manifest.find(program.spec) != nullptr) members.fail("bucket", "stands there twice for this kind");
    if (members.text("file") != program.file()) members.fail("file", "is not " + program.file());
    program.bytes = static_cast<size_t>(members.integer("bytes", 1, int64_t{hlo::kLargestProtoBytes}));
    program.sha256 = members.text("sha256");
    if (program.sha256.size() != 64) members.fail("sha256", "has not 64 digits");
    program.inputs = read_tensors(members, "inputs");
    program.outputs = read_tensors(members, "outputs");
    read_aliases(members, program);
    return program;
}

int64_t run_of(const Members& piece, const char* name, int64_t& begin) {
    const auto run = piece.integers(name, 0, kLargestSize);
    if (run.size() != 2) piece.fail(name, "is not a start and a count");
    begin = run[0];
    return run[1];
}

WeightRecipe read_recipe(const Members& members, int32_t ranks) {
    WeightRecipe recipe{members.text("name"),
                        members.integers("shape", 1, kLargestSize),
                        members.integer("outer", 1, kLargestSize),
                        {}};
    const ordered_json& by_rank = members.list("pieces_by_rank");
    const auto count = static_cast<size_t>(ranks);
    if (by_rank.size() != 1 && by_rank.size() != count) members.fail("pieces_by_rank", "is not for all ranks");
    for (const ordered_json& of_rank : by_rank) {
        auto& pieces = recipe.pieces.emplace_back();
        members.each_of(of_rank, "pieces_by_rank", [&](const Members& entry) {
            RecipePiece piece;
            piece.tensor = entry.text("tensor");
            piece.rows = run_of(entry, "rows", piece.row_begin);
            piece.columns = run_of(entry, "columns", piece.column_begin);
            pieces.push_back(std::move(piece));
        });
    }
    if (recipe.pieces.size() < count) recipe.pieces.assign(count, std::vector(recipe.pieces.front()));
    return recipe;
}

void read_sizes(const Members& top, Manifest& manifest) {
    manifest.program_version = static_cast<int32_t>(top.integer("program_version", 0, 1'000'000));
    manifest.target = top.text("target");
    manifest.geometry.ranks = static_cast<int32_t>(top.integer("ranks", 1, 1024));
    manifest.geometry.slots = static_cast<int32_t>(top.integer("slots", 1, 256));
    manifest.geometry.context_tokens = top.integer("context_tokens", 1, kLargestSize);
    manifest.geometry.chunk_tokens = static_cast<int32_t>(top.integer("chunk_tokens", 1, 4096));
    manifest.geometry.precision = static_cast<model::Precision>(top.choice("precision", kPrecisions));
    manifest.buckets = top.integers("buckets", 1, kLargestSize);
    const bool is_ascending =
        std::ranges::adjacent_find(manifest.buckets, std::greater_equal()) == manifest.buckets.end();
    if (manifest.buckets.empty() || !is_ascending || manifest.buckets.back() != manifest.geometry.context_tokens) {
        top.fail("buckets", "is no ascending list up to context_tokens");
    }
    manifest.model = top.at("model");
    const Members memory = top.object("memory_per_rank");
    const auto bytes = [&](const char* name) { return static_cast<size_t>(memory.integer(name, 0, kLargestSize)); };
    manifest.memory = {bytes("weight_bytes"), bytes("cache_bytes"), bytes("step_bytes"), bytes("temporary_bytes")};
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
    ordered_json document = manifest.identity();
    document["hash"] = manifest.hash();
    document["memory_per_rank"] = {{"weight_bytes", manifest.memory.weight_bytes},
                                   {"cache_bytes", manifest.memory.cache_bytes},
                                   {"step_bytes", manifest.memory.step_bytes},
                                   {"temporary_bytes", manifest.memory.temporary_bytes}};
    auto& weights = document["weights"] = ordered_json::array();
    for (const WeightRecipe& recipe : manifest.weights) weights.push_back(recipe_json(recipe));
    auto& programs = document["programs"] = ordered_json::array();
    for (const ProgramEntry& program : manifest.programs) programs.push_back(program_json(program));
    return laid_out(document, 0) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
    const ordered_json document = parse_json(text, where, ErrorCode::corrupt, {kLargestManifestBytes, 32});
    const Members top(document, where, "");
    Manifest manifest;
    manifest.schema_version = static_cast<int32_t>(top.integer("schema_version", 0, 1'000'000));
    if (manifest.schema_version != kManifestSchema) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("the bundle's schema_version is {}, this program reads {}", manifest.schema_version,
                                kManifestSchema),
                    {{"file", printable(where)}, {"field", "schema_version"}},
                    "make the bundle again with `gemmatrace compile` of this version");
    }
    read_sizes(top, manifest);
    if (top.text("hash") != manifest.hash()) top.fail("hash", "is not the hash of what the manifest says");
    top.each("weights",
             [&](const Members& entry) { manifest.weights.push_back(read_recipe(entry, manifest.geometry.ranks)); });
    top.each("programs", [&](const Members& entry) {
        ProgramEntry program = read_program(entry, manifest);
        manifest.programs.push_back(std::move(program));
    });
    return manifest;
}

}  // namespace gemmatrace::trace
