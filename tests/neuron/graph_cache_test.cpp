// The cache: keys over everything that decides, entries that are believed only whole.
#include "neuron/graph_cache.h"

#include <cerrno>
#include <fstream>

#include "base/file_mapping.h"
#include "neuron/compiled.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

const CacheIngredients kIngredients = {std::string(64, 'a'), {"--target=inf2", "-O1"}, "2.26.6360.0+x", "2023.2.5"};

class GraphCacheTest : public ::testing::Test {
  protected:
    fs::path file() const { return folder_ / "cache" / "v1" / (kIngredients.key() + ".neff-entry"); }

    TemporaryFolder folder_;
    std::vector<std::string> remarks_;
    GraphCache cache_{folder_ / "cache", [this](const std::string& text) { remarks_.push_back(text); }};
    const CacheEntry entry_{std::string("neff\n\0bytes", 11), 12.5, 7'500'000'000};
};

TEST_F(GraphCacheTest, F037TheKeyChangesWithEachThingThatDecides) {
    std::set<std::string> keys = {kIngredients.key()};
    CacheIngredients other = kIngredients;
    other.program_sha256.back() = 'b';
    keys.insert(other.key());
    other = kIngredients;
    other.flags.push_back("--disable-dge");
    keys.insert(other.key());
    other = kIngredients;
    other.flags = {"--target=inf2 -O1"};  // one word is not two
    keys.insert(other.key());
    other = kIngredients;
    other.compiler += "y";
    keys.insert(other.key());
    other = kIngredients;
    other.islpy = "2026.1";
    keys.insert(other.key());
    EXPECT_EQ(keys.size(), 6U);
    EXPECT_EQ(kIngredients.key(), CacheIngredients(kIngredients).key());
    EXPECT_EQ(kIngredients.key().size(), 64U);
}

TEST_F(GraphCacheTest, WhatWasStoredIsFoundAndNothingElse) {
    EXPECT_FALSE(cache_.find(kIngredients.key()));
    cache_.store(kIngredients, "decode_c64", entry_);
    cache_.store(kIngredients, "decode_c64", entry_);  // a second process that made the same
    const auto found = cache_.find(kIngredients.key());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->neff, entry_.neff);
    EXPECT_EQ(found->seconds, 12.5);
    EXPECT_EQ(found->peak_memory_bytes, 7'500'000'000U);
    EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
    EXPECT_TRUE(remarks_.empty());
}

TEST_F(GraphCacheTest, AMountThatCannotRenameIsWrittenToDirectly) {
    for (const int error : {ENOSYS, EPERM}) {
        const GraphCache mounted(
            folder_ / "cache", [this](const std::string& text) { remarks_.push_back(text); },
            [error](const char*, const char*) {
                errno = error;
                return -1;
            });
        mounted.store(kIngredients, "decode_c64", entry_);
        EXPECT_EQ(mounted.find(kIngredients.key())->neff, entry_.neff);
        EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), {}), 1);
    }
    EXPECT_TRUE(remarks_.empty());
    const GraphCache failing(
        folder_ / "other", [this](const std::string& text) { remarks_.push_back(text); },
        [](const char*, const char*) {
            errno = EIO;
            return -1;
        });
    failing.store(kIngredients, "decode_c64", entry_);
    EXPECT_FALSE(failing.find(kIngredients.key()));
    EXPECT_EQ(remarks_.size(), 1U);
}

TEST_F(GraphCacheTest, F049AnEntryThatIsCutOrChangedAnywhereIsRemoved) {
    cache_.store(kIngredients, "decode_c64", entry_);
    const std::string whole = read_file(file(), 1 << 20);
    for (size_t place = 0; place < whole.size(); place += 3) {
        for (const bool is_cut : {true, false}) {
            std::string damaged = whole;
            if (is_cut)
                damaged.resize(place);
            else
                damaged[place] = static_cast<char>(damaged[place] ^ 1);
            std::ofstream(file(), std::ios::binary) << damaged;
            remarks_.clear();
            EXPECT_FALSE(cache_.find(kIngredients.key())) << place;
            EXPECT_FALSE(fs::exists(file())) << place;
            ASSERT_EQ(remarks_.size(), 1U);
            EXPECT_THAT(remarks_[0], ::testing::HasSubstr("damaged"));
        }
    }
}

TEST_F(GraphCacheTest, AnEntryOfAnotherKeyIsNone) {
    cache_.store(kIngredients, "decode_c64", entry_);
    CacheIngredients other = kIngredients;
    other.islpy = "2026.1";
    fs::copy_file(file(), file().parent_path() / (other.key() + ".neff-entry"));
    EXPECT_FALSE(cache_.find(other.key()));
    EXPECT_TRUE(cache_.find(kIngredients.key()));
}

TEST_F(GraphCacheTest, AFolderThatCannotBeWrittenIsRemarkedOn) {
    std::ofstream(folder_ / "cache") << "a file";
    cache_.store(kIngredients, "decode_c64", entry_);
    EXPECT_FALSE(cache_.find(kIngredients.key()));
    EXPECT_TRUE(cache_.try_lock(kIngredients.key()));
    EXPECT_EQ(cache_.keep_failure("decode_c64", kIngredients.key(), "log"), "");
    EXPECT_EQ(remarks_.size(), 2U);
}

TEST_F(GraphCacheTest, OneAtATimeHasTheLockOfAKey) {
    auto first = cache_.try_lock(kIngredients.key());
    ASSERT_TRUE(first);
    EXPECT_FALSE(cache_.try_lock(kIngredients.key()));
    CacheIngredients other = kIngredients;
    other.islpy = "2026.1";
    EXPECT_TRUE(cache_.try_lock(other.key()));
    first.reset();
    EXPECT_TRUE(cache_.try_lock(kIngredients.key()));
}

TEST_F(GraphCacheTest, HalfWrittenFilesGoAwayAfterAnHour) {
    cache_.store(kIngredients, "decode_c64", entry_);
    cache_.try_lock(kIngredients.key());
    const fs::path young = file().string() + ".abcdef";
    const fs::path old = file().string() + ".ghijkl";
    for (const fs::path& path : {young, old}) std::ofstream(path) << "half";
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(2);
    for (const fs::path& path : {old, file(), fs::path(file().string() + ".lock")}) fs::last_write_time(path, long_ago);
    cache_.remove_abandoned();
    EXPECT_FALSE(fs::exists(old));
    EXPECT_TRUE(fs::exists(young));
    EXPECT_TRUE(cache_.find(kIngredients.key()));
    EXPECT_TRUE(fs::exists(file().string() + ".lock"));
}

TEST_F(GraphCacheTest, AFailuresLogIsKept) {
    const fs::path kept = cache_.keep_failure("decode_c64", kIngredients.key(), "why\n");
    cache_.keep_failure("decode_c64", kIngredients.key(), "why again\n");
    EXPECT_EQ(read_file(kept, 100), "why again\n");
}

TEST(GraphCacheFolder, IsTheUsersUnlessNamed) {
    const auto folder = [](std::map<std::string, std::string> environment) {
        return default_cache_folder([environment](const char* name) -> std::optional<std::string> {
            const auto found = environment.find(name);
            return found == environment.end() ? std::nullopt : std::optional(found->second);
        });
    };
    EXPECT_EQ(folder({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/gemmatrace/neff");
    EXPECT_EQ(folder({{"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}}), "/h/.cache/gemmatrace/neff");
    expect_error(ErrorCode::bad_request, {"--cache"}, [&] { folder({}); });
}

// A manifest and what was compiled from it.
trace::Manifest small_manifest() {
    trace::Manifest manifest;
    manifest.target = "inf2";
    manifest.geometry.context_tokens = 64;
    manifest.buckets = {64};
    trace::ProgramEntry entry;
    entry.spec = {trace::ProgramKind::decode, 64};
    entry.sha256 = std::string(64, 'a');
    const hlo::Shape shape(hlo::ElementType::bf16, {2, 8});
    entry.inputs = {{"hidden", trace::ProgramTensor::Role::step, shape},
                    {"cache.must_alias_input", trace::ProgramTensor::Role::cache, shape}};
    entry.outputs = {{"cache", trace::ProgramTensor::Role::cache, shape}};
    manifest.programs = {entry};
    return manifest;
}

Compiled small_compiled(const trace::Manifest& manifest) {
    Compiled compiled{manifest.hash(), "inf2", "2.26.6360.0", "2023.2.5", {"-O1"}, {}};
    compiled.programs = {{"decode_c64", 4, "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589",
                          std::string(64, 'a'), std::string(64, 'k'), 1.5, 99, 1, 4096}};
    return compiled;
}

TEST(CompiledBundle, ReadsWhatItWrites) {
    const TemporaryFolder folder;
    const trace::Manifest manifest = small_manifest();
    expect_error(ErrorCode::not_found, {"not compiled"}, [&] { read_compiled(folder.path(), manifest); });
    const Compiled compiled = small_compiled(manifest);
    std::ofstream(folder / "compiled.json") << compiled_text(compiled);
    EXPECT_EQ(read_compiled(folder.path(), manifest), compiled);
    fs::create_directory(folder / "programs");
    std::ofstream(folder / "programs/decode_c64.neff") << "abcd";
    EXPECT_EQ(neff_of(folder.path(), compiled.find("decode_c64")), "abcd");
    std::ofstream(folder / "programs/decode_c64.neff") << "abce";
    expect_error(ErrorCode::corrupt, {"not the one"}, [&] { neff_of(folder.path(), compiled.find("decode_c64")); });
    std::ofstream(folder / "programs/decode_c64.neff") << "abc";
    expect_error(ErrorCode::corrupt, {"3 bytes, not 4"}, [&] { neff_of(folder.path(), compiled.find("decode_c64")); });
    expect_error(ErrorCode::mismatch, {"decode_c32"}, [&] { compiled.find("decode_c32"); });
}

TEST(CompiledBundle, F037OfAnotherManifestOrProgramIsRefused) {
    const TemporaryFolder folder;
    const trace::Manifest manifest = small_manifest();
    const auto refused = [&](ErrorCode code, const char* said, auto change) {
        Compiled compiled = small_compiled(manifest);
        change(compiled);
        std::ofstream(folder / "compiled.json") << compiled_text(compiled);
        expect_error(code, {said, "compiled.json"}, [&] { read_compiled(folder.path(), manifest); });
    };
    refused(ErrorCode::mismatch, "another manifest", [](Compiled& compiled) { compiled.manifest_hash[0] ^= 1; });
    refused(ErrorCode::mismatch, "another manifest", [](Compiled& compiled) { compiled.target = "trn2"; });
    refused(ErrorCode::mismatch, "0 programs", [](Compiled& compiled) { compiled.programs.clear(); });
    refused(ErrorCode::mismatch, "of another program",
            [](Compiled& compiled) { compiled.programs[0].program_sha256[0] = 'b'; });
    refused(ErrorCode::mismatch, "of another program", [](Compiled& compiled) { compiled.programs[0].name = "../x"; });
    const auto refused_text = [&](ErrorCode code, const std::string& text) {
        std::ofstream(folder / "compiled.json") << text;
        expect_error(code, {"compiled.json"}, [&] { read_compiled(folder.path(), manifest); });
    };
    refused_text(ErrorCode::corrupt, "{");
    refused_text(ErrorCode::corrupt, "[]");
    refused_text(ErrorCode::corrupt, R"({"schema_version": 1, "hash": 4})");
    refused_text(ErrorCode::mismatch, R"({"schema_version": 2})");
}

TEST(CompiledBundle, ANeffMustTakeAndGiveWhatTheProgramDoes) {
    using Kind = NeffTensor::Kind;
    const std::vector<NeffTensor> expected = expected_tensors(small_manifest().programs[0]);
    EXPECT_THAT(expected, ::testing::ElementsAre(NeffTensor{"hidden", Kind::input, 32},
                                                 NeffTensor{"cache.must_alias_input", Kind::input, 32},
                                                 NeffTensor{"cache", Kind::output, 32}));
    NeffInfo info;
    info.tensors = {expected[2], {"spill", Kind::scratch, 9}, expected[0], expected[1], {"q", Kind::other, 1}};
    check_neff_tensors(info, expected, "decode.neff");
    const auto refused = [&](const char* said, auto change) {
        NeffInfo changed = info;
        change(changed.tensors);
        expect_error(ErrorCode::mismatch, {said, "decode.neff"},
                     [&] { check_neff_tensors(changed, expected, "decode.neff"); });
    };
    refused("input hidden is not in the NEFF", [](auto& tensors) { tensors[2].name = "input0"; });
    refused("output cache is not in the NEFF", [](auto& tensors) { tensors[0].kind = Kind::other; });
    refused("hidden has 34 bytes in the NEFF, and 32", [](auto& tensors) { tensors[2].bytes = 34; });
    refused("seed of the NEFF is not in the program", [](auto& tensors) {
        tensors.push_back({"seed", Kind::input, 4});
    });
}

}  // namespace
}  // namespace gemmatrace::neuron
