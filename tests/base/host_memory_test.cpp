// Memory of the host as the system says it.
#include "base/host_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace gemmatrace {
namespace {

TEST(HostMemory, ThatIsFreeIsSomeAndNotMoreThanAMachineHas) {
    EXPECT_GT(available_memory_bytes(), size_t{1} << 20);
    EXPECT_LT(available_memory_bytes(), size_t{1} << 50);
}

TEST(HostMemory, OfAGroupCountsItsProcessesAndNoOthers) {
    constexpr size_t kBytes = size_t{30} << 20;
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        void* memory = std::malloc(kBytes);
        if (memory != nullptr) std::memset(memory, 1, kBytes);
        for (;;) pause();
    }
    setpgid(child, child);
    uint64_t seen = 0;
    for (int look = 0; look < 1000 && seen < kBytes; ++look) {
        seen = group_memory_bytes(child);
        usleep(10'000);
    }
    EXPECT_GE(seen, kBytes);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(group_memory_bytes(child), 0U);
}

}  // namespace
}  // namespace gemmatrace
