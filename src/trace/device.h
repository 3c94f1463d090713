// What runs programs: buffers on every rank and programs bound to them. The simulator is one, the accelerator another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "hlo/module.h"

namespace gemmatrace::trace {

// One thread calls. Faults are Error(device) or Error(resource).
class Device {
  public:
    using Buffer = int32_t;
    using Program = int32_t;
    using BufferOf = std::function<Buffer(const std::string& name, size_t bytes)>;

    virtual ~Device() = default;
    virtual int32_t ranks() const = 0;
    virtual std::string name() const = 0;  // as options and reports call it, e.g. "sim"
    // For people, e.g. "simulator (slow), 2 ranks".
    virtual std::string description() const = 0;

    // As many bytes on each rank, zeros at first.
    virtual Buffer allocate(const std::string& name, size_t bytes) = 0;
    virtual void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) = 0;
    virtual void read(Buffer buffer, int32_t rank, size_t offset, std::span<std::byte> bytes) = 0;

    // Makes a program ready. `buffer_of` names the buffer of each parameter and of each result that is not written in
    // place of a parameter, by the name that the program gives it and with exactly its bytes.
    virtual Program load(hlo::Module module, const BufferOf& buffer_of) = 0;
    // Runs it once on all ranks and waits for the end.
    virtual void run(Program program) = 0;
};

}  // namespace gemmatrace::trace
