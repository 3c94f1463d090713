// Names from users and servers: which are taken, and what they become.
#include "hub/names.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace gemmatrace::hub {
namespace {

using testing::expect_error;

TEST(HubNames, RepositoriesAreOwnerAndName) {
    for (const char* name : {"google/gemma-4-E2B-it", "gpt2", "a/b", "under_score/dots.in.name"}) {
        EXPECT_TRUE(is_repository_name(name)) << name;
    }
    for (const char* name : {"", "/", "a/", "/b", "a/b/c", "..", "../b", "a/..", "a b/c", "a/b?c", "a/b%2f", "ä/b",
                             "a\\b/c", "https://host/a", "a/b\n"}) {
        EXPECT_FALSE(is_repository_name(name)) << name;
    }
    EXPECT_FALSE(is_repository_name(std::string(97, 'a')));
    expect_error(ErrorCode::bad_request, {"REPO"}, [] { check_repository_name("../secret"); });
}

TEST(HubNames, RevisionsCannotLeaveTheirFolder) {
    for (const char* revision :
         {"main", "refs/pr/1", "v1.0", "feature/x_y", "0123456789abcdef0123456789abcdef01234567"}) {
        EXPECT_NO_THROW(check_revision(revision)) << revision;
    }
    for (const char* revision : {"", "..", "a/../b", "/a", "a/", "a//b", ".git", "a/.b", "-x", "a b", "a\nb", "a\\b"}) {
        expect_error(ErrorCode::bad_request, {"--revision"}, [&] { check_revision(revision); });
    }
}

TEST(HubNames, OnlyFilesOfACheckpointInTheRootAreFetched) {
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                             "chat_template.jinja", "model.safetensors", "model-00001-of-00002.safetensors",
                             "model.safetensors.index.json", "processor_config.json"}) {
        EXPECT_TRUE(is_checkpoint_file(name)) << name;
    }
    for (const char* name : {"pytorch_model.bin", "model.gguf", "onnx/model.onnx", "README.md", ".gitattributes",
                             "original/model.safetensors", "../config.json", "config.json.bak"}) {
        EXPECT_FALSE(is_checkpoint_file(name)) << name;
    }
}

TEST(HubNames, PathsThatNoRepositoryCanHoldAreRecognised) {
    for (const char* path : {"config.json", "a/b/c.bin", ".gitattributes", "ünï.json", "a..b"}) {
        EXPECT_TRUE(is_honest_path(path)) << path;
    }
    for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\nb", "a\x1b[2J", "\xff"}) {
        EXPECT_FALSE(is_honest_path(path)) << path;
    }
    EXPECT_FALSE(is_honest_path(std::string_view("a\0b", 3)));
}

TEST(HubNames, FileNamesOfOursHaveNoSeparators) {
    EXPECT_TRUE(is_safe_file_name("model-00001-of-00002.safetensors"));
    for (const std::string& name : {std::string(), std::string(".safetensors"), std::string("a/b"), std::string("a\\b"),
                                    std::string("a\rb"), std::string(201, 'a')}) {
        EXPECT_FALSE(is_safe_file_name(name)) << name;
    }
    EXPECT_TRUE(is_blob_name("0a1b-c_d.e"));
    for (const char* name : {"", ".x", "a/b", "a\"b", "W/\"x\""}) EXPECT_FALSE(is_blob_name(name)) << name;
}

TEST(HubNames, CacheFoldersAndAddressesAreThoseThatTheHubUses) {
    EXPECT_EQ(cache_folder_name("google/gemma-4-E2B-it"), "models--google--gemma-4-E2B-it");
    EXPECT_EQ(cache_folder_name("gpt2"), "models--gpt2");
    EXPECT_EQ(url_part("refs/pr/1"), "refs%2Fpr%2F1");
    EXPECT_EQ(url_part("a b#?%ü"), "a%20b%23%3F%25%C3%BC");
    EXPECT_EQ(url_repository("google/gemma-4-E2B-it"), "google/gemma-4-E2B-it");
}

}  // namespace
}  // namespace gemmatrace::hub
