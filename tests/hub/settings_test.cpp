// Settings from an environment: the variables of Hugging Face's libraries, in their order.
#include "hub/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::hub {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using testing::thrown_error;

Settings settings_of(const std::map<std::string, std::string>& variables, const SettingsOverrides& overrides = {}) {
    const Environment environment = [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
    return read_settings(environment, overrides);
}

TEST(HubSettings, TheCacheIsWhereHuggingFacesLibrariesKeepIt) {
    EXPECT_EQ(settings_of({{"HOME", "/h"}}).cache, "/h/.cache/huggingface/hub");
    EXPECT_EQ(settings_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
    EXPECT_EQ(settings_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}}).cache, "/h/hf/hub");
    EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/c"}}).cache, "/c");
    expect_error(ErrorCode::bad_request, {"HOME"}, [] { settings_of({}); });
}

TEST(HubSettings, TheEndpointIsCheckedAndLosesItsLastSlash) {
    const std::map<std::string, std::string> home = {{"HOME", "/h"}};
    EXPECT_EQ(settings_of(home).endpoint, "https://huggingface.co");
    auto with = home;
    with["HF_ENDPOINT"] = "http://127.0.0.1:8080/";
    EXPECT_EQ(settings_of(with).endpoint, "http://127.0.0.1:8080");
    EXPECT_EQ(settings_of(with, {.endpoint = "https://other", .token = {}}).endpoint, "https://other");
    for (const char* wrong : {"huggingface.co", "ftp://host", "https://", "https://user:word@host", "http://h\r\nX: y",
                              "https://host/?q", "file:///etc"}) {
        expect_error(ErrorCode::bad_request, {"--endpoint"},
                     [&] { settings_of(home, {.endpoint = wrong, .token = {}}); });
    }
}

TEST(HubSettings, TheTokenComesFromOptionVariableOrFileInThisOrder) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "hf");
    testing::write_bytes(folder / "hf/token", "from-home\n");
    testing::write_bytes(folder / "other", "  from-path \n");
    std::map<std::string, std::string> variables = {{"HF_HOME", (folder / "hf").string()}};
    EXPECT_EQ(settings_of(variables).token, "from-home");
    variables["HF_TOKEN_PATH"] = (folder / "other").string();
    EXPECT_EQ(settings_of(variables).token, "from-path");
    variables["HF_TOKEN"] = "from-variable";
    EXPECT_EQ(settings_of(variables).token, "from-variable");
    EXPECT_EQ(settings_of(variables, {.endpoint = {}, .token = "from-option"}).token, "from-option");
    EXPECT_EQ(settings_of({{"HOME", "/nowhere"}}).token, std::nullopt);
}

TEST(HubSettings, ATokenThatWouldEndAHeaderLineIsRefusedAndNotShown) {
    const auto error = thrown_error([] { settings_of({{"HOME", "/h"}, {"HF_TOKEN", "secret\r\nX-Evil: 1"}}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::bad_request);
    EXPECT_EQ(std::string(error->what()).find("secret"), std::string::npos) << error->what();
}

TEST(HubSettings, OfflineAndTheTimeoutAreRead) {
    for (const char* yes : {"1", "ON", "yes", "True"}) {
        EXPECT_TRUE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", yes}}).is_offline) << yes;
    }
    for (const char* no : {"", "0", "no"}) {
        EXPECT_FALSE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", no}}).is_offline) << no;
    }
    EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "7"}}).stall_seconds, 7);
    for (const char* wrong : {"0", "-1", "x", "7s", "99999999999"}) {
        expect_error(ErrorCode::bad_request, {"HF_HUB_DOWNLOAD_TIMEOUT"}, [&] {
            settings_of({{"HOME", "/h"}, {"HF_HUB_DOWNLOAD_TIMEOUT", wrong}});
        });
    }
}

}  // namespace
}  // namespace gemmatrace::hub
