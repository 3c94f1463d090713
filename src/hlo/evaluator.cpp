// Follows a plan on every rank, stopping together at each all-reduce.
#include "hlo/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/thread_pool.h"
#include "hlo/evaluation_plan.h"
#include "hlo/operations.h"
#include "hlo/verifier.h"

namespace gemmatrace::hlo {

struct Evaluator::State {
    // Temporary arrays of one rank; what was freed is given out again for the same size.
    class Memory {
      public:
        std::byte* take(size_t bytes);
        void give_back(std::byte* memory, size_t bytes);
        size_t peak() const { return peak_; }

      private:
        std::vector<std::unique_ptr<std::byte[]>> blocks_;
        std::map<size_t, std::vector<std::byte*>> spare_;
        size_t in_use_ = 0;
        size_t peak_ = 0;
    };

    struct Rank {
        Memory memory;
        std::vector<std::byte*> data;  // by place; inputs and constants are never written to: the plan sees to it
    };

    Module module;
    int32_t ranks = 1;
    EvaluationPlan plan;
    std::vector<int32_t> parameters;
    std::vector<Rank> states;
    std::unique_ptr<ThreadPool> pool;  // null: one thread
    std::mutex probe_mutex;

    const Instruction& at(int32_t place) const { return module.entry().instructions[static_cast<size_t>(place)]; }
    void bind(int32_t rank, const std::vector<Argument>& arguments);
    ArrayView view(int32_t rank, int32_t place) const;
    void run_steps(int32_t rank, size_t begin, size_t end, const Probe& probe);
    void run_step(int32_t rank, const Step& step);
    void reduce_ranks(const Step& step);
    void finish_step(int32_t rank, const Step& step, const Probe& probe);
    std::vector<Tensor> results(int32_t rank);
    bool is_aliased(size_t output, int64_t& parameter) const;
};

std::byte* Evaluator::State::Memory::take(size_t bytes) {
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    auto& spare = spare_[bytes];
    if (spare.empty()) {
        blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
        return blocks_.back().get();
    }
    std::byte* memory = spare.back();
    spare.pop_back();
    return memory;
}

void Evaluator::State::Memory::give_back(std::byte* memory, size_t bytes) {
    in_use_ -= bytes;
    spare_[bytes].push_back(memory);
}

// Checks the arguments of a rank and notes where they and the constants lie.
void Evaluator::State::bind(int32_t rank, const std::vector<Argument>& arguments) {
    const auto refuse = [&](const std::string& fault, const char* remedy) {
        throw Error(ErrorCode::mismatch, fault, {{"program", module.name}, {"rank", std::to_string(rank)}}, remedy);
    };
    if (arguments.size() != parameters.size()) {
        refuse(fmt::format("{} arguments for {} parameters", arguments.size(), parameters.size()), "give one for each");
    }
    auto& data = states[static_cast<size_t>(rank)].data;
    data.assign(module.entry().instructions.size(), nullptr);
    for (size_t number = 0; number < parameters.size(); ++number) {
        const Instruction& parameter = at(parameters[number]);
        const auto bytes = arguments[number].bytes();
        if (bytes.size() != parameter.shape.bytes()) {
            refuse(fmt::format("{} bytes for parameter {} {}", bytes.size(), parameter.name, parameter.shape.text()),
                   "give its elements in row-major order");
        }
        if (reinterpret_cast<uintptr_t>(bytes.data()) % element_bytes(parameter.shape.type) != 0) {
            refuse(fmt::format("the memory of parameter {} is not aligned to its elements", parameter.name),
                   "copy it to aligned memory");
        }
        data[static_cast<size_t>(parameters[number])] = const_cast<std::byte*>(bytes.data());
    }
    for (const Alias& alias : module.aliases) {
        const auto number = static_cast<size_t>(alias.parameter);
        if (arguments[number].mutable_data() != nullptr) continue;
        refuse(fmt::format("parameter {} is written to, but its memory is const", at(parameters[number]).name),
               "give mutable memory");
    }
    for (size_t place = 0; place < data.size(); ++place) {
        const Instruction& instruction = at(static_cast<int32_t>(place));
        if (instruction.opcode != Opcode::constant) continue;
        data[place] = const_cast<std::byte*>(instruction.literal.data());
    }
}

ArrayView Evaluator::State::view(int32_t rank, int32_t place) const {
    return {&at(place).shape, states[static_cast<size_t>(rank)].data[static_cast<size_t>(place)]};
}

namespace {

// Where a view begins in its operand's memory, in elements.
int64_t view_offset(const Instruction& instruction, std::span<const ArrayView> operands) {
    std::vector<int64_t> starts;
    if (instruction.opcode == Opcode::dynamic_slice) {
        starts = clamped_starts(operands, 1, *operands[0].shape, instruction.shape.dimensions);
    } else if (instruction.opcode == Opcode::slice) {
        for (const SliceRange& range : instruction.ranges) starts.push_back(range.start);
    }
    const std::vector<int64_t> strides = row_major_strides(operands[0].shape->dimensions);
    int64_t offset = 0;
    for (size_t axis = 0; axis < starts.size(); ++axis) offset += starts[axis] * strides[axis];
    return offset;
}

}  // namespace

void Evaluator::State::run_step(int32_t rank, const Step& step) {
    Rank& state = states[static_cast<size_t>(rank)];
    const Instruction& instruction = at(step.place);
    std::vector<ArrayView> operands;
    for (const int32_t operand : step.operands) operands.push_back(view(rank, operand));
    std::byte*& result = state.data[static_cast<size_t>(step.place)];
    if (step.manner == Manner::view) {
        const size_t bytes = element_bytes(instruction.shape.type);
        result = state.data[static_cast<size_t>(step.operands[0])] +
                 static_cast<size_t>(view_offset(instruction, operands)) * bytes;
        return;
    }
    result = step.manner == Manner::in_place ? state.data[static_cast<size_t>(step.operands[0])]
                                             : state.memory.take(instruction.shape.bytes());
    compute(module, instruction, operands, result, ranks == 1 ? pool.get() : nullptr);
}

void Evaluator::State::reduce_ranks(const Step& step) {
    const Instruction& instruction = at(step.place);
    for (const auto& group : groups_of(instruction, ranks)) {
        std::vector<const std::byte*> operands;
        std::vector<std::byte*> results;
        for (const int64_t rank : group) {
            Rank& state = states[static_cast<size_t>(rank)];
            operands.push_back(state.data[static_cast<size_t>(step.operands[0])]);
            results.push_back(state.memory.take(instruction.shape.bytes()));
            state.data[static_cast<size_t>(step.place)] = results.back();
        }
        compute_all_reduce(*module.combiner(instruction.called_computation), instruction.shape, operands, results);
    }
}

void Evaluator::State::finish_step(int32_t rank, const Step& step, const Probe& probe) {
    Rank& state = states[static_cast<size_t>(rank)];
    if (probe) {
        const std::lock_guard lock(probe_mutex);
        const Instruction& instruction = at(step.place);
        probe(rank, instruction, {state.data[static_cast<size_t>(step.place)], instruction.shape.bytes()});
    }
    for (const int32_t place : step.freed_after) {
        state.memory.give_back(state.data[static_cast<size_t>(place)], at(place).shape.bytes());
    }
}

void Evaluator::State::run_steps(int32_t rank, size_t begin, size_t end, const Probe& probe) {
    for (size_t position = begin; position < end; ++position) {
        run_step(rank, plan.steps[position]);
        finish_step(rank, plan.steps[position], probe);
    }
}

bool Evaluator::State::is_aliased(size_t output, int64_t& parameter) const {
    for (const Alias& alias : module.aliases) {
        if (alias.output != static_cast<int64_t>(output)) continue;
        parameter = alias.parameter;
        return true;
    }
    return false;
}

// Copies of the results that stay with no parameter, and the others into their parameters' memory. All are read before
// any is written, because one parameter's result may lie in another's memory.
std::vector<Tensor> Evaluator::State::results(int32_t rank) {
    Rank& state = states[static_cast<size_t>(rank)];
    std::vector<Tensor> tensors;
    for (size_t output = 0; output < plan.outputs.size(); ++output) {
        const int32_t place = plan.outputs[output];
        const std::byte* data = state.data[static_cast<size_t>(place)];
        int64_t parameter = 0;
        tensors.push_back({at(place).shape, {}});
        const bool is_there = is_aliased(output, parameter) &&
                              data == state.data[static_cast<size_t>(parameters[static_cast<size_t>(parameter)])];
        if (!is_there) tensors.back().bytes.assign(data, data + at(place).shape.bytes());
    }
    for (size_t output = 0; output < tensors.size(); ++output) {
        int64_t parameter = 0;
        auto& bytes = tensors[output].bytes;
        if (!is_aliased(output, parameter) || bytes.empty()) continue;
        std::copy(bytes.begin(), bytes.end(),
                  state.data[static_cast<size_t>(parameters[static_cast<size_t>(parameter)])]);
        bytes = {};
    }
    for (const int32_t place : plan.freed_at_end) {
        state.memory.give_back(state.data[static_cast<size_t>(place)], at(place).shape.bytes());
    }
    return tensors;
}

Evaluator::Evaluator(Module module, int32_t ranks, int threads) : state_(std::make_unique<State>()) {
    require(ranks >= 1, "a program runs on one rank at least");
    require_sound(module, ranks);
    state_->plan = plan_evaluation(module);
    state_->parameters = module.parameters();
    state_->module = std::move(module);
    state_->ranks = ranks;
    state_->states.resize(static_cast<size_t>(ranks));
    if (ranks > 1) threads = std::min(threads, static_cast<int>(ranks));
    if (threads > 1) state_->pool = std::make_unique<ThreadPool>(threads);
}

Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

const Module& Evaluator::module() const { return state_->module; }
int32_t Evaluator::ranks() const { return state_->ranks; }

size_t Evaluator::peak_temporary_bytes() const {
    size_t peak = 0;
    for (const auto& state : state_->states) peak = std::max(peak, state.memory.peak());
    return peak;
}

std::vector<std::vector<Tensor>> Evaluator::run(std::span<const std::vector<Argument>> arguments, const Probe& probe) {
    State& state = *state_;
    if (std::ssize(arguments) != state.ranks) {
        throw Error(ErrorCode::mismatch, fmt::format("arguments of {} ranks for {}", arguments.size(), state.ranks),
                    {{"program", state.module.name}}, "give those of every rank");
    }
    for (int32_t rank = 0; rank < state.ranks; ++rank) state.bind(rank, arguments[static_cast<size_t>(rank)]);
    const auto on_every_rank = [&](const std::function<void(int32_t)>& work) {
        const auto share = [&](int, int64_t begin, int64_t end) {
            for (int64_t rank = begin; rank < end; ++rank) work(static_cast<int32_t>(rank));
        };
        if (state.ranks > 1 && state.pool)
            state.pool->parallel_for(state.ranks, 1, share);
        else
            share(0, 0, state.ranks);
    };
    const auto& steps = state.plan.steps;
    for (size_t begin = 0; begin < steps.size();) {
        size_t end = begin;
        while (end < steps.size() && steps[end].manner != Manner::reduced) ++end;
        on_every_rank([&](int32_t rank) { state.run_steps(rank, begin, end, probe); });
        if (end < steps.size()) {
            state.reduce_ranks(steps[end]);
            for (int32_t rank = 0; rank < state.ranks; ++rank) state.finish_step(rank, steps[end], probe);
            ++end;
        }
        begin = end;
    }
    std::vector<std::vector<Tensor>> results(static_cast<size_t>(state.ranks));
    on_every_rank([&](int32_t rank) { results[static_cast<size_t>(rank)] = state.results(rank); });
    return results;
}

}  // namespace gemmatrace::hlo
