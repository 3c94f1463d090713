// Writes programs of a checkpoint with what they were given and what our evaluator made of it, for the judge.
//
//   program_values DIRECTORY OUT RANKS PRECISION SLOTS CHUNK BUCKET,BUCKET,... STEP...
//
// A model on the simulator takes the steps; PRECISION is bf16 or fp32, the last bucket is the context. A step is
//   prefill:SLOT:TOKENS      decode:SLOT,SLOT,...      copy:FROM:TO:LENGTH      trim:SLOT:LENGTH
// and, where :write or :break is added, the last program that it ran is written to OUT/NUMBER-KIND: module.hlo.pb,
// ranks, in/rankR/PARAMETER.bin, ours/rankR/RESULT.bin (caches too) and cpu/ROW.bin, the logits of the CPU's own
// forward pass for each row that has a token; with :break also broken-FAULT.hlo.pb, the program with a fault planted.
// NUMBER counts from 0 what is written. tests/trace/judge_programs.py has it judged.
#include <charconv>
#include <filesystem>
#include <string_view>

#include "cpu/runner.h"
#include "hlo/value_files.h"
#include "trace/device_model.h"
#include "trace/forwarding_device.h"
#include "trace/planted_faults.h"
#include "trace/sim_device.h"

namespace gemmatrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "see the head of tests/trace/program_values.cpp";

// Passes everything on; of a run it writes down what went in and what came out, where it is told to.
class RecordingDevice : public ForwardingDevice {
  public:
    using ForwardingDevice::ForwardingDevice;

    // Each run overwrites the one before; an empty folder: none.
    void record_into(fs::path folder) { folder_ = std::move(folder); }
    const hlo::Module& last_program() const { return programs_.at(static_cast<size_t>(last_)).module; }

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
        return ForwardingDevice::load(programs_.back().module, buffer_of);  // which numbers programs from 0 too
    }
    void start(Program program) override {
        last_ = program;
        const Loaded& loaded = programs_.at(static_cast<size_t>(program));
        write_values("in", loaded.parameters);
        ForwardingDevice::start(program);
        write_values("ours", loaded.results);
    }

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
                ForwardingDevice::read(std::span(&read, 1));
                hlo::testing::write_bytes(hlo::testing::value_path(folder_ / part, rank, place.name), bytes);
            }
        }
    }

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

// The model on the simulator, and beside it the tokens of each slot.
class Session {
  public:
    Session(const fs::path& directory, const DeviceModelOptions& options) : directory_(directory), options_(options) {
        const int32_t ranks = options.geometry.ranks;
        auto recording = std::make_unique<RecordingDevice>(make_sim_device(ranks, 2));
        device_ = recording.get();
        model_ = std::make_unique<DeviceModel>(std::move(recording), directory, options);
        tokens_.resize(static_cast<size_t>(options.geometry.slots));
    }

    RecordingDevice& device() { return *device_; }

    void take_step(const std::vector<std::string_view>& words) {
        const auto number = [&](size_t word) { return number_of(words.at(word)); };
        rows_.clear();
        if (words[0] == "prefill") {
            const auto ids = ids_.next(static_cast<size_t>(number(2)));
            model_->prefill(number(1), ids);
            tokens(number(1)).insert(tokens(number(1)).end(), ids.begin(), ids.end());
            rows_[0] = number(1);
        } else if (words[0] == "decode") {
            std::vector<int32_t> slots;
            for (const std::string_view slot : parts_of(words.at(1), ',')) slots.push_back(number_of(slot));
            const auto ids = ids_.next(slots.size());
            model_->decode(slots, ids);
            for (size_t index = 0; index < slots.size(); ++index) {
                tokens(slots[index]).push_back(ids[index]);
                rows_[slots[index]] = slots[index];
            }
        } else if (words[0] == "copy") {
            model_->copy_prefix(number(1), number(2), number(3));
            tokens(number(2)) = tokens(number(1));
            tokens(number(2)).resize(static_cast<size_t>(number(3)));
        } else if (words[0] == "trim") {
            model_->trim(number(1), number(2));
            tokens(number(1)).resize(static_cast<size_t>(number(2)));
        } else {
            throw Error(ErrorCode::bad_request, fmt::format("{} is no step", words[0]), {}, kRemedy);
        }
    }

    // Logits after the last step by the CPU backend, which computes each slot anew from all of its tokens.
    void write_reference(const fs::path& folder) {
        if (!reference_) {
            cpu::RunnerOptions options;
            options.precision = options_.geometry.precision;
            options.threads = 1;
            reference_ = std::make_unique<cpu::Runner>(directory_, options);
        }
        for (const auto& [row, slot] : rows_) {
            cpu::Slot fresh = reference_->new_slot(options_.geometry.context_tokens);
            const auto logits = reference_->extend(fresh, tokens(slot));
            hlo::testing::write_bytes(folder / fmt::format("{}.bin", row), std::as_bytes(logits));
        }
    }

  private:
    std::vector<int32_t>& tokens(int32_t slot) { return tokens_.at(static_cast<size_t>(slot)); }

    fs::path directory_;
    DeviceModelOptions options_;
    std::unique_ptr<DeviceModel> model_;
    RecordingDevice* device_;
    std::unique_ptr<cpu::Runner> reference_;
    Ids ids_;
    std::vector<std::vector<int32_t>> tokens_;
    std::map<int32_t, int32_t> rows_;  // of the last step's logits, and their slots
};

int main_of(const std::vector<std::string>& words) {
    if (words.size() < 8) {
        fmt::print(stderr, "usage: program_values DIRECTORY OUT RANKS PRECISION SLOTS CHUNK BUCKET,... STEP...\n");
        return 2;
    }
    const int32_t ranks = number_of(words[2]);
    const auto precision = words[3] == "fp32" ? model::Precision::fp32 : model::Precision::bf16;
    DeviceModelOptions options;
    for (const std::string_view bucket : parts_of(words[6], ',')) options.buckets.push_back(number_of(bucket));
    options.geometry = {ranks, number_of(words[4]), options.buckets.back(), number_of(words[5]), precision};
    Session session(words[0], options);
    int32_t number = 0;
    for (size_t step = 7; step < words.size(); ++step) {
        auto step_words = parts_of(words[step], ':');
        const bool is_broken = step_words.back() == "break";
        const bool is_written = is_broken || step_words.back() == "write";
        const fs::path folder = fs::path(words[1]) / fmt::format("{}-{}", number, step_words[0]);
        session.device().record_into(is_written ? folder : fs::path());
        session.take_step(step_words);
        if (!is_written) continue;
        ++number;
        const hlo::Module& program = session.device().last_program();
        hlo::testing::write_program(folder, program, ranks);
        session.write_reference(folder / "cpu");
        if (!is_broken) continue;
        for (const auto& [fault, module] : testing::broken_programs(program, ranks)) {
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
