// Fetching a checkpoint: first a plan that can be shown, then the files, several at a time, and the whole made visible
// at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/manifest.h"
#include "hub/settings.h"
#include "hub/store.h"
#include "hub/transport.h"

namespace gemmatrace::hub {

struct PullRequest {
    std::string repository;
    std::string revision = "main";
    std::optional<std::filesystem::path> local_folder = std::nullopt;  // plain files there instead of the cache
    int jobs = 4;                                                      // files fetched at a time
    int retries = 5;  // tries after one that failed without bringing anything
};

// What a pull asks of and tells the program around it. All may be left empty.
struct PullControl {
    std::function<bool()> should_stop;                               // from any thread
    std::function<void(const std::string& text)> note;               // one remark; called by the caller's thread
    std::function<void(uint64_t done, uint64_t total)> on_progress;  // bytes to fetch; called by the caller's thread
    // Stands in for make_transport.
    std::function<std::unique_ptr<Transport>(const Settings&, std::function<bool()>)> make_transport;
};

struct PlannedFile {
    RemoteFile file;
    bool is_there = false;
    uint64_t partial_bytes = 0;  // left by an earlier try
};

struct PullPlan {
    Manifest manifest;
    std::filesystem::path directory;  // where the checkpoint will be
    std::vector<PlannedFile> files;
    std::shared_ptr<const Store> store;  // shared, so that a plan can be copied

    uint64_t bytes_to_fetch() const;
    size_t files_to_fetch() const;
};

// Throws Error(bad_request) for names and numbers out of range.
void check_request(const PullRequest& request);

// Asks the hub what there is and looks at what is there already. Throws the errors of check_request and
// fetch_manifest, and Error(not_found) when offline.
PullPlan plan_pull(const PullRequest& request, const Settings& settings, const PullControl& control = {});

// Carries the plan out and answers the checkpoint's directory. Throws Error(resource) before the first byte when the
// disk cannot hold what is missing (fault F054), Error(interrupted) when the program should stop - what was fetched
// stays and is continued by the next pull -, Error(corrupt) when what the hub gave is no whole checkpoint, and the
// errors of fetch_file.
std::filesystem::path run_pull(const PullPlan& plan, const PullRequest& request, const Settings& settings,
                               const PullControl& control = {});

}  // namespace gemmatrace::hub
