// Between Module and the classes that protoc makes of hlo.proto; the only file that includes them.
#include "hlo/proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "hlo/hlo.pb.h"

namespace gemmatrace::hlo {

namespace {

constexpr int kMustAlias = 2;

template <typename Repeated, typename Values>
void append_all(Repeated* repeated, const Values& values) {
    for (const auto& value : values) repeated->Add(value);
}

// ------------------------------------------------------------------------------------------------ writing

hlo_proto::Shape shape_to_proto(const Shape& shape) {
    hlo_proto::Shape proto;
    proto.set_element_type(static_cast<int>(shape.type));
    for (const Shape& element : shape.elements) *proto.add_tuple_shapes() = shape_to_proto(element);
    if (shape.is_tuple()) return proto;
    append_all(proto.mutable_dimensions(), shape.dimensions);
    auto* order = proto.mutable_layout()->mutable_minor_to_major();  // there for scalars too: literals must have one
    for (size_t axis = shape.rank(); axis-- > 0;) order->Add(static_cast<int64_t>(axis));
    for (size_t axis = 0; axis < shape.rank(); ++axis) proto.add_is_dynamic_dimension(false);
    return proto;
}

template <typename Number, typename Repeated>
void append_numbers(Repeated* repeated, const std::vector<std::byte>& bytes) {
    for (size_t offset = 0; offset + sizeof(Number) <= bytes.size(); offset += sizeof(Number)) {
        Number number;
        std::memcpy(&number, bytes.data() + offset, sizeof number);
        repeated->Add(number);
    }
}

hlo_proto::Literal literal_to_proto(const Instruction& instruction) {
    hlo_proto::Literal proto;
    *proto.mutable_shape() = shape_to_proto(instruction.shape);
    const auto& bytes = instruction.literal;
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    switch (instruction.shape.type) {
        case ElementType::pred:
            append_numbers<uint8_t>(proto.mutable_preds(), bytes);
            break;
        case ElementType::s32:
            append_numbers<int32_t>(proto.mutable_s32s(), bytes);
            break;
        case ElementType::u32:
            append_numbers<uint32_t>(proto.mutable_u32s(), bytes);
            break;
        case ElementType::f32:
            append_numbers<float>(proto.mutable_f32s(), bytes);
            break;
        case ElementType::s8:
            proto.set_s8s(text);
            break;
        case ElementType::u8:
            proto.set_u8s(text);
            break;
        case ElementType::f16:
            proto.set_f16s(text);
            break;
        case ElementType::bf16:
            proto.set_bf16s(text);
            break;
        case ElementType::tuple:
            break;
    }
    return proto;
}

// The rows that Opcode::gather takes, in XLA's terms; operand shapes are those of table and indices.
void gather_to_proto(const Shape& table, const Shape& indices, hlo_proto::Instruction& proto) {
    auto* numbers = proto.mutable_gather_dimension_numbers();
    for (size_t axis = 1; axis < table.rank(); ++axis) {
        numbers->add_offset_dims(static_cast<int64_t>(indices.rank() + axis - 1));
    }
    numbers->add_collapsed_slice_dims(0);
    numbers->add_start_index_map(0);
    numbers->set_index_vector_dim(static_cast<int64_t>(indices.rank()));
    proto.add_gather_slice_sizes(1);
    for (size_t axis = 1; axis < table.rank(); ++axis) proto.add_gather_slice_sizes(table.dimensions[axis]);
}

void attributes_to_proto(const Instruction& instruction, hlo_proto::Instruction& proto) {
    append_all(proto.mutable_dimensions(), instruction.dimensions);
    append_all(proto.mutable_dynamic_slice_sizes(), instruction.slice_sizes);
    for (const auto& [start, limit, stride] : instruction.ranges) {
        auto* range = proto.add_slice_dimensions();
        range->set_start(start);
        range->set_limit(limit);
        range->set_stride(stride);
    }
    if (instruction.opcode == Opcode::dot) {
        auto* numbers = proto.mutable_dot_dimension_numbers();
        append_all(numbers->mutable_lhs_contracting_dimensions(), instruction.dot.lhs_contracting);
        append_all(numbers->mutable_rhs_contracting_dimensions(), instruction.dot.rhs_contracting);
        append_all(numbers->mutable_lhs_batch_dimensions(), instruction.dot.lhs_batch);
        append_all(numbers->mutable_rhs_batch_dimensions(), instruction.dot.rhs_batch);
    }
    for (const auto& group : instruction.groups) {
        append_all(proto.add_replica_groups()->mutable_replica_ids(), group);
    }
    if (instruction.opcode == Opcode::compare) {
        proto.set_comparison_direction(std::string(comparison_name(instruction.comparison)));
    }
    if (instruction.called_computation >= 0) proto.add_called_computation_ids(instruction.called_computation + 1);
    for (const auto& [key, value] : instruction.frontend_attributes) {
        auto* attribute = proto.mutable_frontend_attributes()->add_map();
        attribute->set_key(key);
        attribute->set_value(value);
    }
}

hlo_proto::Instruction instruction_to_proto(const Computation& computation, size_t place, int64_t first_id) {
    const Instruction& instruction = computation.instructions[place];
    hlo_proto::Instruction proto;
    proto.set_name(instruction.name);
    proto.set_opcode(std::string(opcode_name(instruction.opcode)));
    *proto.mutable_shape() = shape_to_proto(instruction.shape);
    proto.set_id(first_id + static_cast<int64_t>(place));
    for (const int32_t operand : instruction.operands) proto.add_operand_ids(first_id + operand);
    if (instruction.opcode == Opcode::constant) *proto.mutable_literal() = literal_to_proto(instruction);
    proto.set_parameter_number(instruction.parameter_number);
    proto.set_tuple_index(instruction.tuple_index);
    if (instruction.opcode == Opcode::gather && instruction.operands.size() == 2) {
        const auto operand = [&](size_t index) -> const Shape& {
            return computation.instructions[static_cast<size_t>(instruction.operands[index])].shape;
        };
        gather_to_proto(operand(0), operand(1), proto);
    }
    attributes_to_proto(instruction, proto);
    return proto;
}

hlo_proto::ProgramShape program_shape_to_proto(const ProgramShape& shape) {
    hlo_proto::ProgramShape proto;
    for (const Shape& parameter : shape.parameters) *proto.add_parameters() = shape_to_proto(parameter);
    *proto.mutable_result() = shape_to_proto(shape.result);
    for (const std::string& name : shape.parameter_names) proto.add_parameter_names(name);
    return proto;
}

// The parameters and the result that a computation really has.
ProgramShape shape_of_computation(const Computation& computation) {
    ProgramShape shape;
    for (const Instruction& instruction : computation.instructions) {
        if (instruction.opcode != Opcode::parameter) continue;
        const auto number = static_cast<size_t>(instruction.parameter_number);
        if (shape.parameters.size() <= number) {
            shape.parameters.resize(number + 1);
            shape.parameter_names.resize(number + 1);
        }
        shape.parameters[number] = instruction.shape;
        shape.parameter_names[number] = instruction.name;
    }
    shape.result = computation.instructions[static_cast<size_t>(computation.root)].shape;
    return shape;
}

void aliases_to_proto(const Module& module, hlo_proto::Module& proto) {
    const bool has_tuple = module.entry().instructions[static_cast<size_t>(module.entry().root)].shape.is_tuple();
    for (const Alias& alias : module.aliases) {
        auto* entry = proto.mutable_input_output_alias()->add_entries();
        if (has_tuple) entry->add_output_shape_index(alias.output);
        entry->set_parameter_number(alias.parameter);
        entry->set_kind(kMustAlias);
    }
}

hlo_proto::Module module_to_proto_without_instructions(const Module& module) {
    hlo_proto::Module proto;
    proto.set_name(module.name);
    proto.set_entry_computation_name(module.entry().name);
    proto.set_entry_computation_id(std::ssize(module.computations));
    *proto.mutable_host_program_shape() = program_shape_to_proto(module.host_shape);
    int64_t next_id = 1;
    for (const Computation& computation : module.computations) {
        auto* computation_proto = proto.add_computations();
        computation_proto->set_name(computation.name);
        computation_proto->set_id(proto.computations_size());
        computation_proto->set_root_id(next_id + computation.root);
        *computation_proto->mutable_program_shape() = program_shape_to_proto(shape_of_computation(computation));
        next_id += std::ssize(computation.instructions);
    }
    aliases_to_proto(module, proto);
    return proto;
}

// ------------------------------------------------------------------------------------------------ reading

constexpr const char* kSubset = "use a program that gemmatrace has written; docs/architecture.md names what it holds";

// Goes through a proto once; what it refuses lies in the instruction it names.
class ProtoReader {
  public:
    explicit ProtoReader(hlo_proto::Module& proto) : proto_(proto) {}

    Module read();
    // The instruction that is being read; empty between instructions.
    const std::string& instruction_name() const { return instruction_name_; }

  private:
    [[noreturn]] void refuse(ErrorCode code, const std::string& fault) const { throw Error(code, fault, {}, kSubset); }
    void demand(bool condition, const char* fault) const {
        if (!condition) refuse(ErrorCode::corrupt, fault);
    }
    // What we would write for what was read must be what was read: fields that we do not know would show here.
    template <typename Message>
    void demand_same(const Message& ours, const Message& theirs) const {
        if (ours.SerializeAsString() == theirs.SerializeAsString()) return;
        refuse(ErrorCode::unsupported, "the proto says more than we keep, or says it otherwise than we write it");
    }

    Shape shape(const hlo_proto::Shape& proto, bool may_be_tuple = true) const;
    ProgramShape program_shape(const hlo_proto::ProgramShape& proto) const;
    std::vector<std::byte> literal(const hlo_proto::Literal& proto, const Shape& shape) const;
    Instruction instruction(const hlo_proto::Instruction& proto, int64_t first_id, int64_t count) const;
    void read_attributes(const hlo_proto::Instruction& proto, Instruction& instruction) const;
    Computation computation(const hlo_proto::Computation& proto);
    Alias alias(const hlo_proto::AliasEntry& proto, bool has_tuple) const;

    hlo_proto::Module& proto_;
    std::string instruction_name_;
    int64_t next_id_ = 1;
    int64_t computation_count_ = 0;
};

Shape ProtoReader::shape(const hlo_proto::Shape& proto, bool may_be_tuple) const {
    const auto type = type_of_number(proto.element_type());
    if (!type) {
        refuse(ErrorCode::unsupported,
               fmt::format("element type {} is none that we use (64 bits?)", proto.element_type()));
    }
    Shape shape(*type, {proto.dimensions().begin(), proto.dimensions().end()});
    if (shape.is_tuple() && !may_be_tuple) refuse(ErrorCode::unsupported, "a tuple in a tuple");
    demand(shape.is_tuple() ? shape.dimensions.empty() : proto.tuple_shapes_size() == 0,
           "a shape is array and tuple at once");
    for (const auto& element : proto.tuple_shapes()) shape.elements.push_back(this->shape(element, false));
    for (const bool is_dynamic : proto.is_dynamic_dimension()) {
        if (is_dynamic) refuse(ErrorCode::unsupported, "a dimension is dynamic");
    }
    if (proto.has_layout()) {
        std::vector<int64_t> order(proto.layout().minor_to_major().rbegin(), proto.layout().minor_to_major().rend());
        bool is_row_major = order.size() == shape.rank();
        for (size_t axis = 0; is_row_major && axis < order.size(); ++axis) {
            is_row_major = order[axis] == static_cast<int64_t>(axis);
        }
        if (!is_row_major) refuse(ErrorCode::unsupported, "the layout is not row-major");
    }
    check_shape(shape);
    return shape;
}

ProgramShape ProtoReader::program_shape(const hlo_proto::ProgramShape& proto) const {
    ProgramShape shape;
    for (const auto& parameter : proto.parameters()) shape.parameters.push_back(this->shape(parameter));
    shape.result = this->shape(proto.result());
    shape.parameter_names.assign(proto.parameter_names().begin(), proto.parameter_names().end());
    return shape;
}

template <typename Repeated>
std::vector<std::byte> bytes_of_numbers(const Repeated& numbers) {
    using Number = std::decay_t<decltype(*numbers.begin())>;
    std::vector<std::byte> bytes(static_cast<size_t>(numbers.size()) * sizeof(Number));
    size_t offset = 0;
    for (const Number number : numbers) {
        std::memcpy(bytes.data() + offset, &number, sizeof number);
        offset += sizeof number;
    }
    return bytes;
}

std::vector<std::byte> ProtoReader::literal(const hlo_proto::Literal& proto, const Shape& shape) const {
    demand(this->shape(proto.shape()) == shape, "the literal has another shape than its constant");
    std::vector<std::byte> bytes;
    switch (shape.type) {
        case ElementType::pred:
            bytes = bytes_of_numbers(proto.preds());
            break;
        case ElementType::s32:
            bytes = bytes_of_numbers(proto.s32s());
            break;
        case ElementType::u32:
            bytes = bytes_of_numbers(proto.u32s());
            break;
        case ElementType::f32:
            bytes = bytes_of_numbers(proto.f32s());
            break;
        case ElementType::s8:
            bytes = bytes_of_numbers(proto.s8s());
            break;
        case ElementType::u8:
            bytes = bytes_of_numbers(proto.u8s());
            break;
        case ElementType::f16:
            bytes = bytes_of_numbers(proto.f16s());
            break;
        case ElementType::bf16:
            bytes = bytes_of_numbers(proto.bf16s());
            break;
        case ElementType::tuple:
            break;
    }
    demand(bytes.size() == shape.bytes(), "the literal has not one number for each element");
    return bytes;
}

void ProtoReader::read_attributes(const hlo_proto::Instruction& proto, Instruction& instruction) const {
    instruction.dimensions.assign(proto.dimensions().begin(), proto.dimensions().end());
    instruction.slice_sizes.assign(proto.dynamic_slice_sizes().begin(), proto.dynamic_slice_sizes().end());
    for (const auto& range : proto.slice_dimensions()) {
        instruction.ranges.push_back({range.start(), range.limit(), range.stride()});
    }
    const auto& numbers = proto.dot_dimension_numbers();
    const auto axes = [](const auto& repeated) { return std::vector<int64_t>(repeated.begin(), repeated.end()); };
    instruction.dot = {axes(numbers.lhs_contracting_dimensions()), axes(numbers.rhs_contracting_dimensions()),
                       axes(numbers.lhs_batch_dimensions()), axes(numbers.rhs_batch_dimensions())};
    for (const auto& group : proto.replica_groups()) instruction.groups.push_back(axes(group.replica_ids()));
    if (instruction.opcode == Opcode::compare) {
        const auto comparison = comparison_of_name(proto.comparison_direction());
        demand(comparison.has_value(), "the comparison has no direction");
        instruction.comparison = *comparison;
    }
    const bool calls = instruction.opcode == Opcode::reduce || instruction.opcode == Opcode::all_reduce;
    demand(proto.called_computation_ids_size() == (calls ? 1 : 0), "the number of called computations is wrong");
    if (calls) {
        const int64_t called = proto.called_computation_ids(0) - 1;
        demand(called >= 0 && called < computation_count_, "it calls no computation that comes before its own");
        instruction.called_computation = static_cast<int32_t>(called);
    }
    for (const auto& attribute : proto.frontend_attributes().map()) {
        instruction.frontend_attributes[attribute.key()] = attribute.value();
    }
}

Instruction ProtoReader::instruction(const hlo_proto::Instruction& proto, int64_t first_id, int64_t count) const {
    const auto opcode = opcode_of_name(proto.opcode());
    if (!opcode) {
        refuse(ErrorCode::unsupported,
               fmt::format("the operation '{}' is none that we write or evaluate", printable(proto.opcode())));
    }
    Instruction instruction;
    instruction.opcode = *opcode;
    instruction.name = proto.name();
    instruction.shape = shape(proto.shape());
    for (const int64_t id : proto.operand_ids()) {
        demand(id >= first_id && id < first_id + count, "an operand is not in the same computation");
        instruction.operands.push_back(static_cast<int32_t>(id - first_id));
    }
    instruction.parameter_number = proto.parameter_number();
    instruction.tuple_index = proto.tuple_index();
    demand(proto.has_literal() == (*opcode == Opcode::constant), "a literal belongs to a constant");
    if (proto.has_literal()) instruction.literal = literal(proto.literal(), instruction.shape);
    read_attributes(proto, instruction);
    return instruction;
}

Computation ProtoReader::computation(const hlo_proto::Computation& proto) {
    demand(proto.id() == computation_count_ + 1, "the ids of computations do not count from 1 in order");
    Computation computation;
    computation.name = proto.name();
    const int64_t first_id = next_id_;
    const int64_t count = proto.instructions_size();
    for (const auto& instruction : proto.instructions()) {
        instruction_name_ = printable(instruction.name());
        demand(instruction.id() == next_id_++, "the ids of instructions do not count from 1 in order");
        computation.instructions.push_back(this->instruction(instruction, first_id, count));
        const int64_t number = computation.instructions.back().parameter_number;
        demand(number >= 0 && number < count, "a parameter's number is none");
    }
    for (size_t place = 0; place < computation.instructions.size(); ++place) {
        instruction_name_ = printable(computation.instructions[place].name);
        demand_same(instruction_to_proto(computation, place, first_id), proto.instructions(static_cast<int>(place)));
    }
    instruction_name_.clear();
    demand(proto.root_id() >= first_id && proto.root_id() < next_id_,
           "a computation's root is none of its instructions");
    computation.root = static_cast<int32_t>(proto.root_id() - first_id);
    return computation;
}

Alias ProtoReader::alias(const hlo_proto::AliasEntry& proto, bool has_tuple) const {
    if (proto.kind() != kMustAlias || proto.parameter_shape_index_size() != 0) {
        refuse(ErrorCode::unsupported, "an alias is not of kind 'must' between a result and a whole parameter");
    }
    demand(proto.output_shape_index_size() == (has_tuple ? 1 : 0), "an alias names no result");
    return {has_tuple ? proto.output_shape_index(0) : 0, proto.parameter_number()};
}

Module ProtoReader::read() {
    Module module;
    module.name = proto_.name();
    for (const auto& computation : proto_.computations()) {
        module.computations.push_back(this->computation(computation));
        ++computation_count_;
    }
    demand(computation_count_ > 0 && proto_.entry_computation_id() == computation_count_,
           "the entry computation is not the last one");
    const Computation& entry = module.entry();
    const bool has_tuple = entry.instructions[static_cast<size_t>(entry.root)].shape.is_tuple();
    for (const auto& entry_alias : proto_.input_output_alias().entries()) {
        module.aliases.push_back(alias(entry_alias, has_tuple));
    }
    demand(proto_.has_host_program_shape(), "there is no host program shape");
    module.host_shape = program_shape(proto_.host_program_shape());
    for (auto& computation : *proto_.mutable_computations()) computation.clear_instructions();  // compared already
    demand_same(module_to_proto_without_instructions(module), proto_);
    return module;
}

}  // namespace

std::string write_proto(const Module& module) {
    hlo_proto::Module proto = module_to_proto_without_instructions(module);
    int64_t next_id = 1;
    for (int number = 0; number < proto.computations_size(); ++number) {
        const Computation& computation = module.computations[static_cast<size_t>(number)];
        for (size_t place = 0; place < computation.instructions.size(); ++place) {
            *proto.mutable_computations(number)->add_instructions() = instruction_to_proto(computation, place, next_id);
        }
        next_id += std::ssize(computation.instructions);
    }
    return proto.SerializeAsString();
}

Module read_proto(std::span<const std::byte> bytes, std::string_view where) {
    hlo_proto::Module proto;
    if (bytes.size() > kLargestProtoBytes || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        const char* fault =
            bytes.size() > kLargestProtoBytes ? "the program is larger than 32 MiB" : "this is no HLO proto";
        throw Error(ErrorCode::corrupt, fault, {{"file", std::string(where)}}, kSubset);
    }
    ProtoReader reader(proto);
    try {
        return reader.read();
    } catch (Error& error) {
        error.add_context("file", std::string(where));
        if (!reader.instruction_name().empty()) error.add_context("instruction", reader.instruction_name());
        throw error;
    }
}

}  // namespace gemmatrace::hlo
