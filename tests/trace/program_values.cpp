// Writes programs of a checkpoint with what they were given and what our evaluator made of it, for the judge.
//
//   program_values DIRECTORY OUT RANKS PRECISION SLOTS CHUNK CONTEXT STEP...
//
// A model on the simulator takes the steps; PRECISION is bf16 or fp32, CONTEXT its one bucket. A step is
//   prefill:SLOT:TOKENS      decode:SLOT,SLOT,...      copy:FROM:TO:LENGTH
// and, where :write or :break is added, the last program that it ran is written to OUT/NUMBER-NAME: module.hlo.pb,
// ranks, in/rankR/PARAMETER.bin, ours/rankR/RESULT.bin (caches too); with :break also broken-FAULT.hlo.pb, the program
// with a fault planted. NUMBER counts from 0 what is written. tests/trace/judge_programs.py has it judged.
#include <charconv>
#include <filesystem>
#include <string_view>

#include "hlo/value_files.h"
#include "trace/device_model.h"
#include "trace/planted_faults.h"
#include "trace/sim_device.h"

namespace gemmatrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "see the head of tests/trace/program_values.cpp";

// Passes everything on; of a run it writes down what went in and what came out, where it is told to.
class RecordingDevice : public Device {
  public:
    explicit RecordingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

    // Each run overwrites the one before; an empty folder: none.
    void record_into(fs::path folder) { folder_ = std::move(folder); }
    const hlo::Module& last_program() const { return programs_.at(static_cast<size_t>(last_)).module; }

    int32_t ranks() const override { return inner_->ranks(); }
    std::string name() const override { return inner_->name(); }
    std::string description() const override { return inner_->description(); }
    Buffer allocate(const std::string& name, size_t bytes) override { return inner_->allocate(name, bytes); }
    void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) override {
        inner_->write(buffer, rank, offset, bytes);
    }
    void read(std::span<const Read> reads) override { inner_->read(reads); }
    Program load(hlo::Module module, const BufferOf& buffer_of) override {
        Loaded loaded{std::move(module), {}, {}};
        const auto places = loaded.module.parameters();
        const auto names = loaded.module.parameter_names();
        for (size_t number = 0; number < places.size(); ++number) {
            const auto& parameter = loaded.module.entry().instructions[static_cast<size_t>(places[number])];
            const size_t bytes = parameter.shape.bytes();
            loaded.parameters.push_back({parameter.name, buffer_of(names[number], bytes), bytes});
        }
        const auto outputs = loaded.module.output_names();
        for (size_t output = 0; output < outputs.size(); ++output) {
            const size_t bytes = loaded.module.host_shape.result.elements[output].bytes();
            const auto& aliases = loaded.module.aliases;
            const auto alias = std::ranges::find(aliases, static_cast<int64_t>(output), &hlo::Alias::output);
            const Buffer buffer = alias == aliases.end()
                                      ? buffer_of(outputs[output], bytes)
                                      : loaded.parameters[static_cast<size_t>(alias->parameter)].buffer;
            loaded.results.push_back({outputs[output], buffer, bytes});
        }
        programs_.push_back(std::move(loaded));
        return inner_->load(programs_.back().module, buffer_of);  // which numbers programs from 0 too
    }
    void start(Program program) override {
        last_ = program;
        const Loaded& loaded = programs_.at(static_cast<size_t>(program));
        write_values("in", loaded.parameters);
        inner_->start(program);
        write_values("ours", loaded.results);
    }
    void wait() override { inner_->wait(); }
    void abandon(const Error& reason) override { inner_->abandon(reason); }

  private:
    struct Place {
        std::string name;
        Buffer buffer;
        size_t bytes;
    };
    struct Loaded {
        hlo::Module module;
        std::vector<Place> parameters, results;
    };

    void write_values(const char* part, const std::vector<Place>& places) {
        if (folder_.empty()) return;
        std::vector<std::byte> bytes;
        for (const Place& place : places) {
            for (int32_t rank = 0; rank < ranks(); ++rank) {
                bytes.resize(place.bytes);
                const Read read{place.buffer, rank, 0, bytes};
                inner_->read(std::span(&read, 1));
                hlo::testing::write_bytes(hlo::testing::value_path(folder_ / part, rank, place.name), bytes);
            }
        }
    }

    std::unique_ptr<Device> inner_;
    std::vector<Loaded> programs_;
    Program last_ = -1;
    fs::path folder_;
};

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

int32_t number_of(std::string_view text) {
    int32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
    throw Error(ErrorCode::bad_request, fmt::format("{} is no number", text), {}, kRemedy);
}

// Ids of the bundled checkpoints' vocabulary that are words; never twice the same few.
class Ids {
  public:
    std::vector<int32_t> next(size_t count) {
        std::vector<int32_t> ids;
        while (ids.size() < count) ids.push_back(300 + next_++ * 53 % 700);
        return ids;
    }

  private:
    int32_t next_ = 0;
};

void take_step(DeviceModel& model, Ids& ids, const std::vector<std::string_view>& words) {
    if (words[0] == "prefill") {
        model.prefill(number_of(words.at(1)), ids.next(static_cast<size_t>(number_of(words.at(2)))));
    } else if (words[0] == "decode") {
        std::vector<int32_t> slots;
        for (const std::string_view slot : parts_of(words.at(1), ',')) slots.push_back(number_of(slot));
        model.decode(slots, ids.next(slots.size()));
    } else if (words[0] == "copy") {
        model.copy_prefix(number_of(words.at(1)), number_of(words.at(2)), number_of(words.at(3)));
    } else {
        throw Error(ErrorCode::bad_request, fmt::format("{} is no step", words[0]), {}, kRemedy);
    }
}

int main_of(const std::vector<std::string>& words) {
    if (words.size() < 8) {
        fmt::print(stderr, "usage: program_values DIRECTORY OUT RANKS PRECISION SLOTS CHUNK CONTEXT STEP...\n");
        return 2;
    }
    const int32_t ranks = number_of(words[2]);
    const auto precision = words[3] == "fp32" ? model::Precision::fp32 : model::Precision::bf16;
    DeviceModelOptions options;
    options.geometry = {ranks, number_of(words[4]), number_of(words[6]), number_of(words[5]), precision};
    options.buckets = {options.geometry.context_tokens};
    auto recording = std::make_unique<RecordingDevice>(make_sim_device(ranks, 2));
    RecordingDevice& device = *recording;
    DeviceModel model(std::move(recording), words[0], options);
    Ids ids;
    int32_t number = 0;
    for (size_t step = 7; step < words.size(); ++step) {
        auto step_words = parts_of(words[step], ':');
        const bool is_broken = step_words.back() == "break";
        const bool is_written = is_broken || step_words.back() == "write";
        const fs::path folder = fs::path(words[1]) / fmt::format("{}-{}", number, step_words[0]);
        device.record_into(is_written ? folder : fs::path());
        take_step(model, ids, step_words);
        if (!is_written) continue;
        ++number;
        hlo::testing::write_program(folder, device.last_program(), ranks);
        if (!is_broken) continue;
        for (const auto& [fault, module] : testing::broken_programs(device.last_program(), ranks)) {
            hlo::testing::write_text(folder / fmt::format("broken-{}.hlo.pb", fault), hlo::write_proto(module));
        }
    }
    return 0;
}

}  // namespace
}  // namespace gemmatrace::trace

int main(int count, char** words) {
    try {
        return gemmatrace::trace::main_of({words + 1, words + count});
    } catch (const gemmatrace::Error& error) {
        fmt::print(stderr, "{}\n", error.what());
        return gemmatrace::exit_status(error.code());
    }
}
