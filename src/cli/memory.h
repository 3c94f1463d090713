// How much memory there is to take.
#pragma once

#include <cstddef>

namespace gemmatrace::cli {

// What a new process could take without swapping, as the kernel estimates it; 1 GiB where it does not say.
size_t available_memory_bytes();

}  // namespace gemmatrace::cli
