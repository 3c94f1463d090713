// A device that passes everything on to another, for tests that look at or bend a part of it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "trace/device.h"

namespace gemmatrace::trace {

class ForwardingDevice : public Device {
  public:
    explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}
    int32_t ranks() const override { return inner_->ranks(); }
    std::string name() const override { return inner_->name(); }
    std::string description() const override { return inner_->description(); }
    Buffer allocate(const std::string& name, size_t bytes) override { return inner_->allocate(name, bytes); }
    void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) override {
        inner_->write(buffer, rank, offset, bytes);
    }
    void read(std::span<const Read> reads) override { inner_->read(reads); }
    Program load(hlo::Module module, const BufferOf& buffer_of) override {
        return inner_->load(std::move(module), buffer_of);
    }
    void start(Program program) override { inner_->start(program); }
    void wait() override { inner_->wait(); }
    void abandon(const Error& reason) override { inner_->abandon(reason); }

  private:
    std::unique_ptr<Device> inner_;
};

}  // namespace gemmatrace::trace
