// Requests of a hub with patience: what a repository holds, and one file until it is whole and right.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "hub/manifest.h"
#include "hub/retry.h"
#include "hub/settings.h"
#include "hub/store.h"
#include "hub/transport.h"

namespace gemmatrace::hub {

// What requests of one pull share.
struct FetchContext {
    const Settings& settings;
    RetryPolicy retry;                 // retry.sleep and retry.note serve other waits too
    std::function<void()> check_stop;  // throws Error(interrupted) when the program should stop
};

// Asks what the revision of a repository holds. Throws the errors of transfer_error and parse_manifest.
Manifest fetch_manifest(Transport& transport, const FetchContext& context, const std::string& repository,
                        const std::string& revision);

// Brings one file to its place: continues what an earlier try left, goes on after lost connections, verifies size and
// hash (a wrong one is fetched anew once), and gives the file its name only then. Answers false when the file was there
// after all, because another process fetched it meanwhile. `fetched_bytes` grows as bytes come, and shrinks when they
// have to come again.
// Throws Error(corrupt) when the content stays wrong, Error(resource) for the disk, and the errors of transfer_error.
bool fetch_file(Transport& transport, const FetchContext& context, const Manifest& manifest, const RemoteFile& file,
                const Store& store, std::atomic<int64_t>& fetched_bytes);

}  // namespace gemmatrace::hub
