// From what a user names as a checkpoint - a directory or a repository - to a directory to read from.
#pragma once

#include <filesystem>
#include <string>

#include "hub/pull.h"
#include "hub/settings.h"

namespace gemmatrace::hub {

// Whether `checkpoint` means a repository and no path: it has the form of one, nothing of that name is on the disk, and
// its first part is no folder here (then it is a mistyped path).
bool names_repository(const std::filesystem::path& checkpoint);

// A directory is taken as it is, without a look at the settings. A repository's name gives its snapshot in the cache;
// no network is used for that. One that is not in the cache is fetched when may_pull, with `control` told about it;
// otherwise Error(not_found) names the command that fetches it and, when the hub answers quickly, how much that is.
// Throws Error(not_found) for anything else, and the errors of read_settings, plan_pull and run_pull.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& checkpoint, bool may_pull,
                                         const PullControl& control);

// The same with settings that were read before.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& checkpoint, bool may_pull,
                                         const Settings& settings, const PullControl& control);

}  // namespace gemmatrace::hub
