// Finding checkpoints, and what is shown while one is fetched.
#include "cli/checkpoint_source.h"

#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "hub/resolve.h"

namespace gemmatrace::cli {

hub::PullControl PullView::control() {
    hub::PullControl control;
    control.should_stop = is_interrupted;
    control.note = [](const std::string& text) {
        // Over the line of progress, which is written again below.
        write_error((::isatty(STDERR_FILENO) == 1 ? "\r\x1b[K" : "") + text + "\n");
    };
    control.on_progress = [this](uint64_t done, uint64_t total) {
        if (total == 0) return;
        if (!progress_) progress_ = std::make_unique<Progress>("fetching " + repository_, total);
        progress_->update(done);
    };
    return control;
}

void PullView::finish() {
    if (progress_) progress_->finish();
    progress_.reset();
}

std::filesystem::path find_checkpoint(const std::filesystem::path& checkpoint, bool may_pull) {
    PullView view(checkpoint.string());
    auto directory = hub::resolve_checkpoint(checkpoint, may_pull, view.control());
    view.finish();
    return directory;
}

}  // namespace gemmatrace::cli
