// Executes HLO modules on 1..N ranks in lock step: the definition of what our programs compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// An array that lies somewhere: row-major elements of `shape`, little endian; a pred is a byte.
struct ArrayView {
    const Shape* shape = nullptr;
    const std::byte* data = nullptr;
};

// An array that owns its elements.
struct Tensor {
    Shape shape;
    std::vector<std::byte> bytes;
    ArrayView view() const { return {&shape, bytes.data()}; }
};

// The memory of one input, used where it lies. That of an aliased parameter is written to and so must be mutable.
class Argument {
  public:
    Argument(std::span<const std::byte> bytes) : bytes_(bytes) {}  // NOLINT: spans become arguments by themselves
    Argument(std::span<std::byte> bytes) : bytes_(bytes), mutable_data_(bytes.data()) {}  // NOLINT
    std::span<const std::byte> bytes() const { return bytes_; }
    std::byte* mutable_data() const { return mutable_data_; }

  private:
    std::span<const std::byte> bytes_;
    std::byte* mutable_data_ = nullptr;
};

// The result of one instruction that is not parameter, tuple, get-tuple-element or all-reduce. Semantics, with R_t one
// rounding to the element type: elementwise operations in f32, then R_t; exp, log, tanh, sin, cos, rsqrt, logistic and
// pow in double, then to f32, then R_t; dot in f32 over increasing k, multiplication and addition rounded separately,
// then R_t; reduce from the initial value in row-major order with R_t at every step. Operand shapes must be those that
// the instruction was inferred from.
Tensor evaluate(const Module& module, const Instruction& instruction, std::span<const ArrayView> operands);

// An all-reduce: operands[rank], one result a rank. Floating types are accumulated in f32 in the order of ranks within
// the group, then rounded once.
std::vector<Tensor> evaluate_all_reduce(const Module& module, const Instruction& instruction,
                                        std::span<const ArrayView> operands);

// A module made ready to run: memory is planned, views and in-place updates are found, every run does the same.
// A dynamic-update-slice runs as late as its users allow, so that a cache is read before it is written in place.
class Evaluator {
  public:
    // Called with each result of each rank as it is there; the bytes are valid during the call. One call at a time.
    using Probe = std::function<void(int32_t rank, const Instruction& instruction, std::span<const std::byte> bytes)>;

    // threads: how many work, the caller's included: ranks beside each other, or the dots of a single rank. Results do
    // not depend on it. Throws Error(corrupt) when verify finds the module unsound.
    Evaluator(Module module, int32_t ranks, int threads = 1);
    ~Evaluator();
    Evaluator(Evaluator&&) noexcept;
    Evaluator& operator=(Evaluator&&) noexcept;

    const Module& module() const;
    int32_t ranks() const;

    // Runs the program once. arguments[rank][parameter number]; memory of aliased parameters holds their results
    // afterwards and is no other argument's. Returns [rank][result]; aliased results are left empty, as they are in
    // their arguments. Throws Error(mismatch) when sizes or numbers of arguments differ from the parameters, or an
    // aliased one is not mutable.
    std::vector<std::vector<Tensor>> run(std::span<const std::vector<Argument>> arguments, const Probe& probe = {});

    // Bytes of temporary memory that the runs so far needed at once, of the rank that needed most.
    size_t peak_temporary_bytes() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gemmatrace::hlo
