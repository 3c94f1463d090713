// Small programs for the device's tests, and the NEFFs that the stand-in runtime takes for their compiled form.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hlo/builder.h"
#include "hlo/proto.h"
#include "neuron/neuron_device.h"
#include "neuron/nrt_library.h"
#include "standin/neff_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::neuron::testing {

// x f32[4] goes into row `row` of the cache kv f32[8,4]; out comes the sum over the ranks of x times (1 + rank), plus
// the sums of the cache's columns as it was.
inline hlo::Module step_module(int32_t ranks, const std::string& name = "step") {
    using enum hlo::ElementType;
    hlo::Builder b(name, ranks);
    const hlo::Value cache = b.parameter("kv.must_alias_input", hlo::Shape(f32, {8, 4}));
    const hlo::Value x = b.parameter("x", hlo::Shape(f32, {4}));
    const hlo::Value row = b.parameter("row", hlo::Shape(s32, {}));
    const hlo::Value rank = b.parameter("rank", hlo::Shape(s32, {}));
    const hlo::Value factor = b.broadcast(b.add(b.convert(rank, f32), b.constant(f32, 1.0)), {4});
    const hlo::Value total = b.all_reduce(b.multiply(x, factor), hlo::Opcode::add);
    const hlo::Value seen = b.reduce(cache, hlo::Opcode::add, {0}, 0.0);
    const hlo::Value starts[] = {row, b.constant(s32, 0)};
    const hlo::Value written = b.dynamic_update_slice(cache, b.reshape(x, {1, 4}), starts);
    return b.finish({{"total", b.add(total, seen)}, {"kv", written, cache}});
}

// What a compiler would make of it.
inline standin::NeffContent neff_content(const hlo::Module& module) {
    standin::NeffContent content;
    content.name = module.name;
    const auto inputs = module.parameter_names();
    for (size_t number = 0; number < inputs.size(); ++number) {
        content.variables.push_back({inputs[number], "input", module.host_shape.parameters[number].bytes()});
    }
    const auto outputs = module.output_names();
    for (size_t place = 0; place < outputs.size(); ++place) {
        content.variables.push_back({outputs[place], "output", module.host_shape.result.elements[place].bytes()});
    }
    content.variables.push_back({"scratch", "virtual", 4096, 0});
    content.members.emplace_back(standin::kProgramMember, hlo::write_proto(module));
    return content;
}

inline NeffSource source_of(std::string bytes, const std::string& where = "step.neff") {
    const auto owner = std::make_shared<const std::string>(std::move(bytes));
    return {where, owner, std::as_bytes(std::span(*owner))};
}

// The stand-in runtime, with an environment of this test's own.
class StandinRuntime {
  public:
    // kind: "all", "old" or "broken", by what it exports.
    explicit StandinRuntime(const std::string& kind = "all") {
        set(kLibraryVariable, std::string(GEMMATRACE_STANDIN_NRT_FOLDER) + "/" + kind + "/libnrt.so.1");
        set("GEMMATRACE_STANDIN_NRT_FOLDER", folder_.path().string());
        set("GEMMATRACE_STANDIN_NRT_LOG", (folder_ / "log").string());
        set("PATH", "/usr/bin:/bin");
        for (const char* name : {"FAULTS", "VERSION", "COUNT", "BYTES", "CORES"}) {
            ::unsetenv((std::string("GEMMATRACE_STANDIN_NRT_") + name).c_str());
        }
    }
    void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }
    void plant(const std::string& faults) { set("GEMMATRACE_STANDIN_NRT_FAULTS", faults); }
    std::filesystem::path log() const { return folder_ / "log"; }

  private:
    gemmatrace::testing::TemporaryFolder folder_;
};

// A process has one device; the one before in this process has left its cores in the environment.
inline NeuronOptions standin_options() {
    ::unsetenv("NEURON_RT_VISIBLE_CORES");
    NeuronOptions options;
    options.timeout_seconds = 60.0;
    options.neff_of = [](const std::string& program) { return source_of("", program); };
    return options;
}

// A device with the step loaded, and its buffers by name.
struct LoadedStep {
    std::unique_ptr<trace::Device> device;
    std::map<std::string, trace::Device::Buffer> buffers;
    trace::Device::Program program = -1;

    LoadedStep(std::unique_ptr<trace::Device> made, const hlo::Module& module) : device(std::move(made)) {
        program = device->load(module, [&](const std::string& name, size_t bytes) { return buffer(name, bytes); });
        for (int32_t rank = 0; rank < device->ranks(); ++rank) {
            device->write(buffers.at("rank"), rank, 0, std::as_bytes(std::span(&rank, 1)));
        }
    }
    trace::Device::Buffer buffer(std::string name, size_t bytes) {
        if (name.ends_with(hlo::kAliasSuffix)) name.resize(name.size() - hlo::kAliasSuffix.size());
        const auto [found, is_new] = buffers.try_emplace(name, -1);
        if (is_new) found->second = device->allocate(name, bytes);
        return found->second;
    }
    void start(int32_t row, float first) {
        const std::vector<float> x = {first, 1.0F, -2.0F, 0.5F};
        for (int32_t rank = 0; rank < device->ranks(); ++rank) {
            device->write(buffers.at("x"), rank, 0, std::as_bytes(std::span(x)));
            device->write(buffers.at("row"), rank, 0, std::as_bytes(std::span(&row, 1)));
        }
        device->start(program);
    }
    std::vector<float> result(const std::string& name, int32_t rank, size_t count) {
        std::vector<float> values(count);
        const trace::Device::Read read{buffers.at(name), rank, 0, std::as_writable_bytes(std::span(values))};
        device->read(std::span(&read, 1));
        return values;
    }
    std::vector<float> step(int32_t row, float first, int32_t rank = 0) {
        start(row, first);
        return result("total", rank, 4);
    }
};

// On the stand-in; the NEFF may be bent first.
template <typename Bend>
LoadedStep standin_step(int32_t ranks, NeuronOptions options, const Bend& bend) {
    const hlo::Module module = step_module(ranks);
    standin::NeffContent content = neff_content(module);
    bend(content);
    options.neff_of = [bytes = standin::write_neff(content)](const std::string& program) {
        return source_of(bytes, program + ".neff");
    };
    return {make_neuron_device(ranks, std::move(options)), module};
}
inline LoadedStep standin_step(int32_t ranks, NeuronOptions options = standin_options()) {
    return standin_step(ranks, std::move(options), [](standin::NeffContent&) {});
}

}  // namespace gemmatrace::neuron::testing
