// Buffers are plain memory.
#include "trace/sim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "hlo/evaluator.h"

namespace gemmatrace::trace {
namespace {

class SimDevice : public Device {
  public:
    SimDevice(int32_t ranks, int threads) : ranks_(ranks), threads_(threads) {}

    int32_t ranks() const override { return ranks_; }
    std::string name() const override { return "sim"; }
    std::string description() const override {
        return fmt::format("simulator (slow), {} {}", ranks_, ranks_ == 1 ? "rank" : "ranks");
    }

    Buffer allocate(const std::string&, size_t bytes) override {
        check();
        buffers_.emplace_back(static_cast<size_t>(ranks_), std::vector<std::byte>(bytes));
        return static_cast<Buffer>(buffers_.size()) - 1;
    }
    void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) override {
        check();
        auto& memory = at(buffer, rank);
        require(offset + bytes.size() <= memory.size(), "a write lies inside its buffer");
        std::memcpy(memory.data() + offset, bytes.data(), bytes.size());
    }
    void read(std::span<const Read> reads) override {
        check();
        for (const auto& [buffer, rank, offset, bytes] : reads) {
            const auto& memory = at(buffer, rank);
            require(offset + bytes.size() <= memory.size(), "a read lies inside its buffer");
            std::memcpy(bytes.data(), memory.data() + offset, bytes.size());
        }
    }

    Program load(hlo::Module module, const BufferOf& buffer_of) override {
        Loaded loaded{hlo::Evaluator(std::move(module), ranks_, threads_), {}, {}};
        const hlo::Module& ready = loaded.evaluator.module();
        const auto names = ready.parameter_names();
        for (size_t number = 0; number < names.size(); ++number) {
            loaded.parameters.push_back(buffer_of(names[number], ready.host_shape.parameters[number].bytes()));
        }
        const auto outputs = ready.output_names();
        loaded.outputs.assign(outputs.size(), -1);
        for (size_t output = 0; output < outputs.size(); ++output) {
            const bool is_aliased = std::ranges::any_of(
                ready.aliases, [&](const hlo::Alias& alias) { return alias.output == static_cast<int64_t>(output); });
            if (is_aliased) continue;
            loaded.outputs[output] = buffer_of(outputs[output], ready.host_shape.result.elements[output].bytes());
        }
        programs_.push_back(std::move(loaded));
        return static_cast<Program>(programs_.size()) - 1;
    }

    // It has run when this returns: there is nobody else to run it.
    void start(Program program) override {
        check();
        Loaded& loaded = programs_.at(static_cast<size_t>(program));
        std::vector<std::vector<hlo::Argument>> arguments(static_cast<size_t>(ranks_));
        for (int32_t rank = 0; rank < ranks_; ++rank) {
            for (const Buffer buffer : loaded.parameters) {
                arguments[static_cast<size_t>(rank)].emplace_back(std::span(at(buffer, rank)));
            }
        }
        const auto results = loaded.evaluator.run(arguments);
        for (int32_t rank = 0; rank < ranks_; ++rank) {
            for (size_t output = 0; output < loaded.outputs.size(); ++output) {
                if (loaded.outputs[output] < 0) continue;
                at(loaded.outputs[output], rank) = results[static_cast<size_t>(rank)][output].bytes;
            }
        }
    }

    void wait() override { check(); }
    void abandon(const Error& reason) override { reason_ = reason; }

  private:
    struct Loaded {
        hlo::Evaluator evaluator;
        std::vector<Buffer> parameters;
        std::vector<Buffer> outputs;  // -1: written in place
    };

    void check() const {
        if (reason_) throw Error(*reason_);
    }
    std::vector<std::byte>& at(Buffer buffer, int32_t rank) {
        return buffers_.at(static_cast<size_t>(buffer)).at(static_cast<size_t>(rank));
    }

    int32_t ranks_;
    int threads_;
    std::vector<std::vector<std::vector<std::byte>>> buffers_;  // [buffer][rank]
    std::vector<Loaded> programs_;
    std::optional<Error> reason_;
};

}  // namespace

std::unique_ptr<Device> make_sim_device(int32_t ranks, int threads) {
    return std::make_unique<SimDevice>(ranks, threads);
}

}  // namespace gemmatrace::trace
