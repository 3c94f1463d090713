// One file from a hub that drops, lies and ignores what it is asked: it arrives right, or not at all.
#include "hub/fetch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file_mapping.h"
#include "hub/fake_hub.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::hub {
namespace {

using testing::expect_error;
using testing::FakeAnswer;
using testing::FakeServer;
using testing::FakeTransport;
using testing::honest_answer;
using testing::kCommit;
using testing::large_file;

constexpr const char* kName = "model.safetensors";

std::string some_content() {
    std::string content;
    for (int number = 0; number < 40; ++number) content += std::to_string(number * number) + ",";
    return content;
}

class HubFetch : public ::testing::Test {
  protected:
    HubFetch() {
        settings_.endpoint = "http://hub";
        settings_.cache = folder_ / "cache";
        settings_.token = "token";
        manifest_.repository = "a/b";
        manifest_.revision = "main";
        manifest_.commit = kCommit;
        context_.retry.tries_more = 2;
        context_.retry.sleep = [this](double seconds) { waits_.push_back(seconds); };
        context_.retry.note = [this](const std::string& text) { notes_.push_back(text); };
        context_.check_stop = [] {};
        store_ = make_cache_store(settings_.cache, "a/b");
    }

    bool fetch(const RemoteFile& file, FakeServer server) {
        FakeTransport transport(std::move(server), &requests_);
        return fetch_file(transport, context_, manifest_, file, *store_, fetched_);
    }
    bool fetch(FakeServer server) { return fetch(file_, std::move(server)); }

    std::string stored(const RemoteFile& file) const { return read_file(store_->place(file).final, 1 << 20); }
    bool is_stored() const { return std::filesystem::exists(store_->place(file_).final); }
    void leave_partial(const RemoteFile& file, std::string_view bytes) {
        std::filesystem::create_directories(store_->place(file).incomplete.parent_path());
        testing::write_bytes(store_->place(file).incomplete, bytes);
    }
    std::string partial() const {
        const auto path = store_->place(file_).incomplete;
        return std::filesystem::exists(path) ? read_file(path, 1 << 20) : "";
    }

    testing::TemporaryFolder folder_;
    Settings settings_;
    Manifest manifest_;
    FetchContext context_{.settings = settings_, .retry = {}, .check_stop = {}};
    std::unique_ptr<Store> store_;
    std::string content_ = some_content();
    RemoteFile file_ = large_file(kName, content_);
    std::atomic<int64_t> fetched_ = 0;
    std::vector<HttpRequest> requests_;
    std::vector<double> waits_;
    std::vector<std::string> notes_;
};

TEST_F(HubFetch, AFileIsAskedForByCommitAndNamedByItsHash) {
    EXPECT_TRUE(fetch([&](const HttpRequest& request) { return honest_answer(request, content_); }));
    EXPECT_EQ(stored(file_), content_);
    EXPECT_FALSE(std::filesystem::exists(store_->place(file_).incomplete));
    ASSERT_EQ(requests_.size(), 1U);
    EXPECT_EQ(requests_[0].url, std::string("http://hub/a/b/resolve/") + kCommit + "/model.safetensors");
    EXPECT_EQ(requests_[0].token, "token");
    EXPECT_EQ(fetched_, static_cast<int64_t>(content_.size()));
}

TEST_F(HubFetch, F049ALostConnectionIsContinuedWhereItEnded) {
    int64_t asked_bytes = 0;
    EXPECT_TRUE(fetch([&](const HttpRequest& request) {
        FakeAnswer answer = honest_answer(request, content_);
        asked_bytes += static_cast<int64_t>(std::min<size_t>(answer.body.size(), 50));
        if (answer.body.size() <= 50) return answer;
        answer.body.resize(50);
        answer.end = TransferEnd::dropped;
        return answer;
    }));
    EXPECT_EQ(stored(file_), content_);
    EXPECT_EQ(asked_bytes, static_cast<int64_t>(content_.size())) << "no byte comes twice";
    EXPECT_GT(requests_.size(), 2U) << "more failures than tries, but each brought something";
    for (const HttpRequest& request : requests_) EXPECT_EQ(request.if_range, std::nullopt);
}

TEST_F(HubFetch, F049WhatAnEarlierProcessLeftIsContinued) {
    leave_partial(file_, content_.substr(0, 33));
    EXPECT_TRUE(fetch([&](const HttpRequest& request) { return honest_answer(request, content_); }));
    ASSERT_EQ(requests_.size(), 1U);
    EXPECT_EQ(requests_[0].first_byte, 33U);
    EXPECT_EQ(stored(file_), content_);
}

TEST_F(HubFetch, F049ADownloadThatWasWholeButNotNamedIsOnlyVerified) {
    leave_partial(file_, content_);
    EXPECT_TRUE(fetch([](const HttpRequest&) { return FakeAnswer{500}; }));
    EXPECT_TRUE(requests_.empty());
    EXPECT_EQ(stored(file_), content_);
}

TEST_F(HubFetch, F049APartWithAFlippedByteIsFetchedAnew) {
    std::string damaged = content_.substr(0, 60);
    damaged[7] ^= 1;
    leave_partial(file_, damaged);
    EXPECT_TRUE(fetch([&](const HttpRequest& request) { return honest_answer(request, content_); }));
    ASSERT_EQ(requests_.size(), 2U);
    EXPECT_EQ(requests_[1].first_byte, 0U);
    EXPECT_EQ(stored(file_), content_);
    ASSERT_EQ(notes_.size(), 1U);
    EXPECT_NE(notes_[0].find("hash"), std::string::npos);
    EXPECT_EQ(fetched_, static_cast<int64_t>(content_.size()) - 60) << "counted from where the plan began";
}

TEST_F(HubFetch, F049WrongContentNeverGetsTheFilesName) {
    std::string wrong = content_;
    wrong.back() ^= 1;
    expect_error(ErrorCode::corrupt, {"wrong twice", "hash", kName},
                 [&] { fetch([&](const HttpRequest& request) { return honest_answer(request, wrong); }); });
    EXPECT_EQ(requests_.size(), 2U);
    EXPECT_FALSE(is_stored());
    EXPECT_FALSE(std::filesystem::exists(store_->place(file_).incomplete));
}

TEST_F(HubFetch, APartLongerThanTheFileIsDropped) {
    leave_partial(file_, content_ + "more");
    EXPECT_TRUE(fetch([&](const HttpRequest& request) { return honest_answer(request, content_); }));
    EXPECT_EQ(requests_[0].first_byte, 0U);
    EXPECT_EQ(stored(file_), content_);
}

TEST_F(HubFetch, AServerWithoutRangesSendsAgainAndWhatIsHereIsReadOver) {
    leave_partial(file_, content_.substr(0, 40));
    EXPECT_TRUE(fetch([&](const HttpRequest&) { return FakeAnswer{200, {}, content_}; }));
    EXPECT_EQ(requests_[0].first_byte, 40U);
    EXPECT_EQ(stored(file_), content_);
    EXPECT_EQ(fetched_, static_cast<int64_t>(content_.size()) - 40);
}

TEST_F(HubFetch, AFileWithoutAHashGoesOnOnlyIfItIsTheSame) {
    const RemoteFile unhashed{"config.json", content_.size(), "some-tag"};
    leave_partial(unhashed, "the beginning of something else");
    EXPECT_TRUE(fetch(unhashed, [&](const HttpRequest&) { return FakeAnswer{200, {}, content_}; }));
    ASSERT_EQ(requests_.size(), 1U);
    EXPECT_EQ(requests_[0].if_range, "some-tag");
    EXPECT_EQ(stored(unhashed), content_);
}

TEST_F(HubFetch, ALieAboutTheSizeIsSeenBeforeTheFirstByte) {
    const std::string longer = content_ + "and more";
    expect_error(ErrorCode::corrupt, {"listed"},
                 [&] { fetch([&](const HttpRequest& request) { return honest_answer(request, longer); }); });
    EXPECT_EQ(fetched_, 0);
    EXPECT_FALSE(is_stored());
}

TEST_F(HubFetch, ABodyThatDoesNotEndIsCutOff) {
    expect_error(ErrorCode::corrupt, {"more than its"}, [&] {
        fetch([&](const HttpRequest&) { return FakeAnswer{200, {}, content_ + std::string(1000, 'x')}; });
    });
    EXPECT_FALSE(is_stored());
}

TEST_F(HubFetch, AFileShorterThanListedIsAnErrorAtLast) {
    const std::string shorter = content_.substr(0, 100);
    expect_error(ErrorCode::corrupt, {"shorter"}, [&] {
        fetch([&](const HttpRequest& request) {
            if (request.first_byte >= shorter.size()) return FakeAnswer{416};
            return FakeAnswer{200, {}, shorter};
        });
    });
    EXPECT_FALSE(is_stored());
}

TEST_F(HubFetch, ARangeThatWasNotAskedForIsNotTaken) {
    leave_partial(file_, content_.substr(0, 40));
    EXPECT_TRUE(fetch([&](const HttpRequest& request) {
        FakeAnswer answer = honest_answer(request, content_);
        if (request.first_byte > 0) answer.headers["content-range"] = "bytes 0-9/10";
        return answer;
    }));
    EXPECT_EQ(requests_.size(), 2U);
    EXPECT_EQ(stored(file_), content_);
}

TEST_F(HubFetch, FailuresAreTriedAgainAndGivenUpWithWhatCameKept) {
    int request_number = 0;
    expect_error(ErrorCode::not_ready, {"503"}, [&] {
        fetch([&](const HttpRequest& request) {
            if (request_number++ > 0) return FakeAnswer{503, {}, "<html>not the file</html>"};
            FakeAnswer answer = honest_answer(request, content_);
            answer.body.resize(30);
            answer.end = TransferEnd::dropped;
            return answer;
        });
    });
    EXPECT_EQ(requests_.size(), 3U) << "one that brought something, and two more";
    EXPECT_EQ(partial(), content_.substr(0, 30)) << "a page about the failure is no content";
    EXPECT_FALSE(is_stored());
}

TEST_F(HubFetch, AMissingFileIsAnErrorAtOnce) {
    expect_error(ErrorCode::not_found, {kName}, [&] {
        fetch([](const HttpRequest&) { return FakeAnswer{404, {{"x-error-code", "EntryNotFound"}}, "gone"}; });
    });
    EXPECT_EQ(requests_.size(), 1U);
}

TEST_F(HubFetch, AnEmptyFileNeedsNoRequest) {
    const RemoteFile empty{"added_tokens.json", 0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"};
    EXPECT_TRUE(fetch(empty, [](const HttpRequest&) { return FakeAnswer{500}; }));
    EXPECT_EQ(stored(empty), "");
}

TEST_F(HubFetch, AFileThatAnotherProcessFetchesIsWaitedFor) {
    const FilePlace place = store_->place(file_);
    std::filesystem::create_directories(place.lock.parent_path());
    const int other = ::open(place.lock.c_str(), O_RDWR | O_CREAT, 0644);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    context_.retry.sleep = [&](double) {  // the other one finishes while we wait
        std::filesystem::create_directories(place.final.parent_path());
        testing::write_bytes(place.final, content_);
        ::flock(other, LOCK_UN);
    };
    EXPECT_FALSE(fetch([](const HttpRequest&) { return FakeAnswer{500}; }));
    ::close(other);
    EXPECT_TRUE(requests_.empty());
    ASSERT_EQ(notes_.size(), 1U);
    EXPECT_NE(notes_[0].find("another process"), std::string::npos);
}

TEST_F(HubFetch, ALinkPlantedInPlaceOfTheDownloadIsNotFollowed) {
    testing::write_bytes(folder_ / "victim", "precious");
    std::filesystem::create_directories(store_->place(file_).incomplete.parent_path());
    std::filesystem::create_symlink(folder_ / "victim", store_->place(file_).incomplete);
    expect_error(ErrorCode::resource, {"incomplete"},
                 [&] { fetch([&](const HttpRequest& request) { return honest_answer(request, content_); }); });
    EXPECT_EQ(read_file(folder_ / "victim", 100), "precious");
}

}  // namespace
}  // namespace gemmatrace::hub
