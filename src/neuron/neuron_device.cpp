// Writes are collected and sent with the next round, so that a step costs a round trip to each rank's thread, not one a
// tensor; weights go the same way while the next slice is gathered.
#include "neuron/neuron_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "neuron/neff.h"
#include "neuron/nrt_runtime.h"
#include "neuron/nrt_status.h"
#include "neuron/tensor_check.h"

namespace gemmatrace::neuron {
namespace {

constexpr int32_t kFirstCoreCount = -1;  // the argument of loads; some releases want the one,
constexpr int32_t kOtherCoreCount = 1;   // some the other
constexpr double kLoadPatience = 10.0;   // times the patience with a step

// Writes to one rank that wait for a round.
struct WriteQueue {
    struct Piece {
        trace::Device::Buffer buffer;
        size_t offset, begin, bytes;
    };
    std::vector<Piece> pieces;
    std::vector<std::byte> bytes;

    void clear() {
        pieces.clear();
        bytes.clear();
    }
};

// One buffer, on every rank.
struct DeviceBuffer {
    std::string name;
    size_t bytes = 0;
    std::vector<abi::Tensor*> tensors;  // by rank
};

struct LoadedProgram {
    struct Binding {
        std::string name;
        trace::Device::Buffer buffer;
    };
    std::string name;
    bool has_collectives = false;
    std::vector<Binding> inputs, outputs;
    std::vector<abi::Model*> models;  // by rank, as the sets
    std::vector<abi::TensorSet*> input_sets, output_sets;
};

bool sums_over_ranks(const hlo::Module& module) {
    return std::ranges::any_of(module.computations, [](const hlo::Computation& computation) {
        return std::ranges::any_of(computation.instructions, [](const hlo::Instruction& instruction) {
            return instruction.opcode == hlo::Opcode::all_reduce;
        });
    });
}

class NeuronDevice : public trace::Device {
  public:
    NeuronDevice(int32_t ranks, NeuronOptions options)
        : options_(std::move(options)),
          runtime_(ranks, options_.cores, options_.timeout_seconds, options_.end),
          filled_(static_cast<size_t>(ranks)),
          sent_(static_cast<size_t>(ranks)) {}
    ~NeuronDevice() override {
        runtime_.close([this](RankTurn& turn) { free_rank(turn); });
    }

    int32_t ranks() const override { return runtime_.ranks(); }
    std::string name() const override { return "neuron"; }
    std::string description() const override {
        return fmt::format("Neuron runtime {}, {} {}", runtime_.library().version_text(),
                           runtime_.cores().count == 1 ? "core" : "cores", runtime_.cores().text());
    }
    bool is_compiled() const override { return true; }

    Buffer allocate(const std::string& name, size_t bytes) override;
    void write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) override;
    void read(std::span<const Read> reads) override;
    Program load(hlo::Module module, const BufferOf& buffer_of) override;
    void start(Program program) override;
    void wait() override { runtime_.finish(); }
    void abandon(const Error& reason) override { runtime_.abandon(reason); }

  private:
    void begin(const std::string& what, double patience, NrtRuntime::Command command);
    void send_writes(RankTurn& turn);
    void allocate_on(RankTurn& turn, DeviceBuffer& buffer);
    void clear(RankTurn& turn, const DeviceBuffer& buffer);
    void bind(LoadedProgram& program, const hlo::Module& module, const BufferOf& buffer_of);
    void load_on(RankTurn& turn, LoadedProgram& program, const NeffSource& neff);
    abi::Status call_load(int32_t rank, int32_t core_count, const LoadedProgram& program, const NeffSource& neff,
                          abi::Model** model) const;
    void check_loaded(RankTurn& turn, const LoadedProgram& program);
    void fill_sets(RankTurn& turn, LoadedProgram& program);
    void free_rank(RankTurn& turn);
    // check() that says of a lack of memory what was planned and what the runtime counts.
    void check_memory(RankTurn& turn, const char* function, const std::string& subject, abi::Status status);

    DeviceBuffer& at(Buffer buffer) { return *buffers_.at(static_cast<size_t>(buffer)); }

    NeuronOptions options_;
    std::atomic<int32_t> core_count_{kFirstCoreCount};
    uint64_t allocated_bytes_ = 0;  // of one rank
    std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
    std::vector<std::unique_ptr<LoadedProgram>> programs_;
    NrtRuntime runtime_;
    std::vector<WriteQueue> filled_, sent_;  // by rank; they change places with every round
};

// --- transfers

void NeuronDevice::begin(const std::string& what, double patience, NrtRuntime::Command command) {
    runtime_.finish();
    std::swap(filled_, sent_);
    for (WriteQueue& queue : filled_) queue.clear();
    runtime_.begin(what, patience, [this, command = std::move(command)](RankTurn& turn) {
        send_writes(turn);
        command(turn);
    });
}

void NeuronDevice::send_writes(RankTurn& turn) {
    const auto rank = static_cast<size_t>(turn.rank());
    const WriteQueue& queue = sent_[rank];
    if (queue.pieces.empty()) return;
    turn.says("nrt_tensor_write");
    for (const auto& [buffer, offset, begin_at, bytes] : queue.pieces) {
        const DeviceBuffer& target = at(buffer);
        runtime_.check(
            turn, "nrt_tensor_write", target.name,
            runtime_.call().nrt_tensor_write(target.tensors[rank], queue.bytes.data() + begin_at, offset, bytes));
    }
}

void NeuronDevice::write(Buffer buffer, int32_t rank, size_t offset, std::span<const std::byte> bytes) {
    require(offset + bytes.size() <= at(buffer).bytes, "a write lies inside its buffer");
    if (bytes.empty()) return;
    WriteQueue& queue = filled_[static_cast<size_t>(rank)];
    queue.pieces.push_back({buffer, offset, queue.bytes.size(), bytes.size()});
    queue.bytes.insert(queue.bytes.end(), bytes.begin(), bytes.end());
    if (queue.bytes.size() >= trace::kTransferBytes) begin("a transfer to the cores", 1.0, [](RankTurn&) {});
}

void NeuronDevice::read(std::span<const Read> reads) {
    for (const Read& part : reads) {
        require(part.offset + part.bytes.size() <= at(part.buffer).bytes, "a read lies inside its buffer");
    }
    begin("a transfer from the cores", 1.0, [this, reads](RankTurn& turn) {
        turn.says("nrt_tensor_read");
        for (const auto& [buffer, rank, offset, bytes] : reads) {
            if (rank != turn.rank() || bytes.empty()) continue;
            const DeviceBuffer& source = at(buffer);
            const abi::Tensor* tensor = source.tensors[static_cast<size_t>(rank)];
            runtime_.check(turn, "nrt_tensor_read", source.name,
                           runtime_.call().nrt_tensor_read(tensor, bytes.data(), offset, bytes.size()));
        }
    });
    runtime_.finish();
}

// --- memory

trace::Device::Buffer NeuronDevice::allocate(const std::string& name, size_t bytes) {
    runtime_.finish();  // the ranks look buffers up
    auto buffer = std::make_unique<DeviceBuffer>();
    buffer->name = name;
    buffer->bytes = bytes;
    buffer->tensors.resize(static_cast<size_t>(ranks()));
    buffers_.push_back(std::move(buffer));
    DeviceBuffer& added = *buffers_.back();
    begin("the allocation of " + name, 1.0, [&](RankTurn& turn) { allocate_on(turn, added); });
    runtime_.finish();
    allocated_bytes_ += bytes;
    return static_cast<Buffer>(buffers_.size()) - 1;
}

void NeuronDevice::allocate_on(RankTurn& turn, DeviceBuffer& buffer) {
    turn.says("nrt_tensor_allocate");
    abi::Tensor*& tensor = buffer.tensors[static_cast<size_t>(turn.rank())];
    check_memory(turn, "nrt_tensor_allocate", buffer.name,
                 runtime_.call().nrt_tensor_allocate(abi::kPlacementDevice, turn.rank(), buffer.bytes,
                                                     buffer.name.c_str(), &tensor));
    clear(turn, buffer);
}

// Fresh memory holds anything, and what is masked away is multiplied all the same: NaN times 0 is NaN (fault F148).
void NeuronDevice::clear(RankTurn& turn, const DeviceBuffer& buffer) {
    abi::Tensor* tensor = buffer.tensors[static_cast<size_t>(turn.rank())];
    const abi::Functions& call = runtime_.call();
    if (call.nrt_tensor_memset != nullptr) {
        turn.says("nrt_tensor_memset");
        runtime_.check(turn, "nrt_tensor_memset", buffer.name, call.nrt_tensor_memset(tensor, 0, 0, buffer.bytes));
        return;
    }
    turn.says("nrt_tensor_write");
    const std::vector<std::byte> zeros(std::min(buffer.bytes, trace::kTransferBytes));
    for (size_t offset = 0; offset < buffer.bytes; offset += zeros.size()) {
        const size_t bytes = std::min(zeros.size(), buffer.bytes - offset);
        runtime_.check(turn, "nrt_tensor_write", buffer.name,
                       call.nrt_tensor_write(tensor, zeros.data(), offset, bytes));
    }
}

void NeuronDevice::check_memory(RankTurn& turn, const char* function, const std::string& subject, abi::Status status) {
    if (status != abi::kResource) return runtime_.check(turn, function, subject, status);
    Error error = error_of({function, turn.rank(), subject}, status);
    std::string planned;
    for (const auto& [part, bytes] : options_.planned) {
        planned += fmt::format("{}{} {}", planned.empty() ? "" : ", ", part, format_bytes(bytes));
    }
    if (!planned.empty()) error.add_context("planned_of_a_core", planned);
    error.add_context("taken_by_us", format_bytes(allocated_bytes_));
    if (const auto stats = runtime_.library().memory_stats(turn.rank())) {
        error.add_context("counted_by_runtime",
                          fmt::format("{} of {}", format_bytes(stats->bytes_used), format_bytes(stats->bytes_limit)));
    }
    throw Error(error);
}

// --- programs

trace::Device::Program NeuronDevice::load(hlo::Module module, const BufferOf& buffer_of) {
    const NeffSource neff = options_.neff_of(module.name);
    check_neff(read_neff(neff.bytes, neff.where), module, neff.where);
    programs_.push_back(std::make_unique<LoadedProgram>());
    LoadedProgram& program = *programs_.back();
    bind(program, module, buffer_of);
    try {
        begin("the load of " + program.name, kLoadPatience, [&](RankTurn& turn) { load_on(turn, program, neff); });
        runtime_.finish();
    } catch (Error& error) {
        error.add_context("file", neff.where);
        const std::string holders = holders_text(find_core_holders());
        if (!holders.empty()) error.add_context("cores", runtime_.cores().text() + ", " + holders);
        throw;
    }
    return static_cast<Program>(programs_.size()) - 1;
}

// A result that takes a parameter's memory is the same tensor on both sides.
void NeuronDevice::bind(LoadedProgram& program, const hlo::Module& module, const BufferOf& buffer_of) {
    program.name = module.name;
    program.has_collectives = ranks() > 1 && sums_over_ranks(module);
    for (auto* handles : {&program.input_sets, &program.output_sets}) handles->resize(static_cast<size_t>(ranks()));
    program.models.resize(static_cast<size_t>(ranks()));
    const auto parameters = module.parameter_names();
    for (size_t number = 0; number < parameters.size(); ++number) {
        program.inputs.push_back(
            {parameters[number], buffer_of(parameters[number], module.host_shape.parameters[number].bytes())});
    }
    const auto outputs = module.output_names();
    for (size_t place = 0; place < outputs.size(); ++place) {
        const auto alias = std::ranges::find(module.aliases, static_cast<int64_t>(place), &hlo::Alias::output);
        const Buffer buffer = alias != module.aliases.end()
                                  ? program.inputs[static_cast<size_t>(alias->parameter)].buffer
                                  : buffer_of(outputs[place], module.host_shape.result.elements[place].bytes());
        program.outputs.push_back({outputs[place], buffer});
    }
}

abi::Status NeuronDevice::call_load(int32_t rank, int32_t core_count, const LoadedProgram& program,
                                    const NeffSource& neff, abi::Model** model) const {
    const abi::Functions& call = runtime_.call();
    const auto& bytes = neff.bytes;
    if (!program.has_collectives) return call.nrt_load(bytes.data(), bytes.size(), rank, core_count, model);
    return call.nrt_load_collectives(bytes.data(), bytes.size(), rank, core_count, static_cast<uint32_t>(rank),
                                     static_cast<uint32_t>(ranks()), model);
}

void NeuronDevice::load_on(RankTurn& turn, LoadedProgram& program, const NeffSource& neff) {
    const char* function = program.has_collectives ? "nrt_load_collectives" : "nrt_load";
    turn.says(function);
    abi::Model*& model = program.models[static_cast<size_t>(turn.rank())];
    const int32_t core_count = core_count_;
    abi::Status status = call_load(turn.rank(), core_count, program, neff, &model);
    if (status == abi::kInvalid && core_count == kFirstCoreCount) {
        status = call_load(turn.rank(), kOtherCoreCount, program, neff, &model);
        if (status == abi::kSuccess) core_count_ = kOtherCoreCount;
    }
    check_memory(turn, function, program.name, status);
    if (turn.rank() == 0) check_loaded(turn, program);
    fill_sets(turn, program);
}

// What the runtime says it has loaded, where it says so. Numbers of types changed between releases; sizes are right.
void NeuronDevice::check_loaded(RankTurn& turn, const LoadedProgram& program) {
    const abi::Functions& call = runtime_.call();
    if (call.nrt_get_model_tensor_info == nullptr || call.nrt_free_model_tensor_info == nullptr) return;
    turn.says("nrt_get_model_tensor_info");
    abi::TensorInfoArray* infos = nullptr;
    if (call.nrt_get_model_tensor_info(program.models[0], &infos) != abi::kSuccess || infos == nullptr) return;
    std::string fault;
    for (uint64_t index = 0; index < infos->count && fault.empty(); ++index) {
        const abi::TensorInfo& info = infos->entries[index];
        const std::string name(info.name, ::strnlen(info.name, sizeof info.name));
        const auto& bindings = info.usage == abi::kUsageInput ? program.inputs : program.outputs;
        const auto found = std::ranges::find(bindings, name, &LoadedProgram::Binding::name);
        if (found == bindings.end())
            fault = fmt::format("the runtime has a tensor {} that the program has not", name);
        else if (at(found->buffer).bytes != info.size)
            fault =
                fmt::format("the runtime gives {} {} bytes, the program {}", name, info.size, at(found->buffer).bytes);
    }
    call.nrt_free_model_tensor_info(infos);
    if (!fault.empty()) {
        throw Error(ErrorCode::mismatch, fault, {{"of", program.name}},
                    "compile the bundle again with the compiler of the runtime's release");
    }
}

// Once: the runtime keeps descriptors for each pair of sets.
void NeuronDevice::fill_sets(RankTurn& turn, LoadedProgram& program) {
    const auto rank = static_cast<size_t>(turn.rank());
    const auto fill = [&](abi::TensorSet*& set, const std::vector<LoadedProgram::Binding>& bindings) {
        turn.says("nrt_allocate_tensor_set");
        check_memory(turn, "nrt_allocate_tensor_set", program.name, runtime_.call().nrt_allocate_tensor_set(&set));
        turn.says("nrt_add_tensor_to_tensor_set");
        for (const auto& [name, buffer] : bindings) {
            runtime_.check(turn, "nrt_add_tensor_to_tensor_set", name,
                           runtime_.call().nrt_add_tensor_to_tensor_set(set, name.c_str(), at(buffer).tensors[rank]));
        }
    };
    fill(program.input_sets[rank], program.inputs);
    fill(program.output_sets[rank], program.outputs);
}

void NeuronDevice::start(Program program) {
    LoadedProgram& loaded = *programs_.at(static_cast<size_t>(program));
    begin(loaded.name, 1.0, [this, &loaded](RankTurn& turn) {
        if (!turn.meet()) return;  // another rank could not write its inputs
        turn.says("nrt_execute");
        const auto rank = static_cast<size_t>(turn.rank());
        runtime_.check(
            turn, "nrt_execute", loaded.name,
            runtime_.call().nrt_execute(loaded.models[rank], loaded.input_sets[rank], loaded.output_sets[rank]));
    });
}

// Tensors live until no set names them.
void NeuronDevice::free_rank(RankTurn& turn) {
    const auto rank = static_cast<size_t>(turn.rank());
    const abi::Functions& call = runtime_.call();
    for (const auto& program : programs_) {
        turn.says("nrt_unload");
        if (abi::Model* model = program->models[rank]; model != nullptr) call.nrt_unload(model);
        turn.says("nrt_destroy_tensor_set");
        for (abi::TensorSet** set : {&program->input_sets[rank], &program->output_sets[rank]}) {
            if (*set != nullptr) call.nrt_destroy_tensor_set(set);
        }
    }
    turn.says("nrt_tensor_free");
    for (const auto& buffer : buffers_) {
        if (buffer->tensors[rank] != nullptr) call.nrt_tensor_free(&buffer->tensors[rank]);
    }
}

}  // namespace

std::function<NeffSource(const std::string& program_name)> neffs_of(std::filesystem::path bundle, Compiled compiled) {
    return [bundle = std::move(bundle), compiled = std::move(compiled)](const std::string& name) {
        const CompiledProgram& program = compiled.find(name);
        const auto bytes = std::make_shared<const std::string>(neff_of(bundle, program));
        return NeffSource{(bundle / program.file()).string(), bytes, std::as_bytes(std::span(*bytes))};
    };
}

std::unique_ptr<trace::Device> make_neuron_device(int32_t ranks, NeuronOptions options) {
    return std::make_unique<NeuronDevice>(ranks, std::move(options));
}

std::string why_no_neuron(int32_t ranks, const std::string& cores) {
    try {
        open_for(choose_cores(cores, ranks));
        return {};
    } catch (const Error& error) {
        return error.message();
    }
}

}  // namespace gemmatrace::neuron
