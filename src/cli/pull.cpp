// `gemmatrace pull`: a checkpoint from a hub of Hugging Face's kind, resumed, verified, and there as a whole or not.
#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/output.h"
#include "hub/settings.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kPullExamples =
    "Examples:\n"
    "  gemmatrace pull google/gemma-4-E2B-it                      into the cache that Hugging Face's libraries share\n"
    "  gemmatrace pull google/gemma-4-E2B-it --dry-run            what would be fetched, and how much\n"
    "  gemmatrace pull google/gemma-4-E2B-it --local-dir e2b      plain files in a folder\n"
    "  gemmatrace chat google/gemma-4-E2B-it                      uses what was pulled\n"
    "\n"
    "Prints the checkpoint's directory. Ctrl-C, lost connections and even a crash keep what was fetched: the same\n"
    "command continues. HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE work as they do elsewhere.";

struct PullOptions {
    hub::PullRequest request;
    std::optional<std::string> local_folder;
    hub::SettingsOverrides overrides;
    int32_t jobs = 4;
    int32_t retries = 5;
    bool is_dry_run = false;
    bool is_json = false;
};

hub::PullRequest pull_request(const PullOptions& options) {
    hub::PullRequest request = options.request;
    if (options.local_folder && options.local_folder->empty()) {
        throw Error(ErrorCode::bad_request, "the folder has no name", {{"field", "--local-dir"}}, "give its path");
    }
    if (options.local_folder) request.local_folder = *options.local_folder;
    request.jobs = options.jobs;
    request.retries = options.retries;
    return request;
}

// is_done: the plan was carried out.
std::string plan_json(const hub::PullPlan& plan, bool is_done) {
    nlohmann::ordered_json json;
    json["repo"] = plan.manifest.repository;
    json["revision"] = plan.manifest.revision;
    json["commit"] = plan.manifest.commit;
    json["path"] = plan.directory.string();
    json["bytes"] = plan.manifest.total_bytes();
    json[is_done ? "fetched_bytes" : "bytes_to_fetch"] = plan.bytes_to_fetch();
    json["files"] = nlohmann::ordered_json::array();
    for (const hub::PlannedFile& planned : plan.files) {
        nlohmann::ordered_json file;
        file["name"] = planned.file.name;
        file["bytes"] = planned.file.bytes;
        file["tag"] = planned.file.tag;
        file["state"] = planned.is_there ? "present" : is_done ? "fetched" : "missing";
        if (planned.partial_bytes > 0) file["partial_bytes"] = planned.partial_bytes;
        json["files"].push_back(std::move(file));
    }
    return dump_json(json) + "\n";
}

std::string plan_text(const hub::PullPlan& plan) {
    const hub::Manifest& manifest = plan.manifest;
    std::string text =
        fmt::format("{}, revision {}, commit {}\n", manifest.repository, manifest.revision, manifest.commit);
    size_t width = 0;
    for (const hub::PlannedFile& planned : plan.files) width = std::max(width, planned.file.name.size());
    for (const hub::PlannedFile& planned : plan.files) {
        text += fmt::format("  {:<{}}  {:>8}  {}", planned.file.name, width, format_bytes(planned.file.bytes),
                            planned.is_there ? "here already" : "to fetch");
        if (planned.partial_bytes > 0) text += fmt::format(", {} of it here", format_bytes(planned.partial_bytes));
        text += "\n";
    }
    return text + fmt::format("{} in {} files; {} in {} files to fetch to {}\n", format_bytes(manifest.total_bytes()),
                              plan.files.size(), format_bytes(plan.bytes_to_fetch()), plan.files_to_fetch(),
                              plan.directory.string());
}

// Without a hub: what is here, if it is whole.
int find_offline(const hub::PullRequest& request, const hub::Settings& settings, bool is_json) {
    std::optional<std::filesystem::path> found;
    if (!request.local_folder) {
        found = hub::find_in_cache(settings.cache, request.repository, request.revision);
    } else if (hub::is_whole_checkpoint(*request.local_folder)) {
        found = request.local_folder;
    }
    if (!found) {
        throw Error(ErrorCode::not_found,
                    fmt::format("'{}' is not here, and the hub may not be asked", request.repository),
                    {{"repo", request.repository}, {"revision", request.revision}}, "unset HF_HUB_OFFLINE to fetch it");
    }
    if (!is_json) {
        write_error("offline: not compared with the hub\n");
        write_out(found->string() + "\n");
        return 0;
    }
    nlohmann::ordered_json json;
    json["repo"] = request.repository;
    json["revision"] = request.revision;
    json["path"] = found->string();
    json["offline"] = true;
    write_out(dump_json(json) + "\n");
    return 0;
}

int run_pull_command(const PullOptions& options) {
    const hub::PullRequest request = pull_request(options);
    const hub::Settings settings = hub::read_settings(options.overrides);
    hub::check_request(request);
    if (settings.is_offline) return find_offline(request, settings, options.is_json);

    PullView view(request.repository);
    const hub::PullControl control = view.control();
    const hub::PullPlan plan = hub::plan_pull(request, settings, control);
    if (options.is_dry_run) {
        write_out(options.is_json ? plan_json(plan, false) : plan_text(plan));
        return 0;
    }
    try {
        hub::run_pull(plan, request, settings, control);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::interrupted) throw;
        throw Error(ErrorCode::interrupted, "interrupted; what was fetched is kept", {}, "the same command continues");
    }
    view.finish();
    if (plan.files_to_fetch() == 0) write_error(fmt::format("all {} files were here already\n", plan.files.size()));
    write_out(options.is_json ? plan_json(plan, true) : plan.directory.string() + "\n");
    return 0;
}

void describe(Command& command, PullOptions& options) {
    command.options = {
        {"REPO", &options.request.repository, "the repository as the hub names it, e.g. google/gemma-4-E2B-it"},
        {"--revision", &options.request.revision, "branch, tag or commit", "REV", "", true},
        {"--local-dir", &options.local_folder, "plain files in DIR instead of the cache", "DIR"},
        {"--endpoint", &options.overrides.endpoint, "the hub [HF_ENDPOINT, else https://huggingface.co]", "URL"},
        {"--token", &options.overrides.token, "access token [HF_TOKEN, else the file HF_TOKEN_PATH names]", "TOKEN"},
        {"--jobs", &options.jobs, "files fetched at a time", "N", "", true},
        {"--retries", &options.retries, "tries after one that failed and brought nothing", "N", "", true},
        {"--dry-run", &options.is_dry_run, "fetch nothing, print what would be fetched"},
        {"--json", &options.is_json, "the result as one JSON object"},
    };
}

}  // namespace

Command pull_command() {
    return make_command("pull", "Fetch a checkpoint from a hub", kPullExamples, run_pull_command, describe);
}

}  // namespace gemmatrace::cli
