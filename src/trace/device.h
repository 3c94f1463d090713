// What runs programs: buffers on every rank and programs bound to them. The simulator is one, the accelerator another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/error.h"
#include "hlo/module.h"

namespace gemmatrace::trace {

// Weights travel in slices of about so many bytes, and a device holds back no more of what it is to write to a rank.
inline constexpr size_t kTransferBytes = size_t{4} << 20;

// One thread calls. Faults are Error(device) or Error(resource). A program runs beside the host from start() to the
// next call of start(), wait() or read(), which also throws the fault that the program met.
class Device {
  public:
    using Buffer = int32_t;
    using Program = int32_t;
    using BufferOf = std::function<Buffer(const std::string& name, size_t bytes)>;
    // A part of a buffer of one rank, and where it goes to.
    struct Read {
        Buffer buffer = -1;
        int32_t rank = 0;
        size_t offset = 0;
        std::span<std::byte> bytes;
    };

    virtual ~Device() = default;
    virtual int32_t ranks() const = 0;
    virtual std::string name() const = 0;  // as options and reports call it, e.g. "sim"
    // For people, e.g. "simulator (slow), 2 ranks".
    virtual std::string description() const = 0;
    // Whether programs went through a compiler that is not ours, so that what they do is looked at before it is used.
    virtual bool is_compiled() const { return false; }

    // As many bytes on each rank, zeros at first.
    virtual Buffer allocate(const std::string& name, size_t bytes) = 0;
    // The bytes may change after the call. A program that is started later sees them, one that runs does not.
    virtual void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) = 0;
    virtual void read(std::span<const Read> reads) = 0;

    // Makes a program ready. `buffer_of` names the buffer of each parameter and of each result that is not written in
    // place of a parameter, by the name that the program gives it and with exactly its bytes.
    virtual Program load(hlo::Module module, const BufferOf& buffer_of) = 0;
    // Runs it once on all ranks.
    virtual void start(Program program) = 0;
    virtual void wait() = 0;
    // What the buffers hold cannot be used any more, and this is why: every later call throws it. A device with a
    // process of its own may end that.
    virtual void abandon(const Error& reason) = 0;
};

}  // namespace gemmatrace::trace
