"""The small checkpoints as data: shape of each family, its template, tokenizer variant and file layout."""

from dataclasses import dataclass, field

from tokenizer import MEDIA_KEYS, VOCAB_SIZE

S, F = "sliding_attention", "full_attention"

# What all families share. Every size is a multiple of 64, so that bf16 goldens can be compared bit for bit.
TEXT = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attention_k_eq_v": False,
    "bos_token_id": 2,
    "dtype": "bfloat16",
    "enable_moe_block": False,
    "eos_token_id": 1,
    "final_logit_softcapping": 30.0,
    "global_head_dim": 128,
    "head_dim": 64,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 128,
    "hidden_size_per_layer_input": 0,
    "initializer_range": 0.02,
    "intermediate_size": 256,
    "moe_intermediate_size": None,
    "num_attention_heads": 4,
    "num_experts": None,
    "num_global_key_value_heads": None,
    "num_key_value_heads": 1,
    "num_kv_shared_layers": 0,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {
        S: {"rope_theta": 10000.0, "rope_type": "default"},
        F: {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    },
    "sliding_window": 64,
    "tie_word_embeddings": True,
    "top_k_experts": None,
    "use_bidirectional_attention": None,
    "use_cache": True,
    "use_double_wide_mlp": False,
    "vocab_size": VOCAB_SIZE,
    "vocab_size_per_layer_input": VOCAB_SIZE,
}


@dataclass
class Family:
    layers: list  # layer types; the last one is full
    text: dict  # what differs from TEXT
    unified: bool = False
    template: str = "effective"
    positions: int = 131072
    tokenizer: dict = field(default_factory=dict)  # variants of tokenizer.tokenizer_json
    generation: dict = field(default_factory=dict)
    stored_unused_kv: bool = False  # k_proj, v_proj and k_norm of shared layers, which nothing reads
    shards: int = 1

    def text_config(self):
        kind = "gemma4_unified_text" if self.unified else "gemma4_text"
        text = (
            TEXT
            | {
                "model_type": kind,
                "layer_types": self.layers,
                "num_hidden_layers": len(self.layers),
                "max_position_embeddings": self.positions,
            }
            | self.text
        )
        if self.unified:
            for key in (
                "hidden_size_per_layer_input",
                "vocab_size_per_layer_input",
                "enable_moe_block",
                "num_experts",
                "top_k_experts",
                "moe_intermediate_size",
                "use_double_wide_mlp",
            ):
                del text[key]
        return dict(sorted(text.items()))

    def config(self, tokens):
        name = "Gemma4UnifiedForConditionalGeneration" if self.unified else "Gemma4ForConditionalGeneration"
        media = {key: tokens.index(token) for key, token in MEDIA_KEYS.items()}
        return {
            "architectures": [name],
            "audio_config": None,
            "dtype": "bfloat16",
            "eos_token_id": [1, 106],
            "initializer_range": 0.02,
            "model_type": "gemma4_unified" if self.unified else "gemma4",
            "text_config": self.text_config(),
            "tie_word_embeddings": True,
            "transformers_version": "5.13.0",
            "vision_config": None,
        } | media


EFFECTIVE = {"hidden_size_per_layer_input": 64}
LARGE = {
    "attention_k_eq_v": True,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "use_bidirectional_attention": "vision",
}
SAMPLED = {"do_sample": True, "temperature": 1.0, "top_k": 64, "top_p": 0.95}

# Two donors could be mistaken in each E-like family: more than one layer of each type stands before the shared part.
FAMILIES = {
    "demo": Family(
        [S, S, F, S, F] + [S, S, F, S, F], EFFECTIVE | {"num_kv_shared_layers": 5, "use_double_wide_mlp": True}
    ),
    "e2b": Family(
        [S, F, S, F] + [S, S, F],
        EFFECTIVE | {"num_kv_shared_layers": 3, "use_double_wide_mlp": True},
        generation=SAMPLED,
        stored_unused_kv=True,
    ),
    "e4b": Family(
        [F, S, S, F] + [S, S, F],
        EFFECTIVE | {"num_kv_shared_layers": 3, "num_key_value_heads": 2},
        generation=SAMPLED,
        tokenizer={"newlines_are_added": True, "old_merges": True},
    ),
    "12b": Family(
        [S, S, F] * 2,
        LARGE,
        unified=True,
        template="large",
        positions=262144,
        generation=SAMPLED | {"suppress_tokens": ["<audio|>", "<image|>"]},
    ),
    "26b-a4b": Family(
        [S, F] * 2,
        LARGE
        | {
            "enable_moe_block": True,
            "intermediate_size": 128,
            "num_experts": 8,
            "top_k_experts": 2,
            "moe_intermediate_size": 64,
        },
        template="large",
        positions=262144,
        generation=SAMPLED,
    ),
    "31b": Family(
        [S, S, S, F] * 2,
        LARGE | {"num_global_key_value_heads": 2},
        template="large",
        positions=262144,
        generation=SAMPLED,
        shards=3,
    ),
}
