// rope_parameters: the three types that 5.13 can build for Gemma 4 with a fixed table.
#include "checkpoint/rope_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "base/printable.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr Bounds<double> kThetas{1e-6, 1e12};
constexpr Bounds<double> kFactors{1e-6, 1e6};
constexpr Bounds<double> kRotaryShares{0.0, 1.0};

std::string_view entry_name(AttentionKind kind) {
    return kind == AttentionKind::full ? "full_attention" : "sliding_attention";
}

// What a type and a share of rotated dimensions make of the head sizes.
RopeSpec rope_of_type(const Fields& entry, const std::string& type, double share, const RopeDims& dims) {
    const auto check_fit = [&](int32_t table_dim) {
        if (table_dim == dims.layer) return;
        throw entry.error(ErrorCode::corrupt, "rope_type",
                          fmt::format("\"{}\" makes a table for heads of {}, but these layers have heads of {}", type,
                                      table_dim, dims.layer),
                          "use the rope_parameters and head sizes that the checkpoint was published with");
    };
    RopeSpec rope;
    rope.rotated_pairs = dims.layer / 2;
    if (type == "default") {
        check_fit(dims.plain);
    } else if (type == "linear") {
        check_fit(static_cast<int32_t>(dims.plain * share));
        if (!entry.contains("factor")) {
            throw entry.error(ErrorCode::corrupt, "factor", "is missing", "state the factor of the linear scaling");
        }
        rope.factor = *entry.optional_number("factor", kFactors);
    } else if (type == "proportional") {
        check_fit(dims.proportional);
        rope.rotated_pairs = static_cast<int32_t>(std::floor(share * dims.proportional / 2));
        rope.factor = entry.optional_number("factor", kFactors).value_or(1.0);
    } else {
        throw entry.error(ErrorCode::unsupported, "rope_type", fmt::format("is \"{}\"", printable(type)),
                          "rope types default, linear and proportional are supported");
    }
    return rope;
}

}  // namespace

RopeSpec read_rope(const Fields& text, AttentionKind kind, const RopeDims& dims, bool has_both_kinds) {
    static const nlohmann::ordered_json kDefaults = {
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
        {"full_attention",
         {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1000000.0}}}};
    const auto* given = text.find("rope_parameters");
    const Fields parameters(given == nullptr ? kDefaults : *given, text.file(), text.field_name("rope_parameters"));
    const auto* entry_value = parameters.find(entry_name(kind));
    if (entry_value == nullptr) {
        throw parameters.error(ErrorCode::corrupt, entry_name(kind), "is missing, but there are layers of this kind",
                               "add the entry, or fetch the file again");
    }
    const Fields entry(*entry_value, text.file(), parameters.field_name(entry_name(kind)));
    const std::string type = entry.text("rope_type", entry.text("type", "default"));
    std::optional<double> share = entry.optional_number("partial_rotary_factor", kRotaryShares);
    if (has_both_kinds) {
        const auto flat = text.optional_number("partial_rotary_factor", kRotaryShares);
        if (flat) share = flat;
    }
    RopeSpec rope = rope_of_type(entry, type, share.value_or(1.0), dims);
    const auto theta = entry.optional_number("rope_theta", kThetas);
    if (!theta) {
        throw entry.error(ErrorCode::corrupt, "rope_theta", "is missing", "add the base of the rotary embedding");
    }
    rope.theta = *theta;
    return rope;
}

}  // namespace gemmatrace::checkpoint
