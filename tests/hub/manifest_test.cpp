// What a hub says of a repository: honest answers read, lies refused.
#include "hub/manifest.h"

#include <gtest/gtest.h>

#include "hub/fake_hub.h"
#include "support/expect_error.h"

namespace gemmatrace::hub {
namespace {

using testing::expect_error;
using testing::hash_of;
using testing::kCommit;

constexpr const char* kConfig =
    R"({"rfilename":"config.json","size":2,"blobId":"9e26dfeeb6e641a33dae4961196235bdb965b21b"})";
const std::string kSha(64, 'a');

std::string weights(const std::string& name, const std::string& size) {
    return R"({"rfilename":")" + name + R"(","blobId":"b","size":)" + size + R"(,"lfs":{"sha256":")" + kSha +
           R"(","size":)" + size + "}}";
}

Manifest parsed(const std::string& siblings, const std::string& commit = kCommit) {
    return parse_manifest(R"({"id":"a/b","sha":")" + commit + R"(","siblings":[)" + siblings + "]}", "a/b", "main");
}

TEST(HubManifest, SizesAndHashesComeFromLargeFileEntriesOrGit) {
    const Manifest manifest = parsed(weights("model.safetensors", "123") + R"(,{"rfilename":"README.md"},)" + kConfig);
    EXPECT_EQ(manifest.commit, kCommit);
    ASSERT_EQ(manifest.files.size(), 2U);
    EXPECT_EQ(manifest.files[0].name, "config.json");
    EXPECT_EQ(manifest.files[0].hash(), HashKind::git_sha1);
    EXPECT_EQ(manifest.files[1].bytes, 123U);
    EXPECT_EQ(manifest.files[1].tag, kSha);
    EXPECT_EQ(manifest.files[1].hash(), HashKind::sha256);
    EXPECT_EQ(manifest.total_bytes(), 125U);
    EXPECT_TRUE(manifest.unmeasured.empty());
}

TEST(HubManifest, FilesWithoutSizeOrTagAreLeftToBeMeasured) {
    const Manifest manifest = parsed(R"({"rfilename":"config.json"},{"rfilename":"model.safetensors","size":-5})");
    EXPECT_TRUE(manifest.files.empty());
    EXPECT_EQ(manifest.unmeasured, (std::vector<std::string>{"config.json", "model.safetensors"}));
}

TEST(HubManifest, NamesThatWouldLeaveTheFolderAreRefused) {
    for (const char* name : {"../config.json", "/etc/passwd", "a/../../x.safetensors", "x\\n.safetensors",
                             "a\\\\b.safetensors", ".safetensors", "", "\\u001b[2J.safetensors"}) {
        expect_error(ErrorCode::corrupt, {"no repository can hold"}, [&] {
            parsed(std::string(kConfig) + "," + weights("model.safetensors", "1") + "," + weights(name, "1"));
        });
    }
}

TEST(HubManifest, SizesBeyondReasonAndTwinsAreRefused) {
    for (const char* size : {"18446744073709551615", "99999999999999999"}) {
        expect_error(ErrorCode::corrupt, {"model.safetensors"},
                     [&] { parsed(std::string(kConfig) + "," + weights("model.safetensors", size)); });
    }
    expect_error(ErrorCode::corrupt, {"twice"},
                 [] { parsed(weights("a.safetensors", "1") + "," + weights("a.safetensors", "1")); });
    expect_error(ErrorCode::corrupt, {"tokenizer.json"}, [] { parsed(weights("tokenizer.json", "99999999999")); });
}

TEST(HubManifest, TagsThatCannotBeFileNamesAreRefused) {
    expect_error(ErrorCode::corrupt, {"names the content"},
                 [] { parsed(R"({"rfilename":"config.json","size":1,"blobId":"../../evil"})"); });
}

TEST(HubManifest, AnAnswerThatIsNoneIsRefused) {
    for (const char* text : {"", "[]", "{}", "<html>", R"({"sha":"x","siblings":[]})", R"({"siblings":[]})",
                             R"({"sha":"../../../../../../../../../../../../abcd","siblings":[]})"}) {
        expect_error(ErrorCode::corrupt, {}, [&] { parse_manifest(text, "a/b", "main"); });
    }
    expect_error(ErrorCode::corrupt, {}, [] { parsed(R"("text",[],{"rfilename":7})"); });
}

TEST(HubManifest, ACommitThatWasAskedForIsTheOneDescribed) {
    const std::string other(40, '0');
    const std::string text = R"({"sha":")" + other + R"(","siblings":[]})";
    expect_error(ErrorCode::corrupt, {kCommit, other}, [&] { parse_manifest(text, "a/b", kCommit); });
}

TEST(HubManifest, ARepositoryWithoutSafetensorsHoldsNoCheckpoint) {
    expect_error(ErrorCode::not_found, {"safetensors"}, [] { parsed(kConfig); });
    expect_error(ErrorCode::not_found, {"safetensors"},
                 [] { parsed(R"({"rfilename":"model.gguf","size":1,"blobId":"b"})"); });
    expect_error(ErrorCode::not_found, {"safetensors"}, [] { parsed(weights("model.safetensors", "1")); });
}

TEST(ContentHash, DigestsAreThoseOfSha256AndOfGit) {
    EXPECT_EQ(hash_of("abc", HashKind::sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash_of("", HashKind::git_sha1), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    EXPECT_EQ(hash_of("hello\n", HashKind::git_sha1), "ce013625030ba8dba906f756967f9e9ca394464a");
    EXPECT_EQ(hash_of("abc", HashKind::none), "");
}

TEST(ContentHash, TheKindIsSeenFromTheTag) {
    EXPECT_EQ(hash_kind(std::string(64, '0')), HashKind::sha256);
    EXPECT_EQ(hash_kind(std::string(40, 'f')), HashKind::git_sha1);
    EXPECT_EQ(hash_kind(std::string(64, 'g')), HashKind::none);
    EXPECT_EQ(hash_kind(std::string(40, 'F')), HashKind::none);
    EXPECT_EQ(hash_kind("d41d8cd98f00b204e9800998ecf8427e"), HashKind::none);
}

}  // namespace
}  // namespace gemmatrace::hub
