// The checkpoint that a command was given, as a directory or as a hub's name, found or fetched with its progress shown.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/progress.h"
#include "hub/pull.h"

namespace gemmatrace::cli {

// Shows a pull on standard error: remarks as lines, bytes as a line of progress.
class PullView {
  public:
    // repository: named in the line of progress.
    explicit PullView(std::string repository) : repository_(std::move(repository)) {}
    PullView(const PullView&) = delete;  // control() refers to it
    PullView& operator=(const PullView&) = delete;

    // What a pull tells goes to this view, which must outlive it; Ctrl-C stops it.
    hub::PullControl control();
    // Leaves a last line with the total and the rate, if there was any progress.
    void finish();

  private:
    std::string repository_;
    std::unique_ptr<Progress> progress_;
};

// The directory to read a checkpoint from. `checkpoint` is a directory or the name of a repository in the cache; with
// may_pull one that is not there is fetched, and what that will be is said first. Throws Error(not_found) with the
// command that would fetch it, and the errors of hub::run_pull.
std::filesystem::path find_checkpoint(const std::filesystem::path& checkpoint, bool may_pull = false);

}  // namespace gemmatrace::cli
