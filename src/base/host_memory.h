// How much memory of the host there is to take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemmatrace {

// What a new process could take without swapping: the kernel's estimate, or what the limit of our control group (a
// container's) leaves when that is less; 1 GiB where neither is said.
size_t available_memory_bytes();

// Swap space that is free.
size_t free_swap_bytes();

// Resident memory of all processes of a process group; 0 when there is none.
uint64_t group_memory_bytes(int group);

}  // namespace gemmatrace
