// An interpreter that passes every operation on as it is, for tests that bend one of them.
#pragma once

#include <optional>

#include "model/ops.h"

namespace gemmatrace::support {

class ForwardingOps : public model::Ops {
  public:
    explicit ForwardingOps(model::Ops& inner) : passed_on_(inner) {}

    model::Value embeddings() override { return passed_on_.embeddings(); }
    model::Value per_layer_rows() override { return passed_on_.per_layer_rows(); }
    model::Value linear(model::Value x, model::Weight weight) override { return passed_on_.linear(x, weight); }
    model::Value rms_norm(model::Value x, std::optional<model::Weight> weight, int32_t group) override {
        return passed_on_.rms_norm(x, weight, group);
    }
    model::Value rope(model::Value x, checkpoint::AttentionKind kind, int32_t head_dim) override {
        return passed_on_.rope(x, kind, head_dim);
    }
    model::Value gelu_mul(model::Value gate, model::Value up) override { return passed_on_.gelu_mul(gate, up); }
    model::Value add(model::Value a, model::Value b) override { return passed_on_.add(a, b); }
    model::Value scale(model::Value x, double factor) override { return passed_on_.scale(x, factor); }
    model::Value multiply(model::Value x, model::Weight weight) override { return passed_on_.multiply(x, weight); }
    model::Value columns(model::Value x, int32_t first, int32_t count) override {
        return passed_on_.columns(x, first, count);
    }
    model::KeysValues keep(int32_t layer, model::Value keys, model::Value values) override {
        return passed_on_.keep(layer, keys, values);
    }
    model::Value attend(model::Value q, const model::KeysValues& kv, const checkpoint::LayerSpec& spec) override {
        return passed_on_.attend(q, kv, spec);
    }
    model::Routing route(model::Value logits, model::Weight scale, int32_t top_k) override {
        return passed_on_.route(logits, scale, top_k);
    }
    model::Value experts(model::Value x, const model::Routing& routing, model::Weight gate_up,
                         model::Weight down) override {
        return passed_on_.experts(x, routing, gate_up, down);
    }
    model::Value end_layer(int32_t layer, model::Value stream) override { return passed_on_.end_layer(layer, stream); }
    model::Value output_rows(model::Value stream) override { return passed_on_.output_rows(stream); }

  private:
    model::Ops& passed_on_;
};

}  // namespace gemmatrace::support
