// The ledger: every stored tensor is consumed exactly once or stands on a named ignore list, every slot of the model is
// filled from a stored tensor of exactly its shape; nothing is defaulted, nothing padded.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"

namespace gemmatrace::checkpoint {

// Why a stored tensor may stay unread.
enum class IgnoreReason {
    vision_tower,  // image tower and embedders
    audio_tower,
    shared_layer_kv,  // k_proj, v_proj, k_norm of a layer that reads a donor's keys and values
    equal_head,       // an lm_head.weight equal to the embedding
};
std::string_view ignore_reason_name(IgnoreReason reason);

class Ledger {
  public:
    // Text tensors are found under any prefix that 5.13 accepts for the model type ("model.language_model." and
    // "language_model.", or "model." and "" of a text export); the store must use one of them throughout. Keeps
    // references to both arguments. Throws Error(mismatch) when none fits.
    Ledger(const TensorStore& store, const ModelConfig& config);

    // Takes the tensor that fills a slot, e.g. take("layers.3.layer_scalar", {1}). The name is without the prefix.
    // Throws Error(mismatch) when it is absent, has another shape, has no floating dtype this program reads (bf16, f16,
    // f32) or was taken before.
    const StoredTensor& take(std::string_view name, std::span<const int64_t> shape);

    // The output head: the stored lm_head.weight if there is one and it differs from the embedding (as Transformers
    // 5.13 treats it), otherwise nothing: the head is tied. Call after the embedding was taken. Throws Error(mismatch)
    // for a head of another shape, and when the config says untied but no head is stored.
    const StoredTensor* take_untied_head(const StoredTensor& embedding);

    // Puts what is left on the ignore list or refuses: Error(mismatch) naming every tensor that nobody reads.
    void close();

    struct Ignored {
        std::string name;
        IgnoreReason reason;
    };
    const std::string& prefix() const { return prefix_; }
    const std::set<std::string>& consumed() const { return consumed_; }  // full stored names
    const std::vector<Ignored>& ignored() const { return ignored_; }     // filled by close()

  private:
    const StoredTensor& take_stored(const std::string& name, std::span<const int64_t> shape);
    std::optional<IgnoreReason> reason_to_ignore(std::string_view stored_name) const;

    const TensorStore& store_;
    const ModelConfig& config_;
    std::string prefix_;
    std::set<std::string> consumed_;
    std::vector<Ignored> ignored_;
};

}  // namespace gemmatrace::checkpoint
