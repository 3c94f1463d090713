// Bundles: what is written is read back, what determines programs is hashed, and what does not fit or is damaged is
// refused with the difference named.
#include "trace/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include "base/file_mapping.h"
#include "base/json.h"
#include "base/sha256.h"
#include "hlo/proto.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"
#include "trace/program_figures.h"
#include "trace/sim_device.h"

namespace gemmatrace::trace {
namespace {

using checkpoint::ModelConfig;
using gemmatrace::testing::expect_error;
using gemmatrace::testing::TemporaryFolder;
using gemmatrace::testing::write_bytes;
using nlohmann::ordered_json;

constexpr const char* kFamilies[] = {"e2b", "e4b", "12b", "26b-a4b", "31b"};

std::filesystem::path model_directory(const std::string& model) { return GEMMATRACE_SOURCE_DIR "/models/" + model; }

BundleSpec small_spec(const std::string& model, int32_t ranks = 1, int32_t slots = 2) {
    BundleSpec spec;
    spec.config = checkpoint::load_config(model_directory(model));
    spec.buckets = {32, 128};
    spec.geometry = {ranks, slots, 128, 16};
    return spec;
}

Manifest manifest_of(const BundleSpec& spec) { return BundleEmitter(spec).manifest(); }

std::string text_of(const std::filesystem::path& path) { return read_file(path, size_t{64} << 20); }

size_t entries_in(const std::filesystem::path& folder) {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

// A bundle in a folder of its own, to be read and damaged.
class ABundle : public ::testing::Test {
  protected:
    ABundle() : emitter_(small_spec("26b-a4b", 2)) { manifest_ = write_bundle(path_, emitter_, {}); }

    // Writes the manifest with a change, its hash made right again.
    void edit(const std::function<void(ordered_json&)>& change) {
        ordered_json document = ordered_json::parse(text_of(path_ / "manifest.json"));
        change(document);
        ordered_json identity;
        for (const auto& [name, value] : document.items()) {
            if (name == "hash") break;
            identity[name] = value;
        }
        document["hash"] = sha256(dump_json(identity));
        write_bytes(path_ / "manifest.json", document.dump());
    }
    void expect_unfit(const std::vector<std::string>& said) {
        const Bundle bundle(path_);
        expect_error(ErrorCode::mismatch, said, [&] { check_fits_checkpoint(bundle, model_directory("26b-a4b")); });
    }

    TemporaryFolder folder_;
    std::filesystem::path path_ = folder_ / "bundle";
    BundleEmitter emitter_;
    Manifest manifest_;
};

TEST_F(ABundle, IsReadBackAsItWasWritten) {
    const Bundle bundle(path_);
    EXPECT_EQ(bundle.manifest(), manifest_);
    EXPECT_EQ(bundle.manifest().hash(), manifest_.hash());
    ASSERT_EQ(manifest_.programs.size(), 6U) << "prefill, decode and copy of two buckets";
    for (const ProgramSpec& spec : emitter_.spec().programs()) {
        EXPECT_EQ(bundle.program(spec), emitter_.emit(spec).module) << spec.name();
    }
    EXPECT_NO_THROW(check_fits_checkpoint(bundle, model_directory("26b-a4b")));
    EXPECT_EQ(entries_in(folder_.path()), 1U) << "nothing else is left beside it";
    EXPECT_EQ(bundle.options().geometry, emitter_.spec().geometry);
    EXPECT_EQ(bundle.options().buckets, emitter_.spec().buckets);
}

TEST_F(ABundle, NamesEveryInputAndOutputWithItsRole) {
    const ProgramEntry& decode = *manifest_.find({ProgramKind::decode, 128});
    const auto count = [](const std::vector<ProgramTensor>& tensors, ProgramTensor::Role role) {
        return std::ranges::count(tensors, role, &ProgramTensor::role);
    };
    const auto caches = std::ssize(cache_buffers(emitter_.spec().config, emitter_.spec().geometry));
    EXPECT_EQ(count(decode.inputs, ProgramTensor::Role::weight), std::ssize(manifest_.weights));
    EXPECT_EQ(count(decode.inputs, ProgramTensor::Role::cache), caches);
    EXPECT_EQ(count(decode.outputs, ProgramTensor::Role::cache), caches);
    EXPECT_EQ(count(decode.outputs, ProgramTensor::Role::step), 3) << "logits, best value, best id";
    for (const hlo::Alias& alias : decode.aliases) {
        const ProgramTensor& output = decode.outputs[static_cast<size_t>(alias.output)];
        const ProgramTensor& input = decode.inputs[static_cast<size_t>(alias.parameter)];
        EXPECT_EQ(input.name, output.name + std::string(hlo::kAliasSuffix));
        EXPECT_EQ(input.shape, output.shape);
    }
}

TEST_F(ABundle, WithAnotherVersionIsRefusedWithBothNumbers) {
    edit([](ordered_json& manifest) { manifest["program_version"] = kProgramVersion + 1; });
    expect_unfit({"program_version", std::to_string(kProgramVersion + 1), std::to_string(kProgramVersion)});
    edit([](ordered_json& manifest) { manifest["schema_version"] = kManifestSchema + 1; });
    expect_error(ErrorCode::mismatch, {"schema_version", std::to_string(kManifestSchema + 1)}, [&] { Bundle{path_}; });
}

TEST_F(ABundle, OfAnotherModelIsRefusedWithTheFirstDifference) {
    const Bundle bundle(path_);
    expect_error(ErrorCode::mismatch, {"layers", "entries"},
                 [&] { check_fits_checkpoint(bundle, model_directory("31b")); });
    edit([](ordered_json& manifest) { manifest["model"]["layers"][1]["ff"] = 24; });
    expect_unfit({"layers[1].ff", "24"});
    edit([](ordered_json& manifest) { manifest["model"]["final_softcap"] = 31.5; });
    expect_unfit({"final_softcap", "31.5"});
}

TEST_F(ABundle, WhoseRecipesAreNotThisBinarysIsRefused) {
    edit([](ordered_json& manifest) { manifest["weights"][2]["pieces_by_rank"][0][0]["rows"][0] = 1; });
    expect_unfit({"weights[2]"});
}

TEST_F(ABundle, DamagedAnywhereIsCorrupt) {
    const std::string good = text_of(path_ / "manifest.json");
    for (const size_t size : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 3}) {
        write_bytes(path_ / "manifest.json", good.substr(0, size));
        expect_error(ErrorCode::corrupt, {"manifest.json"}, [&] { Bundle{path_}; });
    }
    write_bytes(path_ / "manifest.json", good);
    const ordered_json document = ordered_json::parse(good);
    for (const auto& [name, value] : document.items()) {
        if (name == "model") continue;  // looked into when it is compared
        ordered_json without = document;
        without.erase(name);
        write_bytes(path_ / "manifest.json", without.dump());
        expect_error(ErrorCode::corrupt, {name}, [&] { Bundle{path_}; });
        ordered_json wrong = document;
        wrong[name] = nullptr;
        write_bytes(path_ / "manifest.json", wrong.dump());
        expect_error(ErrorCode::corrupt, {name}, [&] { Bundle{path_}; });
    }
    ordered_json lying = document;
    lying["chunk_tokens"] = 8;
    write_bytes(path_ / "manifest.json", lying.dump());
    expect_error(ErrorCode::corrupt, {"hash"}, [&] { Bundle{path_}; });
}

TEST_F(ABundle, ThatNamesAFileOutsideItselfIsCorrupt) {
    edit([](ordered_json& manifest) { manifest["programs"][0]["file"] = "../../secret"; });
    expect_error(ErrorCode::corrupt, {"programs[0].file"}, [&] { Bundle{path_}; });
}

TEST_F(ABundle, ThatLiesAboutSizesIsCorrupt) {
    const std::vector<std::pair<std::string, ordered_json>> lies = {
        {"/programs/0/bytes", -1},
        {"/programs/0/bytes", 18446744073709551615ULL},
        {"/programs/0/bucket", 64},
        {"/programs/1/bucket", 32},
        {"/programs/0/inputs/0/shape", {0}},
        {"/programs/0/inputs/0/shape", {1LL << 40, 1LL << 40}},
        {"/programs/0/aliases/0/input", 100000},
        {"/buckets", {128, 32}},
        {"/slots", 257},
        {"/weights/0/pieces_by_rank", ordered_json::array()},
        {"/ranks", 3}};
    const std::string good = text_of(path_ / "manifest.json");
    for (const auto& [where, lie] : lies) {
        SCOPED_TRACE(where + " " + lie.dump());
        edit([&](ordered_json& manifest) { manifest[ordered_json::json_pointer(where)] = lie; });
        expect_error(ErrorCode::corrupt, {}, [&] { Bundle{path_}; });
        write_bytes(path_ / "manifest.json", good);
    }
}

TEST_F(ABundle, WithAChangedProgramIsCorruptWhenThatIsRead) {
    const ProgramSpec spec = {ProgramKind::decode, 32};
    const std::filesystem::path file = path_ / manifest_.find(spec)->file();
    std::string bytes = text_of(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_bytes(file, bytes);
    const Bundle bundle(path_);
    expect_error(ErrorCode::corrupt, {"decode_c32"}, [&] { (void)bundle.program(spec); });
    EXPECT_NO_THROW((void)bundle.program({ProgramKind::prefill, 32}));

    // A sound program of another bucket under this name, its hash and size made right.
    const std::string other = text_of(path_ / manifest_.find({ProgramKind::decode, 128})->file());
    write_bytes(file, other);
    edit([&](ordered_json& manifest) {
        for (ordered_json& program : manifest["programs"]) {
            if (program["file"] != "programs/decode_c32.hlo.pb") continue;
            program["bytes"] = other.size();
            program["sha256"] = sha256(other);
            program["inputs"][0]["name"] = "renamed";
        }
    });
    const Bundle forged(path_);
    expect_error(ErrorCode::corrupt, {"decode_c32"}, [&] { (void)forged.program(spec); });

    write_bytes(file, bytes.substr(1));
    expect_error(ErrorCode::corrupt, {"decode_c32"}, [&] { Bundle{path_}; });
    std::filesystem::remove(file);
    expect_error(ErrorCode::corrupt, {"missing", "decode_c32"}, [&] { Bundle{path_}; });
}

TEST_F(ABundle, WithoutAProgramSaysWhichOne) {
    const Bundle bundle(path_);
    expect_error(ErrorCode::mismatch, {"decode_c64"}, [&] { (void)bundle.program({ProgramKind::decode, 64}); });
}

TEST(Bundles, NotThereAreNotFound) {
    const TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"manifest.json"}, [&] { Bundle{folder.path()}; });
    expect_error(ErrorCode::not_found, {"manifest.json"}, [&] { Bundle{folder / "nowhere"}; });
}

TEST(Bundles, NeverTakeTheLastStepHalfWay) {
    const TemporaryFolder folder;
    const BundleEmitter emitter(small_spec("demo"));
    int asked = 0;
    BundleOutput output;
    output.is_cancelled = [&] { return ++asked > 2; };
    const auto error = gemmatrace::testing::thrown_error([&] { write_bundle(folder / "bundle", emitter, output); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::interrupted);
    EXPECT_EQ(entries_in(folder.path()), 0U);

    std::filesystem::create_directory(folder / "full");
    write_bytes(folder / "full" / "mine", "precious");
    expect_error(ErrorCode::bad_request, {"full"}, [&] { write_bundle(folder / "full", emitter, {}); });
    EXPECT_EQ(text_of(folder / "full" / "mine"), "precious");
    EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(Bundles, AreTheSameBytesEveryTime) {
    const TemporaryFolder folder;
    for (const char* name : {"one", "two"}) write_bundle(folder / name, BundleEmitter(small_spec("e2b", 2)), {});
    EXPECT_EQ(text_of(folder / "one" / "manifest.json"), text_of(folder / "two" / "manifest.json"));
}

TEST(Bundles, RunAsTheProgramsThatAreTracedOnTheSpot) {
    const TemporaryFolder folder;
    write_bundle(folder / "bundle", BundleEmitter(small_spec("demo")), {});
    const Bundle bundle(folder / "bundle");
    DeviceModelOptions traced;
    traced.geometry = bundle.manifest().geometry;
    traced.buckets = bundle.manifest().buckets;
    DeviceModel of_bundle(make_sim_device(1, 1), model_directory("demo"), bundle.options());
    DeviceModel on_the_spot(make_sim_device(1, 1), model_directory("demo"), traced);
    std::vector<int32_t> ids = {2};
    while (ids.size() < 40) ids.push_back(300 + static_cast<int32_t>(ids.size()));
    of_bundle.prefill(1, ids);
    on_the_spot.prefill(1, ids);
    EXPECT_TRUE(std::ranges::equal(of_bundle.logits(0), on_the_spot.logits(0)));
}

TEST(Bundles, HoldARecipeForEveryElementOfEveryWeightInput) {
    for (const char* family : kFamilies) {
        for (const WeightRecipe& recipe : manifest_of(small_spec(family, 2)).weights) {
            int64_t expected = 1;
            for (const int64_t size : recipe.dimensions) expected *= size;
            ASSERT_EQ(recipe.pieces.size(), 2U);
            for (const auto& pieces : recipe.pieces) {
                int64_t elements = 0;
                for (const RecipePiece& piece : pieces) elements += piece.rows * piece.columns * recipe.outer;
                EXPECT_EQ(elements, expected) << family << " " << recipe.name;
            }
        }
    }
}

// One change of each field that counts; what it is called in the manifest.
struct FieldChange {
    const char* field;
    std::function<void(BundleSpec&)> change;
};

std::vector<FieldChange> model_changes() {
    return {{"hidden_size", [](BundleSpec& spec) { ++spec.config.hidden_size; }},
            {"vocab_size", [](BundleSpec& spec) { ++spec.config.vocab_size; }},
            {"ple_dim", [](BundleSpec& spec) { ++spec.config.ple_dim; }},
            {"ple_vocab_size", [](BundleSpec& spec) { ++spec.config.ple_vocab_size; }},
            {"rms_norm_eps", [](BundleSpec& spec) { spec.config.rms_norm_eps = 2e-6; }},
            {"final_softcap", [](BundleSpec& spec) { spec.config.final_softcap = 31.0; }},
            {"final_softcap", [](BundleSpec& spec) { spec.config.final_softcap.reset(); }},
            {"max_position_embeddings", [](BundleSpec& spec) { ++spec.config.max_position_embeddings; }},
            {"sliding_window", [](BundleSpec& spec) { ++spec.config.sliding_window; }},
            {"sliding_rope.theta", [](BundleSpec& spec) { spec.config.sliding_rope.theta += 1.0; }},
            {"sliding_rope.rotated_pairs", [](BundleSpec& spec) { ++spec.config.sliding_rope.rotated_pairs; }},
            {"sliding_rope.factor", [](BundleSpec& spec) { spec.config.sliding_rope.factor += 1.0; }},
            {"full_rope.theta", [](BundleSpec& spec) { spec.config.full_rope.theta += 1.0; }},
            {"full_rope.rotated_pairs", [](BundleSpec& spec) { ++spec.config.full_rope.rotated_pairs; }},
            {"full_rope.factor", [](BundleSpec& spec) { spec.config.full_rope.factor += 1.0; }},
            {"has_untied_head", [](BundleSpec& spec) { spec.has_untied_head = true; }},
            {"layers", [](BundleSpec& spec) { spec.config.layers.pop_back(); }}};
}

std::vector<FieldChange> layer_changes() {
    const auto layer = [](BundleSpec& spec) -> checkpoint::LayerSpec& { return spec.config.layers[1]; };
    using checkpoint::AttentionKind;
    return {{"attention",
             [=](BundleSpec& spec) {
                 auto& kind = layer(spec).attention;
                 kind = kind == AttentionKind::full ? AttentionKind::sliding : AttentionKind::full;
             }},
            {"q_heads", [=](BundleSpec& spec) { ++layer(spec).q_heads; }},
            {"kv_heads", [=](BundleSpec& spec) { ++layer(spec).kv_heads; }},
            {"head_dim", [=](BundleSpec& spec) { ++layer(spec).head_dim; }},
            {"window", [=](BundleSpec& spec) { ++layer(spec).window; }},
            {"k_eq_v", [=](BundleSpec& spec) { layer(spec).k_eq_v = !layer(spec).k_eq_v; }},
            {"kv_layer", [=](BundleSpec& spec) { ++layer(spec).kv_layer; }},
            {"shares_kv", [=](BundleSpec& spec) { layer(spec).shares_kv = !layer(spec).shares_kv; }},
            {"ff", [=](BundleSpec& spec) { ++layer(spec).ff; }},
            {"moe.experts", [=](BundleSpec& spec) { ++layer(spec).moe->experts; }},
            {"moe.top_k", [=](BundleSpec& spec) { ++layer(spec).moe->top_k; }},
            {"moe.ff", [=](BundleSpec& spec) { ++layer(spec).moe->ff; }},
            {"moe", [=](BundleSpec& spec) { layer(spec).moe.reset(); }}};
}

// The manifest of a spec that need not be possible.
Manifest identity_of(const BundleSpec& spec) {
    Manifest manifest;
    manifest.target = spec.target;
    manifest.geometry = spec.geometry;
    manifest.buckets = spec.buckets;
    manifest.model = model_identity(spec.config, spec.has_untied_head);
    return manifest;
}

TEST(AManifest, ChangesItsHashWithEveryFieldOfTheModel) {
    const BundleSpec base = small_spec("26b-a4b", 2);
    const Manifest manifest = manifest_of(base);
    std::set<std::string> hashes = {identity_of(base).hash()};
    std::vector<FieldChange> changes = model_changes();
    std::vector<std::string> names;
    for (const FieldChange& change : changes) names.emplace_back(change.field);
    for (FieldChange& change : layer_changes()) {
        names.push_back(std::string("layers[1].") + change.field);
        changes.push_back(std::move(change));
    }
    for (size_t index = 0; index < changes.size(); ++index) {
        SCOPED_TRACE(names[index]);
        BundleSpec changed = base;
        changes[index].change(changed);
        EXPECT_TRUE(hashes.insert(identity_of(changed).hash()).second);
        expect_error(ErrorCode::mismatch, {names[index]},
                     [&] { check_fits(manifest, changed.config, changed.has_untied_head); });
    }
}

TEST(AManifest, ChangesItsHashWithEverySize) {
    const BundleSpec base = small_spec("demo");
    std::set<std::string> hashes = {identity_of(base).hash()};
    const std::vector<std::function<void(BundleSpec&)>> changes = {
        [](BundleSpec& spec) { ++spec.geometry.ranks; },
        [](BundleSpec& spec) { ++spec.geometry.slots; },
        [](BundleSpec& spec) { ++spec.geometry.context_tokens; },
        [](BundleSpec& spec) { ++spec.geometry.chunk_tokens; },
        [](BundleSpec& spec) { spec.geometry.precision = model::Precision::fp32; },
        [](BundleSpec& spec) {
            spec.buckets = {64, 128};
        },
        [](BundleSpec& spec) { spec.target = "other"; }};
    for (const auto& change : changes) {
        BundleSpec changed = base;
        change(changed);
        EXPECT_TRUE(hashes.insert(identity_of(changed).hash()).second);
    }
    Manifest older = identity_of(base);
    ++older.program_version;
    EXPECT_TRUE(hashes.insert(older.hash()).second);
}

TEST(AManifest, DoesNotDependOnWhatOnlyNamesTokensFilesOrStoredTypes) {
    BundleSpec spec = small_spec("demo");
    const std::string hash = identity_of(spec).hash();
    spec.config.dtype = "float32";
    spec.config.model_type = "gemma4_text";
    spec.config.is_text_only = !spec.config.is_text_only;
    spec.config.eos_token_ids.push_back(7);
    spec.config.media_token_ids.clear();
    spec.config.bos_token_id.reset();
    ++spec.config.pad_token_id;
    EXPECT_EQ(identity_of(spec).hash(), hash);
}

// When this fails because trace_program makes other programs, raise kProgramVersion and take the new digest.
TEST(AManifest, HasAVersionThatKnowsThePrograms) {
    std::string digests;
    for (const char* family : kFamilies) {
        const BundleEmitter emitter(small_spec(family, 2));
        for (const ProgramSpec& spec : emitter.spec().programs()) digests += sha256(emitter.emit(spec).proto);
    }
    EXPECT_EQ(kProgramVersion, 1);
    EXPECT_EQ(sha256(digests), "0e2c533a36a6500eb7e1914b953b6d69fbf9fceac9d85fbf0a9fb4801ac02aa4");
}

TEST(Figures, OfADecodeStepStayCloseToTheirFloor) {
    for (const char* family : kFamilies) {
        const BundleEmitter emitter(small_spec(family, 2));
        const ProgramFigures figures = figures_of(emitter, emitter.emit({ProgramKind::decode, 128}));
        EXPECT_EQ(figures.findings, 0U);
        EXPECT_EQ(figures.weight_inputs, std::ssize(emitter.packing().inputs));
        EXPECT_GE(figures.bytes_read, figures.floor_bytes) << family;
        EXPECT_LT(static_cast<double>(figures.bytes_read), 1.25 * static_cast<double>(figures.floor_bytes)) << family;
        EXPECT_GT(figures.largest.at("dot").shape.bytes(), 0U);
        EXPECT_EQ(figures.floor_bytes, decode_floor_bytes(emitter, {ProgramKind::decode, 128}));
    }
}

}  // namespace
}  // namespace gemmatrace::trace
