// Whole pulls from a hub in memory: layouts, plans, the disk, and names that become directories.
#include "hub/pull.h"

#include <gtest/gtest.h>

#include <mutex>

#include "base/file_mapping.h"
#include "hub/fake_hub.h"
#include "hub/resolve.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::FakeAnswer;
using testing::FakeTransport;
using testing::hash_of;
using testing::honest_answer;
using testing::kCommit;
using testing::thrown_error;

class HubPull : public ::testing::Test {
  protected:
    HubPull() {
        settings_.endpoint = "http://hub";
        settings_.cache = folder_ / "cache";
        files_ = {
            {"config.json", "{}"}, {"tokenizer.json", "{\"a\":1}"}, {"model.safetensors", std::string(5000, 'w')}};
        control_.make_transport = [this](const Settings&, std::function<bool()>) {
            return std::make_unique<FakeTransport>([this](const HttpRequest& request) { return answer(request); },
                                                   nullptr);
        };
    }

    FakeAnswer answer(const HttpRequest& request) {
        const std::lock_guard guard(mutex_);
        urls_.push_back(request.url);
        if (request.url.find("/api/models/a/b/revision/main?blobs=true") != std::string::npos)
            return {200, {}, listing()};
        for (const auto& [name, content] : files_) {
            if (!request.url.ends_with(std::string("/resolve/") + kCommit + "/" + name)) continue;
            if (request.is_head) return measured(name, content);
            return honest_answer(request, content);
        }
        return {404};
    }

    // A large file lies elsewhere: the redirect there tells its size and hash.
    static FakeAnswer measured(const std::string& name, const std::string& content) {
        const std::string length = std::to_string(content.size());
        if (!name.ends_with(".safetensors")) {
            return {200, {{"etag", "\"" + hash_of(content, HashKind::git_sha1) + "\""}, {"content-length", length}}};
        }
        return {302,
                {{"x-linked-etag", "\"" + hash_of(content, HashKind::sha256) + "\""},
                 {"x-linked-size", length},
                 {"etag", "\"not-this\""},
                 {"content-length", "0"}}};
    }

    std::string listing() const {
        std::string siblings;
        for (const auto& [name, content] : files_) {
            if (!siblings.empty()) siblings += ",";
            siblings += R"({"rfilename":")" + name + "\"";
            if (is_measured_) {
                const std::string bytes = claimed_bytes_.empty() ? std::to_string(content.size()) : claimed_bytes_;
                siblings +=
                    name.ends_with(".safetensors")
                        ? R"(,"lfs":{"sha256":")" + hash_of(content, HashKind::sha256) + R"(","size":)" + bytes + "}"
                        : R"(,"blobId":")" + hash_of(content, HashKind::git_sha1) + R"(","size":)" +
                              std::to_string(content.size());
            }
            siblings += "}";
        }
        return std::string(R"({"sha":")") + kCommit + R"(","siblings":[)" + siblings + "]}";
    }

    fs::path pull(PullRequest request = {.repository = "a/b"}) {
        return run_pull(plan_pull(request, settings_, control_), request, settings_, control_);
    }

    testing::TemporaryFolder folder_;
    Settings settings_;
    PullControl control_;
    std::map<std::string, std::string> files_;
    bool is_measured_ = true;
    std::string claimed_bytes_;
    std::mutex mutex_;
    std::vector<std::string> urls_;
};

TEST_F(HubPull, TheCacheIsLaidOutAsHuggingFacesLibrariesDoIt) {
    const fs::path snapshot = pull();
    const fs::path repository = folder_ / "cache/models--a--b";
    EXPECT_EQ(snapshot, repository / "snapshots" / kCommit);
    EXPECT_EQ(read_file(repository / "refs/main", 100), kCommit);
    for (const auto& [name, content] : files_) {
        const auto kind = name.ends_with(".safetensors") ? HashKind::sha256 : HashKind::git_sha1;
        EXPECT_EQ(fs::read_symlink(snapshot / name), fs::path("../../blobs") / hash_of(content, kind));
        EXPECT_EQ(read_file(snapshot / name, 1 << 20), content);
    }
    for (const auto& entry : fs::directory_iterator(repository / "blobs")) {
        EXPECT_NE(entry.path().extension(), ".incomplete");
    }
}

TEST_F(HubPull, ASecondPullAsksOnlyWhatThereIs) {
    pull();
    urls_.clear();
    EXPECT_EQ(pull(), folder_ / "cache/models--a--b/snapshots" / kCommit);
    EXPECT_EQ(urls_.size(), 1U);
}

TEST_F(HubPull, APlanTellsWhatIsHereAndWhatIsMissing) {
    pull();
    const fs::path blob = fs::canonical(folder_ / "cache/models--a--b/snapshots" / kCommit / "model.safetensors");
    fs::resize_file(blob, 1000);
    fs::rename(blob, blob.string() + ".incomplete");
    const PullPlan plan = plan_pull({.repository = "a/b"}, settings_, control_);
    EXPECT_EQ(plan.files_to_fetch(), 1U);
    EXPECT_EQ(plan.bytes_to_fetch(), 4000U);
    EXPECT_EQ(plan.directory, folder_ / "cache/models--a--b/snapshots" / kCommit);
}

TEST_F(HubPull, AMirrorThatListsOnlyNamesIsAskedForEachFile) {
    is_measured_ = false;
    EXPECT_EQ(read_file(pull() / "model.safetensors", 1 << 20), files_.at("model.safetensors"));
}

TEST_F(HubPull, ALocalFolderGetsPlainFilesThatAreVerifiedWhenTheyWereChanged) {
    const PullRequest request{.repository = "a/b", .local_folder = folder_ / "plain"};
    EXPECT_EQ(pull(request), folder_ / "plain");
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "plain/config.json")));
    fs::remove_all(folder_ / "plain/.cache");  // without notes, the content itself tells
    EXPECT_EQ(plan_pull(request, settings_, control_).files_to_fetch(), 0U);
    testing::write_bytes(folder_ / "plain/model.safetensors", std::string(5000, 'x'));
    EXPECT_EQ(plan_pull(request, settings_, control_).files_to_fetch(), 1U);
    pull(request);
    EXPECT_EQ(read_file(folder_ / "plain/model.safetensors", 1 << 20), files_.at("model.safetensors"));
}

TEST_F(HubPull, F054ADiskThatCannotHoldItIsNamedBeforeTheFirstByte) {
    claimed_bytes_ = "60000000000000";
    expect_error(ErrorCode::resource, {"60.0 TB", "available"}, [&] { pull(); });
    EXPECT_EQ(urls_.size(), 1U);
}

TEST_F(HubPull, AnIndexThatNamesMissingShardsIsNoWholeCheckpoint) {
    files_["part-1.safetensors"] = "1";
    files_.erase("model.safetensors");
    files_["model.safetensors.index.json"] = R"({"weight_map":{"a":"part-1.safetensors","b":"part-2.safetensors"}})";
    expect_error(ErrorCode::corrupt, {"no whole checkpoint"}, [&] { pull(); });
    EXPECT_EQ(find_in_cache(settings_.cache, "a/b", "main"), std::nullopt);
    files_["part-2.safetensors"] = "2";
    const fs::path snapshot = pull();
    EXPECT_EQ(find_in_cache(settings_.cache, "a/b", "main"), snapshot);
}

TEST_F(HubPull, AFailureStopsAllAndTheSnapshotStaysHidden) {
    control_.make_transport = [this](const Settings&, std::function<bool()>) {
        return std::make_unique<FakeTransport>(
            [this](const HttpRequest& request) {
                return request.url.ends_with("model.safetensors") ? FakeAnswer{403, {{"x-error-code", "GatedRepo"}}}
                                                                  : answer(request);
            },
            nullptr);
    };
    expect_error(ErrorCode::bad_request, {"gated"}, [&] { pull(); });
    EXPECT_FALSE(fs::exists(folder_ / "cache/models--a--b/snapshots"));
    EXPECT_EQ(find_in_cache(settings_.cache, "a/b", "main"), std::nullopt);
}

TEST_F(HubPull, AnInterruptionKeepsWhatCame) {
    control_.should_stop = [this] {
        const std::lock_guard guard(mutex_);
        return urls_.size() > 1;
    };
    const auto error = thrown_error([&] { pull({.repository = "a/b", .jobs = 1}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::interrupted);
    control_.should_stop = nullptr;
    EXPECT_LT(plan_pull({.repository = "a/b"}, settings_, control_).files_to_fetch(), 3U);
}

TEST_F(HubPull, RequestsOutOfRangeAreRefused) {
    expect_error(ErrorCode::bad_request, {"REPO"}, [] { check_request({.repository = "../x"}); });
    expect_error(ErrorCode::bad_request, {"--jobs"}, [] { check_request({.repository = "a/b", .jobs = 0}); });
    expect_error(ErrorCode::bad_request, {"--retries"}, [] { check_request({.repository = "a/b", .retries = -1}); });
}

TEST_F(HubPull, ANameIsADirectoryOrASnapshotOrAnErrorThatTellsHowMuchThereIsToFetch) {
    const fs::path demo = fs::path(GEMMATRACE_SOURCE_DIR) / "models/demo";
    EXPECT_EQ(resolve_checkpoint(demo, false, settings_, control_), demo);
    EXPECT_TRUE(urls_.empty());
    expect_error(ErrorCode::not_found, {"gemmatrace pull a/b", "5.01 kB in 3 files"},
                 [&] { resolve_checkpoint("a/b", false, settings_, control_); });

    std::vector<std::string> notes;
    control_.note = [&](const std::string& text) { notes.push_back(text); };
    const fs::path snapshot = resolve_checkpoint("a/b", true, settings_, control_);
    EXPECT_EQ(read_file(snapshot / "config.json", 100), "{}");
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].find("5.01 kB in 3 files"), std::string::npos) << notes[0];

    urls_.clear();
    settings_.is_offline = true;
    EXPECT_EQ(resolve_checkpoint("a/b", false, settings_, control_), snapshot);
    EXPECT_TRUE(urls_.empty()) << "what is in the cache needs no hub";
    expect_error(ErrorCode::not_found, {"HF_HUB_OFFLINE"},
                 [&] { resolve_checkpoint("a/c", false, settings_, control_); });
    expect_error(ErrorCode::not_found, {"HF_HUB_OFFLINE"},
                 [&] { resolve_checkpoint("a/c", true, settings_, control_); });
    EXPECT_TRUE(urls_.empty());
}

TEST_F(HubPull, AMistypedPathIsNotTakenForARepository) {
    EXPECT_TRUE(names_repository("google/gemma-4-E2B-it"));
    EXPECT_FALSE(names_repository("demo"));
    EXPECT_FALSE(names_repository("/no/such/place"));
    EXPECT_FALSE(names_repository("a/b/c"));
    EXPECT_FALSE(names_repository("./a"));
    const fs::path here = fs::current_path();
    fs::current_path(folder_.path());
    fs::create_directory("models");
    EXPECT_FALSE(names_repository("models/dmeo"));
    fs::current_path(here);
    expect_error(ErrorCode::not_found, {"no checkpoint"},
                 [&] { resolve_checkpoint("/no/such/place", true, settings_, control_); });
    EXPECT_TRUE(urls_.empty());
}

}  // namespace
}  // namespace gemmatrace::hub
