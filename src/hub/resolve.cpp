// Finding the directory that a name stands for.
#include "hub/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/progress.h"
#include "hub/names.h"

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kQuickSeconds = 5;  // an error message does not wait longer for a number

[[noreturn]] void throw_no_directory(const fs::path& checkpoint) {
    std::error_code failure;
    const bool exists = fs::exists(checkpoint, failure);
    throw Error(ErrorCode::not_found,
                exists ? fmt::format("'{}' is not a directory", printable(checkpoint.string()))
                       : fmt::format("there is no checkpoint '{}'", printable(checkpoint.string())),
                {{"file", printable(checkpoint.string())}},
                "give the directory that holds config.json and the safetensors, e.g. models/demo, or the name of a "
                "repository that was pulled");
}

std::string amount(const PullPlan& plan) {
    return fmt::format("{} in {} files", format_bytes(plan.bytes_to_fetch()), plan.files_to_fetch());
}

[[noreturn]] void throw_not_pulled(const std::string& repository, const Settings& settings,
                                   const PullControl& control) {
    Error::Context context = {{"repo", repository}};
    std::string how_much;
    if (!settings.is_offline) {
        Settings quick = settings;
        quick.stall_seconds = std::min(settings.stall_seconds, kQuickSeconds);
        try {
            const PullPlan plan = plan_pull({.repository = repository, .retries = 0}, quick,
                                            {.should_stop = control.should_stop,
                                             .note = {},
                                             .on_progress = {},
                                             .make_transport = control.make_transport});
            how_much = fmt::format(" ({})", amount(plan));
        } catch (const Error& error) {
            if (error.code() == ErrorCode::interrupted || error.code() == ErrorCode::internal) throw;
            context.emplace_back("hub", error.message());  // why the amount is not known; the remedy stays the same
        }
    }
    throw Error(ErrorCode::not_found, fmt::format("the checkpoint '{}' was not pulled yet", repository),
                std::move(context),
                settings.is_offline ? "unset HF_HUB_OFFLINE, then: gemmatrace pull " + repository
                                    : fmt::format("fetch it first{}: gemmatrace pull {}", how_much, repository));
}

}  // namespace

bool names_repository(const fs::path& checkpoint) {
    const std::string text = checkpoint.string();
    std::error_code failure;
    // A name without an owner is left to paths: "demo" is more likely a folder mistyped than one of the hub's few such.
    return text.find('/') != std::string::npos && is_repository_name(text) && !fs::exists(checkpoint, failure) &&
           !fs::is_directory(text.substr(0, text.find('/')), failure);
}

fs::path resolve_checkpoint(const fs::path& checkpoint, bool may_pull, const PullControl& control) {
    std::error_code failure;
    if (fs::is_directory(checkpoint, failure)) return checkpoint;
    if (!names_repository(checkpoint)) throw_no_directory(checkpoint);
    return resolve_checkpoint(checkpoint, may_pull, read_settings(), control);
}

fs::path resolve_checkpoint(const fs::path& checkpoint, bool may_pull, const Settings& settings,
                            const PullControl& control) {
    std::error_code failure;
    if (fs::is_directory(checkpoint, failure)) return checkpoint;
    if (!names_repository(checkpoint)) throw_no_directory(checkpoint);
    const PullRequest request{.repository = checkpoint.string()};
    if (const auto snapshot = find_in_cache(settings.cache, request.repository, request.revision)) return *snapshot;
    if (!may_pull) throw_not_pulled(request.repository, settings, control);
    const PullPlan plan = plan_pull(request, settings, control);
    if (control.note && plan.files_to_fetch() > 0) {
        control.note(fmt::format("{} is not here yet: fetching {} to {}", request.repository, amount(plan),
                                 plan.directory.string()));
    }
    return run_pull(plan, request, settings, control);
}

}  // namespace gemmatrace::hub
